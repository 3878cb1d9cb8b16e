"""Bodies, pre-trainings and a vocabulary small enough for a test, and trainings that are interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from pretrieve.models.config import BodyConfig
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import choose_device
from pretrieve.training.loop import Outcome, RunSettings, Watcher

#: A body as options have it.
SHAPE = {"kind": "transformer", "hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 40}


def small_options(
    objective: dict[str, Any], batch: int, steps: int, learning_rate: float = 1e-2, **more: Any
) -> dict[str, Any]:
    """Options of a pre-training (:class:`pretrieve.pretraining.encoder_options.EncoderOptions`), as the workflow gives them."""
    projection = {"pooling": "cls", "dim": 8, "similarity": "dot", "head": "linear"}
    budget = {"batch": batch, "steps": steps, "learning_rate": learning_rate}
    return {"body": SHAPE, **projection, "objective": objective, "budget": budget, **more}


def trained(
    options: dict[str, Any],
    store: TokenStore,
    out: Path,
    checkpoints: Path,
    run: RunSettings | None = None,
    **more: Any,
) -> Outcome:
    """A pre-training with seed 1 in float32, unless ``run`` says another; ``more``: of :func:`pretrain`."""
    run = run or RunSettings(choose_device("fp32"), 1)
    return pretrain(EncoderOptions.from_dict(options), store.directory, out, run, checkpoints, **more)


def interrupt_after(stop: int | None) -> Watcher:
    """Interrupts a training after the step ``stop``, or never."""

    def look(step: int) -> None:
        if step == stop:
            raise KeyboardInterrupt

    return Watcher(look)


def small_body(
    words: int,
    sizes: tuple[int, int, int, int] = (16, 2, 2, 32),
    max_positions: int = 64,
    dropout: float = 0.0,
    **more: Any,
) -> BodyConfig:
    """``words``: in the vocabulary; ``sizes``: hidden, layers, heads, feed_forward; ``more``: of :class:`BodyConfig`."""
    hidden, layers, heads, feed_forward = sizes
    shape = {"hidden": hidden, "layers": layers, "heads": heads, "feed_forward": feed_forward}
    return BodyConfig(vocabulary_size=words, max_positions=max_positions, dropout=dropout, **shape, **more)


def byte_level() -> Tokenizer:
    """RoBERTa's kind: byte-level BPE, special tokens added, template with them, of two separators between texts."""
    entries = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġb", "<mask>"]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "b")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return tokenizer
