"""The token store: a corpus as one array of token ids and the offsets of everything in it.

Written once and shared by every objective, recipe and evaluation, so no text is tokenised twice and no process holds
more than the pages it touches. A store is a directory of flat little-endian arrays and ``meta.json``::

    tokens           uint16 (uint32 above 65,536 entries)   (T,)    no special tokens
    sentence_starts  int64  (S+1,)  sentence s is tokens[sentence_starts[s]:sentence_starts[s+1]]
    passage_starts   int64  (P+1,)  passage p is the sentences passage_starts[p]:passage_starts[p+1]
    section_starts   int64  (C+1,)  section c is the passages section_starts[c]:section_starts[c+1]
    article_starts   int64  (A+1,)  article a is the sections article_starts[a]:article_starts[a+1]
    title_tokens     as tokens      title a is title_tokens[title_starts[a]:title_starts[a+1]]
    title_starts     int64  (A+1,)
    link_passages    int64  (L,)    distinct (passage, other article it links to), sorted
    link_articles    int64  (L,)
    word_starts      uint8  (V,)    1: the vocabulary's entry begins a word, 0: it continues with one (``##ing``)
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from pretrieve.base.disk import room_for
from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.progress import Progress
from pretrieve.text.encode_words import encode_texts
from pretrieve.text.vocabulary import NO_TOKEN, SpecialIds, special_ids, vocabulary_sha256, word_starts


@dataclass(frozen=True)
class PassageText:
    """One passage on its way into a store: its sentences as text, and the section and article it belongs to."""

    sentences: list[str]
    section: int
    article: int


class _ArrayFile:
    """Appends to a flat binary file; remembers how many items it has."""

    def __init__(self, directory: Path, name: str, dtype: np.dtype) -> None:
        self.path = directory / f"{name}.bin"
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.length = 0
        self.part = self.path.with_suffix(".part")
        self._stream = open(self.part, "wb")  # noqa: SIM115 (closed by close())

    def append(self, values: np.ndarray | list[int]) -> None:
        array = np.asarray(values, dtype=self.dtype)
        self.length += len(array)
        with room_for(self.path, remove=[self.part]):
            self._stream.write(array.tobytes())

    def close(self) -> None:
        with room_for(self.path, remove=[self.part]):
            self._stream.close()
            os.replace(self.part, self.path)

    def give_up(self) -> None:
        with suppress(OSError):
            self._stream.close()  # what is still in its buffer may not fit, and is not wanted
        self.part.unlink(missing_ok=True)


def _encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """In batches: ids of the texts, end to end, and where each text ends among all ids so far."""
    end = 0
    for ids, lengths in encode_texts(tokenizer, texts):
        ends = end + np.cumsum(lengths)
        end = int(ends[-1])
        yield ids, ends


def write_token_store(
    directory: Path,
    tokenizer: Tokenizer,
    passages: Iterable[PassageText],
    titles: Iterable[str] = (),
    links: tuple[np.ndarray, np.ndarray] | None = None,
    label: str = "tokens",
    section_articles: np.ndarray | None = None,
) -> TokenStore:
    """Tokenise passages (in corpus order: sections and articles consecutive, ids from 0 without gaps) into a store.

    ``links`` are parallel arrays (L,) of source passage and linked article; links to an unknown article (-1) or to the
    passage's own article are dropped, and each pair is kept once. ``section_articles`` (C,) is the article of each section,
    where sections can be without passages: an article whose first section is empty has no introduction.

    Raises DataError when the sections or articles of ``passages`` are out of order, or the disk is full.
    """
    ids = special_ids(tokenizer)
    size = tokenizer.get_vocab_size()
    token_type = np.uint16 if size <= 65_536 else np.uint32
    types = {"tokens": token_type, "title_tokens": token_type, "word_starts": np.uint8}
    files: dict[str, _ArrayFile] = {}
    try:
        with room_for(directory / "meta.json"):
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "meta.json").unlink(missing_ok=True)
            for name in ARRAYS:
                files[name] = _ArrayFile(directory, name, types.get(name, np.int64))
        _write_arrays(files, tokenizer, passages, titles, links, label, section_articles)
        for file in files.values():
            file.close()
    except BaseException:
        for file in files.values():
            file.give_up()
        raise
    meta = {
        "vocabulary_size": size,
        "vocabulary_sha256": vocabulary_sha256(tokenizer),
        "special_ids": vars(ids),
        "arrays": {name: {"dtype": file.dtype.str, "length": file.length} for name, file in files.items()},
    }
    write_json(directory / "meta.json", meta)
    return TokenStore(directory)


def _write_arrays(
    files: dict[str, _ArrayFile],
    tokenizer: Tokenizer,
    passages: Iterable[PassageText],
    titles: Iterable[str],
    links: tuple[np.ndarray, np.ndarray] | None,
    label: str,
    section_articles: np.ndarray | None,
) -> None:
    """What :func:`write_token_store` appends to its files."""
    for name in ("sentence_starts", "passage_starts", "title_starts"):
        files[name].append([0])
    # 12 bytes a passage stay in memory: its number of sentences, its section and its article.
    counts, sections, articles = array("i"), array("i"), array("i")

    def sentences() -> Iterator[str]:
        for passage in passages:
            counts.append(len(passage.sentences))
            sections.append(passage.section)
            articles.append(passage.article)
            yield from passage.sentences

    with Progress(label, unit="sentences") as progress:
        for values, ends in _encoded(tokenizer, sentences()):
            files["tokens"].append(values)
            files["sentence_starts"].append(ends)
            progress.advance(len(ends))
    section_of, article_of = np.asarray(sections), np.asarray(articles)
    for level, owner in (("section", section_of), ("article", article_of)):
        if len(wrong := np.flatnonzero(np.diff(owner) < 0)):
            raise DataError(
                f"{files['tokens'].path.parent}: passage {int(wrong[0]) + 1} is out of order: its {level} comes before the last "
                "one."
            )
    if section_articles is None:
        # Each article begins with the first of its sections that has a passage.
        section_count, article_count = (int(owner.max(initial=-1)) + 1 for owner in (section_of, article_of))
        article_first = section_of[np.searchsorted(article_of, np.arange(article_count))]
    else:
        section_count, article_count = len(section_articles), int(np.max(section_articles, initial=-1)) + 1
        article_first = np.searchsorted(section_articles, np.arange(article_count))
    files["passage_starts"].append(np.cumsum(counts, dtype=np.int64))
    # A section or article without passages starts, and ends, where the next one does.
    files["section_starts"].append(np.searchsorted(section_of, np.arange(section_count + 1)))
    files["article_starts"].append(np.append(article_first, section_count))
    for values, ends in _encoded(tokenizer, titles):
        files["title_tokens"].append(values)
        files["title_starts"].append(ends)
    if links is not None and len(links[0]):
        source, target = (np.asarray(side, dtype=np.int64) for side in links)
        keep = (target >= 0) & (target < article_count) & (article_of[source] != target)
        pairs = np.unique(np.stack([source[keep], target[keep]], axis=1), axis=0)
        files["link_passages"].append(pairs[:, 0])
        files["link_articles"].append(pairs[:, 1])
    files["word_starts"].append(word_starts(tokenizer))


class TokenStore:
    """Read access to a store; every array is a read-only memory map (see the module's table for shapes).

    Raises DataError when a file is missing or does not have the length that ``meta.json`` states.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    passage_starts: np.ndarray
    section_starts: np.ndarray
    article_starts: np.ndarray
    title_tokens: np.ndarray
    title_starts: np.ndarray
    link_passages: np.ndarray
    link_articles: np.ndarray
    word_starts: np.ndarray

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        try:
            self.meta = json.loads((self.directory / "meta.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"{self.directory}/meta.json: no such token store. Build it with snakemake.") from None
        self.special = SpecialIds(**self.meta["special_ids"])
        self.vocabulary_size: int = self.meta["vocabulary_size"]
        for name, info in self.meta["arrays"].items():
            setattr(self, name, self._map(name, np.dtype(info["dtype"]), info["length"]))

    def read_by(self, kind: str) -> TokenStore:
        """The store as a body of that kind reads texts: T5's have no [CLS] in front, whatever the vocabulary has."""
        if kind != "t5" or self.special.cls == NO_TOKEN:
            return self
        store = copy.copy(self)
        store.special = replace(self.special, cls=NO_TOKEN)
        return store

    def _map(self, name: str, dtype: np.dtype, length: int) -> np.ndarray:
        path = self.directory / f"{name}.bin"
        found = path.stat().st_size if path.is_file() else None
        if found != length * dtype.itemsize:
            state = "is missing" if found is None else f"has {found} bytes"
            raise DataError(
                f"{path}: {state}, meta.json states {length} × {dtype.itemsize} bytes. "
                f"Delete {self.directory}/meta.json and run snakemake again."
            )
        return np.memmap(path, dtype=dtype, mode="r", shape=(length,)) if length else np.empty(0, dtype=dtype)

    @property
    def key(self) -> str:
        """Identity of the content (for checkpoints and embedding shards): a hash of the meta data and the arrays. A copy without
        what is not read (:mod:`pretrieve.operations.bundle.pack`) states that of the whole store."""
        if "key" in self.meta:
            return self.meta["key"]
        digest = hashlib.sha256(json.dumps(self.meta, sort_keys=True).encode())
        for name in ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name)).data)
        return digest.hexdigest()

    @property
    def n_passages(self) -> int:
        return len(self.passage_starts) - 1

    @property
    def n_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    def passage_article(self) -> np.ndarray:
        """(P,) article of each passage."""
        return self.article_of(np.arange(self.n_passages))

    def article_of(self, passages: np.ndarray) -> np.ndarray:
        """(n,) article of passages (n,), without a look at the others."""
        # The last section that begins at or before a passage is its own: an empty one begins where the next does.
        sections = np.searchsorted(self.section_starts, passages, side="right") - 1
        return np.searchsorted(self.article_starts, sections, side="right") - 1


#: Names of a store's arrays, in the order of their files.
ARRAYS = tuple(TokenStore.__annotations__)
