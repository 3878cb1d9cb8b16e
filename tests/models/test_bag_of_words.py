"""The bag-of-words loss by hand and against full logits, in value and in every gradient.

Tolerance: 1e-5 of the largest entry in float32; under bf16 autocast the products are rounded, see the test.

Seen to fail when: the maximum is a mean; a short text is filled with the next one; the last part of the vocabulary is
left out; the gradient goes to other states, or to other words, or lacks the upstream gradient; products are not
rounded under autocast, or maxima are kept rounded; weights are not multiplied; the softmax is over the texts; lengths
are not checked; the projection has the deviation of the layers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pretrieve.models.bag_of_words import BagOfWordsProjection, _runs, bag_of_words_loss, max_logits
from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import seeded

WORDS, WIDTH = 31, 12
LENGTHS = [9, 9, 8, 5, 4, 1, 2]  # not sorted: a text can lose words to masks


def inputs(scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(7)
    states = (scale * torch.randn(sum(LENGTHS), WIDTH, generator=generator)).requires_grad_()
    return states, torch.randn(WORDS, WIDTH, generator=generator).requires_grad_()


def plain(states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """(n, V), text by text from all logits."""
    return torch.stack([(part @ words.T).amax(0) for part in states.split(LENGTHS)])


def test_three_tokens_by_hand() -> None:
    """The text "a b a" of a vocabulary of four: a and b count once each, with weight 1/3 (or 1), and the softmax is
    over the maxima [2, 3, 0, −1]."""
    words = torch.eye(4)
    states = torch.tensor([[1.0, 3.0, -2.0, -1.0], [2.0, 0.0, 0.0, -4.0], [-1.0, 1.0, -3.0, -2.0]])
    pooled = max_logits(states, words, [3])
    assert pooled.tolist() == [[2.0, 3.0, 0.0, -1.0]]
    total = math.exp(2) + math.exp(3) + math.exp(0) + math.exp(-1)
    surprise = (math.log(total) - 2) + (math.log(total) - 3)
    for weight in (1 / 3, 1.0):
        loss = bag_of_words_loss(pooled, torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([weight]))
        assert loss.item() == pytest.approx(weight * surprise, rel=1e-6)
    # Its gradient by hand: of a state's logits only where it holds the maximum.
    states.requires_grad_()
    bag_of_words_loss(
        max_logits(states, words, [3]), torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([1 / 3])
    ).backward()
    share = [2 / 3 * math.exp(m) / total for m in (2, 3, 0, -1)]
    expected = torch.zeros(3, 4)
    expected[1, 0], expected[0, 1] = share[0] - 1 / 3, share[1] - 1 / 3
    expected[1, 2], expected[0, 3] = share[2], share[3]
    assert torch.allclose(states.grad, expected, atol=1e-6)


@pytest.mark.parametrize("at_once", [1, 40, 300, 700, 64 * WORDS * 3, None])
def test_against_all_logits(at_once: int | None) -> None:
    """One entry of the vocabulary at a time, part of it, one text, several, all."""
    states, words = inputs()
    direction = torch.randn(len(LENGTHS), WORDS, generator=seeded(8))
    results = []
    for pooled in (max_logits(states, words, LENGTHS, at_once), plain(states, words)):
        assert pooled.shape == (len(LENGTHS), WORDS) and pooled.dtype == torch.float32
        results.append((pooled.detach(), *torch.autograd.grad((pooled * direction).sum(), (states, words))))
    for ours, right in zip(*results, strict=True):
        largest = float(right.abs().max())
        assert largest > 0.1 and ours.dtype == right.dtype
        assert float((ours - right).abs().max()) <= 1e-5 * largest


def test_the_loss_against_log_softmax() -> None:
    generator = seeded(9)
    logits = (3 * torch.randn(3, WORDS, generator=generator)).requires_grad_()
    bags, weights = [[1, 5, 9], [0], [2, 3, 30, 7]], torch.tensor([0.2, 1.0, 0.25])
    owners = torch.tensor([i for i, bag in enumerate(bags) for _ in bag])
    loss = bag_of_words_loss(logits, owners, torch.tensor([word for bag in bags for word in bag]), weights)
    expected = -sum(weights[i] * logits.log_softmax(1)[i, bag].sum() for i, bag in enumerate(bags))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6) and loss.dtype == torch.float32
    ours, right = (torch.autograd.grad(value, logits)[0] for value in (loss, expected))
    assert float((ours - right).abs().max()) <= 1e-6 and float(right.abs().max()) > 0.1


def test_padding_cannot_win() -> None:
    """However low all logits are. With −1000 added to the logits of padding, which are 0 for states of zeros, as in the
    released code, padding wins below −1000: the maximum is −1000 for every word, and says nothing of the text."""
    generator = seeded(5)
    words = 10 + torch.rand(WORDS, WIDTH, generator=generator)
    states = -20 - torch.rand(7, WIDTH, generator=generator)
    logits = states @ words.T
    assert logits.max() < -2000
    pooled = max_logits(states, words, [5, 2])
    assert torch.allclose(pooled, torch.stack([logits[:5].amax(0), logits[5:].amax(0)]))
    padded = (
        torch.cat([states[5:], torch.zeros(3, WIDTH)]) @ words.T + torch.tensor([0, 0, -1000, -1000, -1000])[:, None]
    )
    assert bool((padded.amax(0) == -1000).all())


def test_one_state_gets_the_gradient_of_each_word() -> None:
    """Also where states are equal, or a short text's last one is repeated beside a longer text: the sum is of one."""
    states = torch.ones(6, WIDTH).requires_grad_()
    _, words = inputs()
    pooled = max_logits(states, words, [4, 2])
    states_grad, words_grad = torch.autograd.grad(pooled.sum(), (states, words))
    for rows in (slice(0, 4), slice(4, 6)):
        assert torch.allclose(states_grad[rows].sum(0), words.sum(0), atol=1e-5)
    assert torch.allclose(words_grad, torch.full((WORDS, WIDTH), 2.0))


