"""A retriever in memory: its towers, its tokenizer, and texts → vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.given import given_number, given_texts
from pretrieve.base.inside import inside
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.int8 import in_int8
from pretrieve.models.retriever_files import load_retriever
from pretrieve.models.sentence_files import read_object
from pretrieve.models.sentence_modules import Reading, read_sentence_transformer
from pretrieve.raw.checkpoint_files import OWN, room_of
from pretrieve.retrieval.embed import encode
from pretrieve.text.encode_words import encode_texts
from pretrieve.text.packing import Packed, Part, constant, pack
from pretrieve.text.vocabulary import NO_TOKEN, given_tokenizer, special_ids, vocabulary_sha256
from pretrieve.training.device import Device


@dataclass
class Retriever:
    """Texts → vectors whose inner products are the scores; each text is read as ``[CLS] text [SEP]``.

    reading: how many tokens of a query and a passage are read at most, and what is put in front of them. Encoding raises as
    :func:`~pretrieve.base.given.given_texts`.
    """

    dual: DualEncoder
    tokenizer: Tokenizer
    reading: Reading
    device: Device

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self.dual.width

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors (n, width) float32 of the query tower, in the order of the texts."""
        return self._encode(self.dual.query, texts, self.reading.query_length, self.reading.query_prompt)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors (n, width) float32 of the document tower, in the order of the texts."""
        return self._encode(self.dual.document, texts, self.reading.passage_length, self.reading.passage_prompt)

    def _encode(self, tower: nn.Module, texts: Sequence[str], length: int, prompt: str) -> np.ndarray:
        special = special_ids(self.tokenizer)
        if self.dual.config.kind == "t5":
            special = replace(special, cls=NO_TOKEN)
        parts = list(encode_texts(self.tokenizer, (prompt + text for text in given_texts(texts, "texts"))))
        ids = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
        lengths = np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)])
        starts = np.cumsum(lengths) - lengths

        def pack_rows(rows: np.ndarray) -> Packed:
            body = Part(ids, starts[rows], lengths[rows])
            return pack([constant(special.cls, len(rows)), body, constant(special.sep, len(rows))], length)

        return encode(tower, pack_rows, np.arange(len(lengths)), self.device)


def load(
    directory: Path | str,
    tokenizer: Path | str | Tokenizer | None = None,
    device: str = "cpu",
    query_length: int | None = None,
    passage_length: int | None = None,
    int8: bool = False,
    pooling: str | None = None,
) -> Retriever:
    """The retriever of a directory: one that fine-tuning or pre-training here made, or a published one.

    Parameters
    ----------
    directory : with ``pretrieve.json``; or in the layout of sentence-transformers (Pooling by the first token or the mean, at
        most one Dense layer without activation, or another head that ``pretrieve export`` writes, Normalize; or a Router to two
        of these); or an encoder of transformers that :mod:`pretrieve.models.published` reads, with ``pooling``. Vectors get
        length 1 where sentence-transformers compares them by the cosine
    tokenizer : ``tokenizer.json`` or ``vocab.txt``, where the directory has none, as those made here
        (``results/SCALE/corpora/CORPUS/tokenizer.json``)
    device : of torch
    query_length, passage_length : tokens that are read, special ones included; by default what the directory says (of a
        retriever made here, its recipe), or as many as the body has positions
    int8 : passages are encoded with products of int8 (:mod:`pretrieve.models.int8`), queries are not
    pooling : ``cls`` (the first token's state) or ``mean``, where no file says it: of a plain encoder of
        transformers, whose vectors are not normalised, as sentence-transformers leaves them

    Raises
    ------
    DataError
        when the directory is damaged or of a kind that is not supported, nothing says the pooling, or the tokenizer is missing
        or another one.
    ConfigError
        when ``directory`` is no path, a length is below 1 or above the body's positions, torch does not have the ``device``,
        ``int8`` is not possible here, or ``pooling`` is said by the directory, or unknown.
    """
    if not isinstance(directory, str | os.PathLike):
        raise ConfigError(f"directory={directory!r}; expected the path of a retriever's directory.")
    directory, about = Path(directory), {}
    try:
        torch.empty(0, device=device)
    # A word that torch does not know, a GPU that it does not find, or no word at all.
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ConfigError(
            f"device={str(device)!r}: {str(error).splitlines()[0]}; expected one that torch has here, such as 'cpu'."
        ) from None
    lengths = {
        name: given_number(length, name, expected="a number of tokens, 1 or more")
        for name, length in (("query_length", query_length), ("passage_length", passage_length))
        if length is not None
    }
    if (directory / OWN).is_file():
        _check_names(directory)
        if pooling:
            raise ConfigError(f"{directory / OWN}: says the pooling itself; leave pooling={pooling!r} out.")
        dual, about = load_retriever(directory)
        recipe, room = about.get("finetuning") or {}, dual.config.max_positions
        said = [
            given_number(recipe.get(name, room), f"{directory / OWN}: finetuning.{name}")
            for name in ("query_length", "passage_length")
        ]
        reading, vocabulary = Reading.of(dual.config, *said), None
    else:
        dual, reading, vocabulary = read_sentence_transformer(directory, pooling)
    given = tokenizer if tokenizer is not None else vocabulary
    if given is None:
        where = "results/SCALE/corpora/CORPUS/tokenizer.json"
        raise DataError(f"{directory}: has no tokenizer; give the one that it was made with: tokenizer='{where}'.")
    words = given if isinstance(given, Tokenizer) else given_tokenizer(Path(given))
    if vocabulary_sha256(words) != about.get("vocabulary_sha256", vocabulary_sha256(words)):
        raise DataError(f"{directory}: was made with another vocabulary than the one given; give its own tokenizer.")
    entries = 1 + max(words.get_vocab().values(), default=-1)  # not its size: ids may have gaps
    if entries > dual.config.vocabulary_size:
        raise DataError(
            f"{directory}: the tokenizer has {entries} entries, the body {dual.config.vocabulary_size}; give its own tokenizer."
        )
    for name, length in lengths.items():
        if dual.config.kind == "transformer" and length > dual.config.max_positions:
            raise ConfigError(
                f"{name}={length}, but the body of {directory} has {dual.config.max_positions} positions; expected at "
                "most as many."
            )
    reading = replace(reading, **lengths)
    dual.to(device).eval()
    if int8:
        dual.document = in_int8(dual.document)
    return Retriever(dual, words, reading, Device(torch.device(device), bf16=False))


def _check_names(directory: Path) -> None:
    """``pretrieve.json`` names the files beside it."""
    path, taken = directory / OWN, dict[str, str]()
    files = read_object(path).get("files")
    for name in files if isinstance(files, dict) else ():
        inside(directory, name, f"{path}: files", room_of(directory), taken)
