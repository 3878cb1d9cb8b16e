"""SEED-Encoder against a plain implementation: padded, logits everywhere, on transformers and torch.nn modules.

Seen to fail when: the decoder reads the masked text; its target is the word it reads; the vector is the last token's state, or
the mean; both terms are divided by the same count; micro-batch means are averaged; LayerNorm comes behind each block; the
final norm is left out; embeddings are scaled by √d, or not normalised; the span is one wider; words of input and output are
not the same; the decoder also gets the other states.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from condenser_reference import bert_config
from small_body import interrupt_after, small_body
from torch import nn
from torch.nn import functional
from transformers import BertForMaskedLM

from pretrieve.base.errors import ConfigError
from pretrieve.models.checkpoint_names import BERT
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.transformer import seeded
from pretrieve.pretraining.examples import Masked, Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.seed_encoder import SeedEncoder
from pretrieve.text.packing import Packed
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.objective import MicroBatch
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

CONFIG = small_body(50, (24, 2, 4, 40), max_positions=33, std=0.2, word_std=0.5)
CLS, SEP, MASK = 2, 3, 4
LENGTHS = {
    "mixed": [33, 32, 30, 21, 20, 12, 9, 4, 3, 3],
    "all": list(range(33, 2, -1)),
    "equal": [12] * 5,
    "shortest": [3],
    "longest": [33, 3],
}
#: Body → Bert; word head → BertForMaskedLM's; decoder layer → torch.nn.TransformerDecoderLayer.
HEAD_NAMES = {"transform": "transform.dense", "norm": "transform.LayerNorm"}
LAYER_NAMES = {
    "attention.output": "self_attn.out_proj",
    "cross.output": "multihead_attn.out_proj",
    "up": "linear1",
    "down": "linear2",
    "attention_norm": "norm1",
    "cross_norm": "norm2",
    "output_norm": "norm3",
}


def objective_of(
    name: str, store, config: BodyConfig, preset: str | None = None, seed: int = 0, **changes
) -> SeedEncoder:
    """A fresh objective; ``changes`` of its options, or batch, length, budget."""
    batch, length, budget = (changes.pop(key, value) for key, value in (("batch", 8), ("length", 24), ("budget", None)))
    options = resolve(name, preset, changes, "encoders.x") | {"name": name, "length": length}
    return build_objective(
        Setting(options, batch, Encoder(config, 8, "cls", seed), store, seed, torch.device("cpu"), budget)
    )


def disturb(module: nn.Module, scale: float = 0.2) -> None:
    """All weights random, biases and norms too."""
    generator = seeded(3)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            mean = 1.0 if "norm.weight" in name else 0.0
            parameter.copy_(mean + scale * torch.randn(parameter.shape, generator=generator))


def masked_of(lengths: list[int], seed: int = 0) -> Masked:
    """[CLS] words [SEP], with a third of the words, and at least one, replaced by [MASK] or another word."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, CONFIG.vocabulary_size, sum(lengths))
    sizes = np.array(lengths)
    ends = np.cumsum(sizes)
    tokens[ends - sizes], tokens[ends - 1] = CLS, SEP
    ordinary = [np.arange(end - size + 1, end - 1) for end, size in zip(ends, sizes, strict=True)]
    positions = np.sort(np.concatenate([rng.choice(rows, max(1, len(rows) // 3), replace=False) for rows in ordinary]))
    corrupted = tokens.copy()
    corrupted[positions] = np.where(rng.random(len(positions)) < 0.8, MASK, rng.integers(5, 50, len(positions)))
    packed = Packed(corrupted, np.zeros_like(tokens), sizes, np.arange(len(sizes)))
    return Masked(packed, tokens, positions, rng.permutation(1000)[: len(sizes)])


class Reference:
    """BertForMaskedLM and torch.nn.TransformerDecoder, padded, with the objective's weights."""

    def __init__(self, objective: SeedEncoder, layers: int, span: int | str) -> None:
        config = objective.body.config
        self.span, self.objective = span, objective
        self.bert = BertForMaskedLM(bert_config(config))
        layer = nn.TransformerDecoderLayer(
            config.hidden, config.heads, config.feed_forward, 0.0, "gelu", config.layer_norm_eps, True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, layers, nn.LayerNorm(config.hidden, eps=config.layer_norm_eps))
        self.positions = nn.Embedding(config.max_positions, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.parts = nn.ModuleDict(
            {"bert": self.bert, "decoder": self.decoder, "positions": self.positions, "norm": self.norm}
        )
        weights = self.translate(dict(objective.module.named_parameters()))
        # BertForMaskedLM's output matrix and bias are tied to those that are given.
        predictions = self.bert.cls.predictions
        assert predictions.decoder.bias is predictions.bias
        assert predictions.decoder.weight is self.bert.bert.embeddings.word_embeddings.weight
        found = self.parts.load_state_dict({name: value.detach() for name, value in weights.items()}, strict=False)
        lacking = [name for name in found.missing_keys if not name.startswith("bert.cls.predictions.decoder.")]
        assert not found.unexpected_keys
        assert not lacking or ("mlm" not in objective.terms and all("cls.predictions" in name for name in lacking))
        self.parts.eval()

    def translate(self, ours: dict[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """Our names (weights or gradients) → this module's; a missing gradient counts as 0."""
        weights = dict(self.objective.module.named_parameters())
        ours = {name: torch.zeros_like(weights[name]) if value is None else value for name, value in ours.items()}
        body = {name.removeprefix("body."): value for name, value in ours.items() if name.startswith("body.")}
        result = {f"bert.bert.{name}": value for name, value in BERT.theirs(body).items()}
        for name, value in ours.items():
            part, _, rest = name.partition(".")
            module, _, kind = rest.rpartition(".")
            if part == "mlm":
                inner = f"{HEAD_NAMES[module]}.{kind}" if module else kind
                result[f"bert.cls.predictions.{inner}"] = value
            elif part == "decoder" and rest.startswith("layers."):
                _, index, inner = module.split(".", 2)
                prefix = f"decoder.layers.{index}."
                if inner == "attention.qkv":
                    result[f"{prefix}self_attn.in_proj_{kind}"] = value
                elif inner == "cross.query":
                    joint = [
                        ours[f"decoder.layers.{index}.cross.{which}.{kind}"] for which in ("query", "key", "value")
                    ]
                    result[f"{prefix}multihead_attn.in_proj_{kind}"] = torch.cat(joint)
                elif inner in LAYER_NAMES:
                    result[f"{prefix}{LAYER_NAMES[inner]}.{kind}"] = value
            elif part == "decoder":
                theirs = {"positions": "positions", "embedding_norm": "norm", "final_norm": "decoder.norm"}[module]
                result[f"{theirs}.{kind}"] = value
        return result

    def means(self, masked: Masked) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean losses of the masked words, and of all words behind [CLS]."""
        packed = masked.corrupted
        n, longest = len(packed.lengths), int(packed.lengths[0])
        read, text, labels = torch.zeros(n, longest), torch.zeros(n, longest), torch.full((n, longest), -100)
        read, text = read.long(), text.long()
        for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
            read[i, :length] = torch.from_numpy(packed.tokens[start : start + length])
            text[i, :length] = torch.from_numpy(masked.original[start : start + length])
            for row in masked.positions[(masked.positions >= start) & (masked.positions < start + length)]:
                labels[i, row - start] = int(masked.original[row])
        real = torch.arange(longest)[None] < torch.from_numpy(packed.lengths)[:, None]
        output = self.bert(
            input_ids=read, attention_mask=real.long(), labels=labels, output_hidden_states=True, return_dict=True
        )
        self.cls = output.hidden_states[-1][:, 0]
        return output.loss, self.decode(text, real, self.bottleneck(self.cls))

    def bottleneck(self, cls: torch.Tensor) -> torch.Tensor:
        return cls

    def decode(self, text: torch.Tensor, real: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """fairseq's shift: it reads all but the last column, and predicts all but the first where that is a word."""
        length = text.shape[1] - 1
        words = self.bert.bert.embeddings.word_embeddings
        x = self.norm(words(text[:, :-1]) + self.positions(torch.arange(length)))
        barred = torch.full((length, length), -torch.inf)
        mask = torch.triu(barred, 1)
        if self.span != "all":
            mask = mask + torch.triu(barred, self.span).T
            mask[:, 0] = 0
        states = self.decoder(
            x,
            vectors[:, None],
            tgt_mask=mask,
            tgt_key_padding_mask=torch.zeros(real[:, 1:].shape).masked_fill(~real[:, :-1], -torch.inf),
        )
        targets = text[:, 1:].masked_fill(~real[:, 1:], -100)
        return functional.cross_entropy((states @ words.weight.T).flatten(0, 1), targets.flatten(), ignore_index=-100)


def same_gradients(objective: SeedEncoder, reference: Reference) -> None:
    """To 1e-4 of the largest number of each gradient, or of 1."""
    ours = reference.translate({name: parameter.grad for name, parameter in objective.module.named_parameters()})
    theirs = {name: p.grad for name, p in reference.parts.named_parameters() if p.grad is not None}
    assert len(ours) > 30 and set(theirs) <= set(ours)
    for name, gradient in ours.items():
        expected = theirs.get(name)
        if expected is None:
            assert not gradient.any(), name
            continue
        scale = max(1.0, float(expected.abs().max()))
        assert float((gradient - expected).abs().max()) <= 1e-4 * scale, name
        # Keys' biases, and the norm in front of the idle query, change nothing.
        assert float(expected.abs().max()) > 1e-4 or "key.bias" in name or "norm2" in name, name


def total(objective: SeedEncoder, masked: Masked) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The weighted sum that the loop makes of the terms, and their means."""
    counts = objective.counts(masked)
    sums = objective.losses(MicroBatch(masked, counts, len(masked.original)))
    assert set(sums) == set(objective.terms)
    means = {term: value / counts[term] for term, value in sums.items()}
    return sum(objective.terms[term] * value for term, value in means.items()), means


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    ("preset", "layers", "span"),
    [("paper", 3, 2), ("official_code", 3, 2), ("paper", 1, 8), ("official_code", 2, "all")],
)
def test_same_as_a_plain_implementation(store, preset: str, layers: int, span: int | str, lengths: str) -> None:
    objective = objective_of("seed-encoder", store, CONFIG, preset, decoder_layers=layers, span=span)
    disturb(objective.module)
    reference = Reference(objective, layers, span)
    masked = masked_of(LENGTHS[lengths], seed=layers)
    loss, means = total(objective, masked)
    mlm, decoder = reference.means(masked)
    weight = {"paper": 1.0, "official_code": 0.5}[preset]
    expected = weight * mlm + weight * decoder
    assert float(mlm.detach()) > 1 and float(decoder.detach()) > 1
    assert float(means["mlm"].detach()) == pytest.approx(float(mlm.detach()), abs=1e-5, rel=1e-6)
    assert float(means["decoder"].detach()) == pytest.approx(float(decoder.detach()), abs=1e-5, rel=1e-6)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), abs=1e-5, rel=1e-6)
    loss.backward()
    expected.backward()
    same_gradients(objective, reference)


def test_the_decoder_knows_the_masked_words_and_the_encoder_does_not(store) -> None:
    objective = objective_of("seed-encoder", store, CONFIG)
    disturb(objective.module)
    masked = masked_of(LENGTHS["mixed"])
    other = masked.original.copy()
    other[masked.positions] = (other[masked.positions] - 4) % 45 + 5
    assert (other != masked.original).sum() == len(masked.positions) and (other >= 5).sum() == (
        masked.original >= 5
    ).sum()
    changed = Masked(masked.corrupted, other, masked.positions, masked.draws)
    states = []
    objective.body.register_forward_hook(lambda module, given, result: states.append(result.detach()))
    first, second = (total(objective, each)[1] for each in (masked, changed))
    # NaN where no one reads them.
    assert (
        torch.equal(states[0].nan_to_num(), states[1].nan_to_num()) and float(states[0].nan_to_num().abs().max()) > 0.1
    )
    assert float((first["decoder"] - second["decoder"]).detach().abs()) > 1e-3


def test_the_decoder_sees_the_encoder_through_cls_alone(store) -> None:
    objective = objective_of("seed-encoder", store, CONFIG)
    disturb(objective.module)
    masked = masked_of(LENGTHS["mixed"])
    states: list[torch.Tensor] = []

    def keep(module: nn.Module, given: tuple, result: torch.Tensor) -> None:
        result.retain_grad()
        states.append(result)

    objective.body.register_forward_hook(keep)
    for term in ("decoder", "mlm"):
        total(objective, masked)[1][term].backward()
    decoder, mlm = (state.grad.abs().sum(1) > 0 for state in states)
    rows = torch.zeros(len(masked.original), dtype=torch.bool)
    rows[torch.from_numpy(masked.corrupted.starts)] = True
    assert torch.equal(decoder, rows)
    rows = torch.zeros_like(rows)
    rows[torch.from_numpy(masked.positions)] = True
    assert torch.equal(mlm, rows)


def cuts(store, body: BodyConfig, cpu, **options) -> None:
    """Many micro-batches, on one device or three, give the sums and gradients of one."""
    results = []
    for budget, parts in ((10**6, 1), (40, 1), (10**6, 3)):
        objective = objective_of(store=store, config=body, budget=budget, batch=16, **options)
        disturb(objective.module)
        batches = objective.micro_batches(2, parts)
        assert len(batches) == 1 if (budget, parts) == (10**6, 1) else len(batches) >= 3
        done = accumulate(objective, batches, cpu, Processes(), (0, 2))
        gradients = {n: p.grad for n, p in objective.module.named_parameters() if p.grad is not None}
        results.append((done.means, gradients, {t: sum(b.counts[t] for b in batches) for t in objective.terms}))
        if budget == 40:
            own = [float(objective.losses(b)["decoder"].detach()) / b.counts["decoder"] for b in batches]
            assert abs(np.mean(own) - done.means["decoder"]) > 2e-4  # a mean of means is another number
    (means, gradients, counts), *others = results
    assert min(counts.values()) > 0
    for other, theirs, number in others:
        assert number == counts and other == pytest.approx(means, rel=1e-5)
        assert theirs.keys() == gradients.keys() and len(gradients) > 20
        for name, value in gradients.items():
            assert float((theirs[name] - value).abs().max()) <= 1e-5 * max(1.0, float(value.abs().max())), name


@pytest.mark.parametrize("preset", ["paper", "official_code"])
def test_cuts_do_not_matter(store, body, cpu, preset: str) -> None:
    cuts(store, body, cpu, name="seed-encoder", preset=preset)


def test_counts(store, body) -> None:
    objective = objective_of("seed-encoder", store, body)
    (batch,) = objective.micro_batches(0)
    assert batch.counts == {
        "mlm": len(batch.data.positions),
        "decoder": sum(int(length) - 1 for length in batch.data.corrupted.lengths),
    }
    assert batch.tokens == batch.counts["decoder"] + 8


def test_where_the_losses_begin(store) -> None:
    """Near ln V + d·word_std²/2. With wide words the decoder begins above it, as it favours the word it has read."""
    masked = masked_of([33] * 12)
    for word_std in (0.02, 0.3):
        config = BodyConfig(**{**CONFIG.to_dict(), "std": 0.02, "word_std": word_std})
        objective = objective_of("seed-encoder", store, config)
        _, means = total(objective, masked)
        expected = np.log(50) + 24 * word_std**2 / 2
        assert float(means["mlm"].detach()) == pytest.approx(expected, rel=0.15)
        if word_std == 0.02:
            assert float(means["decoder"].detach()) == pytest.approx(expected, rel=0.02)
        else:
            assert float(means["decoder"].detach()) > 1.2 * expected
        assert objective.word_terms == ("mlm",)


def learns(objective: SeedEncoder, cpu, steps: int = 40) -> None:
    """Every term falls, and what is trained has moved."""
    before = {name: value.clone() for name, value in objective.module.state_dict().items()}
    curve = train(objective, OptimiserConfig(steps, 1e-2), RunSettings(cpu, 1)).curve
    for term in ("mlm", "decoder"):
        if term in objective.terms:
            first, last = (np.mean([row[term] for row in rows]) for rows in (curve[:4], curve[-4:]))
            assert last < first - 0.3, (term, first, last)
    moved = {name for name, value in objective.module.state_dict().items() if not torch.equal(value, before[name])}
    still = set(before) - moved
    assert all(".cross.query." in n or ".cross.key." in n or ".cross_norm." in n for n in still) and still


def test_learns(store, body, cpu) -> None:
    objective = objective_of("seed-encoder", store, body, batch=8, length=40)
    assert list(objective.module) == ["body", "decoder", "mlm"]
    assert objective.terms == {"mlm": 0.5, "decoder": 0.5}
    learns(objective, cpu)


def resumes(make, cpu, tmp_path) -> None:
    """A run that stops after step 3 of 6 and goes on ends with the same bits; idle weights have no moments to restore."""
    config = OptimiserConfig(6, 1e-2)
    straight = make()
    train(straight, config, RunSettings(cpu, 1))

    checkpoints = Checkpoints(tmp_path / "state", "key")
    with pytest.raises(KeyboardInterrupt):
        train(make(), config, RunSettings(cpu, 1, 0.0), checkpoints, interrupt_after(4))
    assert checkpoints.latest().step == 4
    resumed = make()
    train(resumed, config, RunSettings(cpu, 1), checkpoints)
    expected = straight.module.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.module.state_dict().items())


def test_goes_on_where_it_stopped(store, body, cpu, tmp_path) -> None:
    dropout = BodyConfig(**{**body.to_dict(), "dropout": 0.1})
    resumes(lambda: objective_of("seed-encoder", store, dropout), cpu, tmp_path)


def test_a_term_of_weight_zero(store, body) -> None:
    objective = objective_of("seed-encoder", store, body, mlm_weight=0.0)
    assert objective.terms == {"decoder": 0.5} and list(objective.module) == ["body", "decoder"]
    whole = objective_of("seed-encoder", store, body)
    (batch,) = whole.micro_batches(0)
    alone, both = (each.losses(batch)["decoder"].item() for each in (objective, whole))
    assert alone == pytest.approx(both, rel=1e-5) and alone > 10
    with pytest.raises(ConfigError, match="nothing trains the decoder"):
        objective_of("seed-encoder", store, body, decoder_weight=0.0)
