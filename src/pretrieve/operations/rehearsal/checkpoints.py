"""Made checkpoints: BERT and T5 v1.1 in the layout of transformers, as deep as the published ones and very narrow.

Their weights are drawn from a seed. BERT's vocabulary is that of the made ``vocab.txt``; T5's is a small sentencepiece-like
one (Unigram, ``▁`` at the beginning of a word) in ``tokenizer.json``, for T5 1.0 and v1.1 share theirs.
"""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrieve.base.errors import ConfigError
from pretrieve.base.files import write_json, write_text
from pretrieve.operations.rehearsal.made import NOTICE, vocabulary, vocabulary_file
from pretrieve.operations.rehearsal.world import words
from pretrieve.workflow.rehearsal import OWNER, WIDTH

if TYPE_CHECKING:
    import torch

    from pretrieve.models.config import BodyConfig

#: Part of a checkpoint's name → its layers; T5 v1.1 small, base, large, and BERT's.
T5_LAYERS = {"small": 8, "base": 12, "large": 24}
BERT_LAYERS = {"bert-base": 12, "minilm-l6": 6}


def make_checkpoint(start: str, out: Path) -> str:
    """Write the made checkpoint ``hub:rehearsal/NAME`` into the folder of ``out``, and ``out``, which says what it is; returns
    the family. Raises ConfigError for a start that is not a rehearsal's, or of a family that is not made."""
    name = start.removeprefix(f"hub:{OWNER}/").lower()
    if name == start.lower():
        raise ConfigError(f"start {start!r}: not one of a rehearsal; expected hub:{OWNER}/NAME.")
    folder = out.parent
    folder.mkdir(parents=True, exist_ok=True)
    t5 = re.search(r"t5[-_.0-9a-z]*?-(small|base|large)", name)
    bert = next((layers for part, layers in BERT_LAYERS.items() if part in name and "roberta" not in name), 0)
    if t5:
        _t5(folder, T5_LAYERS[t5[1]])
    elif bert:
        _bert(folder, bert)
    else:
        raise ConfigError(
            f"start {start!r}: no checkpoint of this family is made in a rehearsal; there are BERT-base, MiniLM-L6 and T5."
        )
    write_text(out, f"{start}: {NOTICE}\n")
    return "T5 v1.1" if t5 else "BERT"


def _bert(folder: Path, layers: int) -> None:
    """As bert-base-uncased has it: the body under ``bert.``, and the word head."""
    import torch

    from pretrieve.models.hf_format import to_saved_names

    entries = vocabulary()
    config, state = _body(vocabulary_size=len(entries), hidden=WIDTH, layers=layers, heads=2, feed_forward=WIDTH)
    head = {
        "bias": torch.zeros(len(entries)),
        "transform.dense.weight": torch.eye(WIDTH),
        "transform.dense.bias": torch.zeros(WIDTH),
        "transform.LayerNorm.weight": torch.ones(WIDTH),
        "transform.LayerNorm.bias": torch.zeros(WIDTH),
    }
    saved = {f"bert.{name}": tensor for name, tensor in to_saved_names(state, config).items()}
    _write(folder, config, saved | {f"cls.predictions.{name}": tensor for name, tensor in head.items()})
    (folder / "vocab.txt").write_bytes(vocabulary_file())


def _t5(folder: Path, layers: int) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    from pretrieve.models.hf_format import to_saved_names

    letters = [*string.ascii_letters, *string.digits, *".,?!'-:;()/\""]
    pieces = ["<pad>", "</s>", "<unk>", "▁", *(f"▁{word}" for word in words()), *letters]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(place > 3)) for place, piece in enumerate(pieces)], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    shape = {"hidden": WIDTH, "layers": layers, "heads": 2, "head_size": WIDTH // 2, "feed_forward": WIDTH}
    config, state = _body(kind="t5", vocabulary_size=tokenizer.get_vocab_size(), **shape)
    _write(folder, config, to_saved_names(state, config))
    tokenizer.save(str(folder / "tokenizer.json"))


def _body(**shape: Any) -> tuple[BodyConfig, dict[str, torch.Tensor]]:
    """A body with weights of seed 1, and its state."""
    from pretrieve.models.config import BodyConfig
    from pretrieve.models.encoder import Encoder

    config = BodyConfig(**shape)
    return config, Encoder(config, WIDTH, "mean", 1, "dot", "none").body.state_dict()


def _write(folder: Path, config: BodyConfig, tensors: dict[str, torch.Tensor]) -> None:
    from pretrieve.models.hf_format import shown_config, write_tensors

    write_json(folder / "config.json", shown_config(config))
    write_tensors(tensors, folder / "model.safetensors")
