"""coCondenser against a plain padded implementation, its contrast against a loop, and the spans that are drawn.

Seen to fail when: a span is compared with itself; the positive is the next span instead of the sibling; scores are
cosines, or divided; the contrast is of each micro-batch; the loss is a mean over documents; the word losses count
twice where the gradients are cached; the vectors are those of the skip layer; the first pass computes the head, or
[CLS] alone with other dropout; both spans may be the same one, or the first is always the article's first; an article
of one span is drawn; siblings are told by their place in the micro-batches; spans of an article that is drawn twice
are its negatives; every step draws the same spans; a weight is ignored; chunks are those of the micro-batches, or all count
alike; a piece without a masked word is weighed.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from condenser_reference import CondenserReference, assert_same_gradients, body_config, gradients, roughen
from made_store import make_store
from torch.nn import functional

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.options import PRESETS
from pretrieve.models.encoder import Encoder
from pretrieve.models.transformer import seeded
from pretrieve.pretraining.cocondenser import CoCondenser, MaskedSpans, span_contrast
from pretrieve.pretraining.condenser import Condenser
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.masking import Masking
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import trained_heads
from pretrieve.text.blocks import build_blocks
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import from_vocab_file
from pretrieve.training.device import Device
from pretrieve.training.objective import ContrastiveObjective

LENGTH, DOCUMENTS = 18, 9


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """Nine articles of two to four spans, of 1 to 16 tokens each; and three of no span or one."""
    articles = [[[1, 16]], [[2, 15], [15]], [[], [3]], [[4, 14]], [[5], [13, 16]], [[12]], [[9, 10], [11, 8]], []]
    articles += [[[6, 15], [16]], [[7, 13]], [[20]], [[30], [16, 1]]]
    return make_store(tmp_path_factory.mktemp("store"), articles)


def cocondenser(
    corpus: TokenStore,
    preset: str = "paper",
    budget: int | None = None,
    dropout: float = 0.0,
    rough: bool = True,
    **changes,
) -> CoCondenser:
    documents = changes.pop("documents", DOCUMENTS)
    more = {"span_length": LENGTH}
    options = resolve("cocondenser", preset, changes, "test", more) | {"name": "cocondenser", "length": 999}
    layers = 8 if options["skip_layer"] == 6 else 3
    encoder = Encoder(body_config(corpus.vocabulary_size, layers, LENGTH, dropout), 8, "cls", 0)
    objective = build_objective(Setting(options, documents, encoder, corpus, 5, torch.device("cpu"), budget))
    if rough:
        roughen(objective.module)
    return objective


def flat(objective: Condenser) -> torch.Tensor:
    """All gradients, end to end."""
    return torch.cat([p.grad.reshape(-1) for p in objective.module.parameters()])


def released_contrast(vectors: torch.Tensor) -> torch.Tensor:
    """modeling.py:172-176 and 239-243, for spans in the order of the documents."""
    target = torch.arange(len(vectors)).view(-1, 2).flip([1]).flatten()
    similarities = torch.matmul(vectors, vectors.transpose(0, 1))
    similarities.fill_diagonal_(float("-inf"))
    return functional.cross_entropy(similarities, target)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("budget", [None, 60])
def test_same_losses_and_gradients_as_a_padded_implementation(
    corpus: TokenStore, cpu: Device, preset: str, budget: int | None
) -> None:
    """In one piece, and with cached gradients in many. The released code under gradient caching multiplies its word
    losses by spans / documents = 2; the paper's loss, and the released code without, by 1."""
    objective = cocondenser(corpus, preset, budget)
    assert isinstance(objective, ContrastiveObjective)
    reference = CondenserReference(objective, objective.body.config)
    assert (objective.condenser.skip_layer, "mlm" in objective.terms) == (
        (6, True) if preset == "paper" else (2, False)
    )
    assert (len(objective.micro_batches(0)) > 4) == (budget is not None)
    means = gradients(objective, cpu)
    masked, _ = objective.examples.draw(0)
    lengths = set(masked.corrupted.lengths.tolist())
    assert {3, LENGTH} <= lengths and len(lengths) > 6 and len(masked.draws) == 2 * DOCUMENTS
    head, late, cls, _ = reference(masked)
    contrast = released_contrast(cls[torch.from_numpy(np.argsort(masked.draws))])
    factor = 1 if preset == "paper" else len(cls) / DOCUMENTS
    words = {"head": head, "mlm": late} if preset == "paper" else {"head": head}
    (factor * sum(words.values()) + contrast).backward()
    for term, value in {**words, "contrastive": contrast}.items():
        assert means.pop(term) == pytest.approx(value.item(), rel=1e-5, abs=1e-5), term
    assert not means and contrast.item() > 0.1
    assert_same_gradients(objective.module, reference)


