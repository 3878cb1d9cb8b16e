"""The gradients of one global batch: accumulation, and the gradient cache for contrastive losses.

**Accumulation.** Each micro-batch's loss sums are divided by the counts of the global batch before the backward pass.

**Gradient cache** (Gao et al. 2021, *Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup*). An in-batch
softmax needs the vectors of all examples at once, but its gradient with respect to the weights is
``Σ_i (∂L/∂v_i)·(∂v_i/∂w)``, so the encoder's graph is never needed for more than one micro-batch:

1. encode every micro-batch but the last without a graph, the last one with it, and keep the vectors;
2. compute the loss over all vectors, and its gradient with respect to them;
3. pass that gradient on in the last micro-batch; encode every other one again, with a graph, and pass it on there.

So there is never more than one graph, and with m micro-batches a step costs 1 + (m − 1)/3m of a direct one. The dropout of both
passes is the same, because it is seeded by (seed, step, micro-batch). With a single micro-batch nothing is computed twice. In
several processes, each encodes its own share, the vectors go to all, each computes the whole loss and keeps the gradient of its
own vectors: negatives are those of the global batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pretrieve.training.device import Device
from pretrieve.training.objective import ContrastiveObjective, MicroBatch, Objective
from pretrieve.training.processes import Processes


@dataclass
class Accumulated:
    """means: loss term → its mean over the global batch, in every process; bad: micro-batches with a loss that is not finite,
    as far as this process has seen them."""

    means: dict[str, float]
    bad: list[MicroBatch]


def accumulate(
    objective: Objective | ContrastiveObjective,
    batches: list[MicroBatch],
    device: Device,
    processes: Processes,
    seeds: tuple[int, int],
) -> Accumulated:
    """Add this process's share of the gradient of ``Σ weight · mean`` to the parameters; ``seeds`` is (seed, step)."""
    totals = {term: sum(batch.counts.get(term, 0) for batch in batches) for term in objective.terms}
    own = processes.share(batches)
    # On the device: a term of which this process has no part is a zero there too, and nccl adds nothing else.
    sums = {term: torch.zeros((), dtype=torch.float64, device=device.device) for term in objective.terms}
    seen: list[tuple[MicroBatch, torch.Tensor]] = []

    def weigh(losses: dict[str, torch.Tensor]) -> torch.Tensor:
        return sum(objective.terms[t] * value.float() / max(totals[t], 1) for t, value in losses.items())

    def note(batch: MicroBatch, losses: dict[str, torch.Tensor]) -> None:
        for term, value in losses.items():
            value = value.detach().double().reshape(())
            sums[term] = sums[term] + value
            seen.append((batch, value))

    if not isinstance(objective, ContrastiveObjective):
        for number, batch in own:
            _seed_dropout(*seeds, number)
            with device.autocast():
                losses = objective.losses(batch)
            weigh(losses).backward()
            note(batch, losses)
        return _finish(sums, totals, seen, processes)

    def encode(number: int, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        _seed_dropout(*seeds, number)
        with device.autocast():
            return objective.vectors(batch, with_losses)

    kept = own[-1][0] if own else -1
    encoded = {}
    for number, batch in own:
        with torch.set_grad_enabled(number == kept):
            encoded[number] = encode(number, batch, number == kept)
    gathered = processes.gather_parts({n: v.float() for n, (v, _) in encoded.items()}, [b.rows for b in batches])
    leaves = [part.requires_grad_() for part in gathered]
    contrast = objective.contrast(leaves, batches)
    weigh(contrast).backward()
    for number, batch in reversed(own):
        vectors, losses = encoded[number] if number == kept else encode(number, batch, True)
        # Vectors of a frozen body have no graph (pretrieve.training.optimiser).
        ends, gradients = ([vectors], [leaves[number].grad.to(vectors.dtype)]) if vectors.requires_grad else ([], [])
        if losses:
            ends.append(weigh(losses))
            gradients.append(None)
        if ends:
            torch.autograd.backward(ends, gradients)
        note(batch, losses)
    result = _finish(sums, totals, seen, processes)
    # Every process has the whole contrast; it is not a sum over processes.
    for term, value in contrast.items():
        result.means[term] = float(value.detach().double()) / max(totals[term], 1)
        if not math.isfinite(result.means[term]) and not result.bad:
            # The vectors of every micro-batch are here, so every process can name those that spoilt the loss.
            spoilt = [bool(part.isfinite().logical_not().any()) for part in leaves]
            result.bad = [batch for batch, bad in zip(batches, spoilt, strict=True) if bad or not any(spoilt)]
    return result


def _seed_dropout(seed: int, step: int, number: int) -> None:
    torch.manual_seed(((seed * 1_000_003 + step) * 4_099 + number) % 2**63)


def _finish(
    sums: dict[str, torch.Tensor],
    totals: dict[str, int],
    seen: list[tuple[MicroBatch, torch.Tensor]],
    processes: Processes,
) -> Accumulated:
    values = processes.add(torch.stack(list(sums.values()))).tolist()
    means = {term: value / max(totals[term], 1) for term, value in zip(sums, values, strict=True)}
    if all(map(math.isfinite, values)):
        return Accumulated(means, [])
    # Several terms of one micro-batch can be wrong; it is named once.
    return Accumulated(means, list({id(batch): batch for batch, value in seen if not bool(value.isfinite())}.values()))