class Largest(TorchDispatchMode):
    """Notes the most elements that any result has."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def test_all_logits_are_never_held() -> None:
    generator = seeded(3)
    states = torch.randn(40 * 8, 4, generator=generator).requires_grad_()
    words = torch.randn(500, 4, generator=generator).requires_grad_()
    with Largest() as largest:
        max_logits(states, words, [8] * 40, at_once=4000).sum().backward()
    assert 40 * 500 <= largest.elements <= 40 * 500 * 1.5 < 320 * 500 / 5


def test_without_gradients() -> None:
    states, words = inputs()
    expected = max_logits(states, words, LENGTHS)
    with torch.no_grad():
        pooled = max_logits(states, words, LENGTHS)
    assert torch.equal(pooled, expected) and not pooled.requires_grad and expected.requires_grad
    assert torch.equal(max_logits(states.detach(), words.detach(), LENGTHS), expected)


def test_bf16_rounds_the_product_and_nothing_else() -> None:
    """The maxima are those of a product of rounded matrices; losses and sums are float32."""
    states, words = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pooled = max_logits(states, words, LENGTHS)
        owners, tokens = torch.arange(len(LENGTHS)), torch.arange(len(LENGTHS))
        loss = bag_of_words_loss(pooled, owners, tokens, torch.ones(len(LENGTHS)))
    assert pooled.dtype == loss.dtype == torch.float32
    assert torch.equal(pooled, pooled.bfloat16().float())
    rounded = plain(states.bfloat16(), words.bfloat16()).float()
    assert float((pooled - rounded).detach().abs().max()) <= 0.01 * float(rounded.detach().abs().max())
    right = bag_of_words_loss(plain(states, words), owners, tokens, torch.ones(len(LENGTHS)))
    assert loss.item() == pytest.approx(right.item(), rel=0.02)
    ours, exact = (torch.autograd.grad(value, (states, words)) for value in (loss, right))
    for gradient, reference in zip(ours, exact, strict=True):
        assert gradient.dtype == torch.float32
        # A near tie can go to another state.
        assert float((gradient - reference).norm()) <= 0.1 * float(reference.norm())


def test_mistakes() -> None:
    states, words = inputs()
    with pytest.raises(ValueError, match="lengths from 0, 38 in all; expected at least 1 each, 38 in all"):
        max_logits(states, words, [0, *LENGTHS])
    with pytest.raises(ValueError, match="lengths from 1, 40 in all"):
        max_logits(states, words, [2, *LENGTHS])


def test_runs() -> None:
    for sizes in ([5, 5, 4, 4, 1], [1, 9, 1, 1], [3], []):
        for room in (1, 8, 10, 100):
            runs = _runs(sizes, room)
            assert [i for first, last in runs for i in range(first, last)] == list(range(len(sizes)))
            assert all(last == first + 1 or max(sizes[first:last]) * (last - first) <= room for first, last in runs)
            assert all(first < last for first, last in runs) and (room < 100 or len(runs) == bool(sizes))


def test_projection() -> None:
    """A matrix and nothing else; of the seed alone; with the deviation of the word embeddings."""
    config = BodyConfig(vocabulary_size=400, hidden=WIDTH, heads=1, word_std=0.3)
    torch.manual_seed(0)
    first, other = (dict(BagOfWordsProjection(config, seed).named_parameters()) for seed in (1, 2))
    torch.manual_seed(1)
    again = BagOfWordsProjection(config, 1).weight
    assert list(first) == ["weight"] and first["weight"].shape == (400, WIDTH)
    assert torch.equal(first["weight"], again) and not torch.equal(first["weight"], other["weight"])
    assert float(again.detach().std()) == pytest.approx(0.3, rel=0.05)
    assert np.isclose(float(again.detach().mean()), 0, atol=0.02)