def test_cached_gradients_are_the_direct_ones(corpus: TokenStore, cpu: Device) -> None:
    """To 1e-5, however the step is cut; siblings are not kept together."""
    whole = cocondenser(corpus)
    for step in range(2):
        one = gradients(whole, cpu, step)
        expected = flat(whole)
        assert len(whole.micro_batches(step)) == 1 and float(expected.abs().max()) > 0.1
        for budget, parts in ((60, 1), (1, 1), (10**6, 4)):
            cut = cocondenser(corpus, budget=budget)
            batches = cut.micro_batches(step, parts)
            assert any(len({draw // 2 for draw in b.data.draws}) * 2 > len(b.data.draws) for b in batches)
            assert gradients(cut, cpu, step, parts) == pytest.approx(one, rel=1e-5)
            assert float((flat(cut) - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("budget", [None, 60])
def test_word_losses_have_exactly_their_weight(corpus: TokenStore, cpu: Device, budget: int | None) -> None:
    """Without the contrast it is Condenser on the same spans, and the weight is a factor and nothing else: the
    gradient is ``weight · words + contrast`` with and without cached gradients."""
    found = {}
    for word_weight, contrastive_weight in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, 0.5)):
        objective = cocondenser(corpus, budget=budget, mlm_weight=word_weight, contrastive_weight=contrastive_weight)
        gradients(objective, cpu)
        found[word_weight, contrastive_weight] = flat(objective)
    plain = cocondenser(corpus)
    options = {"head_layers": 1, "skip_layer": 1, "late_mlm": True}
    setting = Setting(options, 9, Encoder(plain.body.config, 8, "cls", 0), corpus, 0, cpu.device)
    condenser = Condenser(setting, plain.examples)
    condenser.module = plain.module
    condenser.body, condenser.head, condenser.condenser = plain.body, plain.head, plain.condenser
    gradients(condenser, cpu)
    words, contrast = found[1.0, 0.0], found[0.0, 1.0]
    size = float(words.abs().max())
    assert size > 0.01 and float(contrast.abs().max()) > 0.01
    assert float((words - flat(condenser)).abs().max()) <= 1e-5 * max(1.0, size)
    for (word_weight, contrastive_weight), gradient in found.items():
        expected = word_weight * words + contrastive_weight * contrast
        assert float((gradient - expected).abs().max()) <= 2e-5 * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("budget", [None, 60])
def test_the_mean_of_the_means_of_chunks(corpus: TokenStore, cpu: Device, budget: int | None) -> None:
    """Condenser trainer.py:161-184: each chunk of 4 spans, in the order of drawing, has a mean over its masked words, and counts
    by its spans; 18 spans are four chunks and a half. Not the mean over all words, and the same however a step is cut."""
    plain = cocondenser(corpus)
    (batch,) = plain.micro_batches(0)
    packed, masked = batch.data.batch("cpu"), batch.data
    with torch.no_grad():
        states = plain.condenser(plain.body.all_states(packed), packed)
        logits = plain.head(states[masked.positions], plain.body.words.weight)
        losses = functional.cross_entropy(logits, masked.targets("cpu")[1], reduction="none").numpy()
    owner = np.searchsorted(masked.corrupted.starts, masked.positions, side="right") - 1
    chunk = masked.draws[owner] // 4
    expected = sum(losses[chunk == c].mean() * (masked.draws // 4 == c).sum() for c in range(5)) / 18
    assert len(set(chunk.tolist())) == 5 and abs(expected - losses.mean()) > 1e-3
    assert gradients(cocondenser(corpus, budget=budget, chunk=4), cpu)["head"] == pytest.approx(expected, rel=1e-5)
    assert gradients(plain, cpu)["head"] == pytest.approx(losses.mean(), rel=1e-5)


def test_spans_without_a_masked_word_have_no_word_loss(corpus: TokenStore, cpu: Device, tmp_path: Path) -> None:
    """They are in the contrast all the same, also where a piece of a step has no others."""
    tokenizer = from_vocab_file(corpus.directory / "vocab.txt")
    texts = [PassageText([text] * 2, n, n) for n, text in enumerate(["§ " * 12, "ba be bi " * 4])]
    store = write_token_store(tmp_path, tokenizer, texts, ["", ""])
    whole, cut = (gradients(cocondenser(store, budget=budget, chunk=4, documents=4), cpu) for budget in (None, 1))
    assert cut == pytest.approx(whole, rel=1e-5) and min(whole.values()) > 0.1


def test_the_first_pass_has_no_heads_and_the_same_dropout(corpus: TokenStore) -> None:
    """Else the cached gradients belong to other vectors."""
    objective = cocondenser(corpus, budget=60, dropout=0.3)
    objective.module.train()
    calls = []
    for part in (objective.condenser.layers[0], objective.head.transform):
        part.register_forward_hook(lambda *_: calls.append(1))
    for batch in objective.micro_batches(0):
        torch.manual_seed(7)
        with torch.no_grad():
            first, losses = objective.vectors(batch, with_losses=False)
        assert losses == {} and not calls and first.shape == (batch.rows, 16) and batch.rows == len(batch.ids)
        torch.manual_seed(7)
        second, losses = objective.vectors(batch, with_losses=True)
        assert set(losses) == {"head", "mlm"} and len(calls) == 3
        assert torch.equal(first, second.detach())
        other, _ = objective.vectors(batch, with_losses=False)
        assert not torch.equal(first, other)
        calls.clear()


def loop(vectors: torch.Tensor, spans: list[int], articles: list[int]) -> float:
    total = 0.0
    for i in range(len(spans)):
        (sibling,) = (j for j in range(len(spans)) if spans[j] == spans[i] ^ 1)
        scores = {j: float(vectors[i] @ vectors[j]) for j in range(len(spans)) if articles[j] != articles[i]}
        scores[sibling] = float(vectors[i] @ vectors[sibling])
        total += -scores[sibling] + math.log(sum(math.exp(score) for score in scores.values()))
    return total


def test_contrast_by_hand() -> None:
    """Raw dot products: siblings (2, 0) and (1, 1), and (0, 1) twice."""
    vectors = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    e = math.exp
    rows = [e(2) / (e(2) + 2), e(2) / (e(2) + 2 * e(1)), e(1) / (e(1) + e(0) + e(1)), e(1) / (e(1) + e(0) + e(1))]
    kept = span_contrast(vectors, torch.arange(4), torch.tensor([0, 0, 0, 0]), masked=False)
    assert kept == span_contrast(vectors, torch.arange(4), torch.tensor([0, 0, 1, 1]))  # Condenser modeling.py:239-242
    assert span_contrast(vectors, torch.arange(4), torch.tensor([0, 0, 0, 0])).item() == 0
    loss = span_contrast(vectors, torch.arange(4), torch.tensor([0, 0, 1, 1]))
    assert loss.item() == pytest.approx(-sum(map(math.log, rows)), abs=1e-6)
    assert loss.item() == pytest.approx(4 * released_contrast(vectors).item(), abs=1e-6)
    assert span_contrast(vectors[:2], torch.tensor([7, 6]), torch.tensor([3, 3])).item() == 0


@pytest.mark.parametrize("repeated", [False, True])
def test_contrast_against_a_loop(repeated: bool) -> None:
    """In any order of rows; two documents that are one article are no negatives of each other."""
    vectors = torch.randn(14, 6, generator=seeded(1))
    articles = [0, 1, 2, 3, 4, 2 if repeated else 5, 2 if repeated else 6]
    spans = list(range(40, 54))
    owners = [articles[i // 2] for i in range(14)]
    expected = loop(vectors, spans, owners)
    found = span_contrast(vectors, torch.tensor(spans), torch.tensor(owners)).item()
    assert found == pytest.approx(expected, abs=1e-4) and found > 10
    if not repeated:
        assert found == pytest.approx(14 * released_contrast(vectors).item(), abs=1e-4)
    order = torch.randperm(14, generator=seeded(2))
    shuffled = span_contrast(vectors[order], torch.tensor(spans)[order], torch.tensor(owners)[order])
    assert shuffled.item() == pytest.approx(found, abs=1e-4)


def test_negatives_are_those_of_the_whole_batch(corpus: TokenStore) -> None:
    """The contrast over many parts is that of one, and not the sum of the parts'."""
    cut = cocondenser(corpus, budget=60)
    batches = cut.micro_batches(0)
    with torch.no_grad():
        parts = [cut.vectors(batch, False)[0] for batch in batches]
        whole = cocondenser(corpus)
        (batch,) = whole.micro_batches(0)
        expected = whole.contrast([whole.vectors(batch, False)[0]], [batch])["contrastive"].item()
        assert cut.contrast(parts, batches)["contrastive"].item() == pytest.approx(expected, rel=1e-5)
    assert sum(b.counts["contrastive"] for b in batches) == batch.counts["contrastive"] == 2 * DOCUMENTS


def spans(corpus: TokenStore, documents: int = DOCUMENTS, seed: int = 5, length: int = LENGTH) -> MaskedSpans:
    return MaskedSpans(corpus, seed, documents, length, Masking("word"))


def drawn(source: MaskedSpans, step: int) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """(draw of the first, article, first span, second span) of a step's documents."""
    masked, articles = source.draw(step)
    texts = np.split(masked.original, masked.corrupted.starts[1:])
    by_draw = {draw: (int(a), tuple(t.tolist())) for draw, a, t in zip(masked.draws, articles, texts, strict=True)}
    pairs = []
    for draw in sorted(by_draw)[::2]:
        (article, one), (same, other) = by_draw[draw], by_draw[draw + 1]
        assert article == same and draw % 2 == 0
        pairs.append((int(draw), article, one, other))
    return pairs


def test_spans_are_two_different_ones_of_an_article(corpus: TokenStore) -> None:
    """Each article with two spans once in an epoch; what is drawn are blocks of it; articles of one span are left
    out."""
    blocks = build_blocks(corpus, LENGTH - 2)
    cls, sep = corpus.special.cls, corpus.special.sep
    texts: dict[int, list[tuple[int, ...]]] = {}
    for start, length, article in zip(blocks.starts, blocks.lengths, blocks.article, strict=True):
        texts.setdefault(int(article), []).append((cls, *corpus.tokens[start : start + length].tolist(), sep))
    usable = {article for article, own in texts.items() if len(own) > 1}
    assert len(usable) == DOCUMENTS < len(texts) and max(map(len, texts.values())) == 4
    source, seen = spans(corpus, documents=3), Counter()
    for step in range(6):
        for draw, article, one, other in drawn(source, step):
            assert draw // 6 == step and one in texts[article] and other in texts[article] and one != other
            seen[article] += 1
    assert seen == dict.fromkeys(usable, 2)


def test_all_pairs_of_spans_are_equally_likely(corpus: TokenStore) -> None:
    source = spans(corpus)
    n, pairs = 1500, {}
    for step in range(n):
        packed, articles = source.sequences(step)
        starts = dict(zip(packed.order.tolist(), packed.starts.tolist(), strict=True))
        for span, article in zip(packed.order.tolist(), articles.tolist(), strict=True):
            if article == 1 and span % 2 == 0:  # an article of three spans, each with another first word
                key = tuple(int(packed.tokens[starts[span + i] + 1]) for i in (0, 1))
                pairs[key] = pairs.get(key, 0) + 1
    counts = sorted(pairs.values())
    own = build_blocks(corpus, LENGTH - 2)
    k = int((own.article == 1).sum())
    assert len({int(corpus.tokens[s]) for s in own.starts[own.article == 1]}) == k == 3
    assert len(counts) == k * (k - 1) and sum(counts) == n
    share = 1 / len(counts)
    assert all(abs(count - n * share) <= 4 * math.sqrt(n * share * (1 - share)) for count in counts)


def test_a_step_is_of_seed_and_step(corpus: TokenStore) -> None:
    source = spans(corpus)
    first = drawn(source, 4)
    for step in (0, 9, 4):
        again = drawn(source, step)
    assert again == first == drawn(spans(corpus), 4)
    articles = {article: pair for _, article, *pair in first}
    later = {article: pair for _, article, *pair in drawn(source, 5)}
    assert articles.keys() == later.keys() and articles != later
    assert {article: pair for _, article, *pair in drawn(spans(corpus, seed=6), 4)} != articles


def test_an_article_that_is_drawn_twice_is_no_negative_of_itself(corpus: TokenStore, cpu: Device) -> None:
    """A step over the end of an epoch; the loss is finite, and that of the loop."""
    objective = cocondenser(corpus, documents=DOCUMENTS + 4)
    (batch,) = objective.micro_batches(0)
    assert max(Counter(batch.ids.tolist()).values()) == 4
    with torch.no_grad():
        vectors, _ = objective.vectors(batch, False)
        found = objective.contrast([vectors], [batch])["contrastive"].item()
    assert found == pytest.approx(loop(vectors.double(), batch.data.draws.tolist(), batch.ids.tolist()), rel=1e-5)
    assert all(map(math.isfinite, gradients(objective, cpu).values()))


def test_nothing_that_is_saved_has_the_size_of_the_batch(corpus: TokenStore) -> None:
    """The released model carries its targets as a buffer, and can be resumed with the same batch only. And the heads
    are Condenser's: one goes on from the other."""
    small, large = (cocondenser(corpus, documents=documents).module.state_dict() for documents in (2, 9))
    assert {n: t.shape for n, t in small.items()} == {n: t.shape for n, t in large.items()}
    assert set(trained_heads(cocondenser(corpus))) == {"mlm", "condenser"}


def test_mistakes(tmp_path: Path, corpus: TokenStore) -> None:
    with pytest.raises(DataError, match=r"none of 9 articles has two spans .* span_length lower"):
        spans(make_store(tmp_path, [[[n]] for n in range(9)] + [[[10]]]), length=12)
    with pytest.raises(ConfigError, match="span_length: 19 is more than body.max_positions=18"):
        cocondenser(corpus, span_length=19)
    assert cocondenser(corpus, span_length=LENGTH, rough=False).terms == {"head": 1.0, "mlm": 1.0, "contrastive": 1.0}
    assert cocondenser(corpus, "official_code").terms == {"head": 2.0, "contrastive": 1.0}
