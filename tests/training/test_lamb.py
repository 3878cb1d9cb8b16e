"""LAMB against steps worked out by hand (in plain Python, on a tensor of two numbers).

Seen to fail when: the moments are corrected for their start; the step is not scaled by the length of the weights, or by a length
that is not cut at 10; a weight of length 0 never moves; the
decay is left out of the direction, or moves the weights by itself; a second step forgets the moments; ε stands inside the root;
query, key and value, which are one tensor here, are scaled as one layer.
"""

from __future__ import annotations

import math

import pytest
import torch
from small_body import small_body
from torch import nn

from pretrieve.models.encoder import make_body
from pretrieve.training.optimiser import LARGEST_NORM, Lamb, OptimiserConfig, make_optimiser


def moved(start: list[float], gradients: list[list[float]], lr: float = 0.1, **options) -> list[list[float]]:
    """Where the weights are after each step."""
    weights = nn.Parameter(torch.tensor(start))
    optimiser, seen = Lamb([weights], lr, **options), []
    for gradient in gradients:
        weights.grad = torch.tensor(gradient)
        optimiser.step()
        seen.append(weights.tolist())
    return seen


def test_two_steps_by_hand() -> None:
    """‖(3, 4)‖ = 5. Both gradients of the first step have the same size, so its direction is (1, −1)/√2 and its length 0.1·5."""
    first, second = moved([3.0, 4.0], [[1.0, -1.0], [0.0, 2.0]])
    step = 0.1 * 5 / math.sqrt(2)
    assert first == pytest.approx([3 - step, 4 + step], abs=1e-5)
    # m = 0.9·(0.1, −0.1) + 0.1·(0, 2), v = 0.999·(0.001, 0.001) + 0.001·(0, 4)
    direction = [0.09 / math.sqrt(0.000999), 0.11 / math.sqrt(0.004999)]
    factor = 0.1 * math.hypot(*first) / math.hypot(*direction)
    assert second == pytest.approx([x - factor * r for x, r in zip(first, direction, strict=True)], abs=1e-5)


def test_the_length_of_a_step_is_that_of_the_weights() -> None:
    """Whatever the gradient's size; but no more than 10 of it, and 1 for weights that are all 0."""
    for start, expected in ([3.0, 4.0], 0.5), ([30.0, 40.0], 0.1 * LARGEST_NORM):
        for size in (1e-3, 1.0, 1e3):
            ((x, y),) = moved(start, [[size, 0.5 * size]])
            assert math.hypot(x - start[0], y - start[1]) == pytest.approx(expected, rel=1e-4)
    # m/√v is 0.1/√0.001 without bias correction; nothing scales it where there is no length to take.
    assert moved([0.0, 0.0], [[1.0, -2.0]]) == [pytest.approx([-0.1 * math.sqrt(10), 0.1 * math.sqrt(10)], rel=1e-4)]
    assert moved([1.0, 2.0], [[0.0, 0.0]]) == [[1.0, 2.0]]


def test_weight_decay_turns_the_direction() -> None:
    """u = r + λx, and the whole of u is scaled to the length of x."""
    ((x, y),) = moved([3.0, 4.0], [[1.0, -1.0]], weight_decay=0.5)
    root = math.sqrt(10)
    u = (root + 1.5, -root + 2.0)
    factor = 0.1 * 5 / math.hypot(*u)
    assert (x, y) == pytest.approx((3 - factor * u[0], 4 - factor * u[1]), abs=1e-5)


def test_eps_is_added_to_the_root() -> None:
    """r = 0.1·g / (√0.001·g + ε): with ε = √0.001 and g = 1 half of what it is without."""
    small = moved([0.0], [[1.0]], eps=math.sqrt(0.001))
    assert small == [pytest.approx([-0.1 * math.sqrt(10) / 2], rel=1e-4)]


def test_each_tensor_has_a_length_of_its_own_and_none_without_a_gradient_moves() -> None:
    small, large, left = (nn.Parameter(torch.full((2,), value)) for value in (0.1, 5.0, 1.0))
    small.grad, large.grad = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1.0])
    optimiser = Lamb([small, large, left], 0.1)
    optimiser.step()
    assert small.tolist() == pytest.approx([0.09, 0.09]) and large.tolist() == pytest.approx([4.5, 4.5])
    assert left.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["transformer", "t5"])
def test_query_key_and_value_are_three_layers(kind: str) -> None:
    """As in SEED-Encoder, where each has a tensor of its own. Values are twenty times as large as queries."""
    body = make_body(small_body(20, kind=kind), 1)
    joined = {name: one for name, one in body.named_parameters() if ".qkv." in name}
    assert len(joined) == (4 if kind == "transformer" else 2)
    generator, alone = torch.Generator().manual_seed(2), {}
    for name, one in joined.items():
        sizes = zip(one.chunk(3), (0.01, 0.1, 0.2), strict=True)
        parts = [size * torch.randn(part.shape, generator=generator) for part, size in sizes]
        one.data, alone[name] = torch.cat(parts), [nn.Parameter(part) for part in parts]
    config = OptimiserConfig(2, 0.1, name="lamb", weight_decay=0.0)
    optimiser, other = make_optimiser(body, config), Lamb([part for parts in alone.values() for part in parts], 0.1)
    for _ in range(2):
        for name, one in joined.items():
            one.grad = torch.randn(one.shape, generator=generator)
            for part, gradient in zip(alone[name], one.grad.chunk(3), strict=True):
                part.grad = gradient.clone()
        optimiser.step()
        other.step()
    for name, one in joined.items():
        torch.testing.assert_close(one.data, torch.cat([part.data for part in alone[name]]))
