"""A run: the ranked documents of every query, and its TREC file; and the candidates that queries are given to rank.

The order of a ranking is defined here and nowhere else: **score from high to low, equal scores by document id in
ascending code-point order**, as in Anserini (trec_eval takes the ids of equal scores in *descending* order). So a
ranking is a function of its scores alone: never of thread count, shard size or the order of insertion.

A TREC file separates by white space, so white space within an id is percent-encoded there, and only there: ``my note.md`` is
``my%20note.md`` in the file. The lines of such a query say so: their second word, which programs pass over, is ``Q0%`` in place
of ``Q0``. On them an id that would be decoded to another one (``a%20b``) has its ``%`` encoded (``a%2520b``). Ids on all other
lines are as they are, those of other programs too.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from pyarrow import csv

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import DAMAGED_TEXT, whole_file
from pretrieve.raw.raw_text import check_characters

#: What is smaller than this becomes a finite float32.
_LIMIT = float(np.finfo(np.float32).max) + 2.0**103
#: What :func:`decoded` turns back: an encoded ``%``, and all that str.split() takes for white space.
_ENCODED = re.compile("|".join(quote(sign) for sign in ("%", *filter(str.isspace, map(chr, range(0x3001))))))
#: Second word of a line with encoded ids.
ENCODED = "Q0%"
_COLUMNS = "6 columns 'query_id Q0 doc_id rank score tag'"


def encoded(name: str) -> str:
    """An id as a word of a TREC file.

    >>> encoded("my note.md"), encoded("50%"), encoded("a%20b")
    ('my%20note.md', '50%', 'a%2520b')
    """
    if _ENCODED.search(name) or name.split() != [name]:
        return "".join(quote(sign) if sign == "%" or sign.isspace() else sign for sign in name)
    return name


def decoded(word: str) -> str:
    """The id that :func:`encoded` made a word of.

    >>> decoded("my%20note.md"), decoded("50%"), decoded("a%2520b")
    ('my note.md', '50%', 'a%20b')
    """
    return _ENCODED.sub(lambda found: unquote(found[0]), word) if "%" in word else word


def ids_of(query_id: str, second: str, doc_id: str) -> tuple[str, str]:
    """The two ids of a line, of its first three words.

    >>> ids_of("q", "Q0", "my%20note.md"), ids_of("q", "Q0%", "my%20note.md")
    (('q', 'my%20note.md'), ('q', 'my note.md'))
    """
    return (decoded(query_id), decoded(doc_id)) if second == ENCODED else (query_id, doc_id)


def rank_order(scores: np.ndarray, id_of: Callable[[int], str]) -> np.ndarray:
    """Positions (n,) int64 that sort one query's hits: by score (n,) descending, then by ``id_of(position)`` ascending."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    falls = np.flatnonzero(ranked[1:] != ranked[:-1]) + 1
    starts, ends = np.append(0, falls), np.append(falls, len(order))
    for i in np.flatnonzero(ends - starts > 1):  # only equal scores need a look at the ids
        tied = order[starts[i] : ends[i]]
        tied[:] = sorted(tied.tolist(), key=id_of)
    return order


@dataclass
class Run:
    """Ranked hits of ``Q`` queries; rankings may differ in length and may be empty.

    Attributes
    ----------
    query_ids : Q unique ids
    doc_ids : Q lists of unique ids, best first
    scores : Q arrays float32, finite, as long as the list of ids

    Hits given in another order are brought into the order of this module, so a Run that is out of order cannot exist.

    Raises
    ------
    DataError
        when lengths differ, an id repeats, or a score is not finite; the message names the query.
    """

    query_ids: list[str]
    doc_ids: list[list[str]]
    scores: list[np.ndarray]

    def __post_init__(self) -> None:
        self.doc_ids = list(self.doc_ids)  # the caller's stays as it is, beside the caller's scores
        self.scores = [np.asarray(scores, dtype=np.float32) for scores in self.scores]
        check_lists("run", self.query_ids, self.doc_ids, self.scores)
        # All scores in one array: a search has a thousand queries, and NumPy takes as long for ten numbers as for a hundred.
        together = np.concatenate([np.empty(0, np.float32), *self.scores])
        ends = np.cumsum([len(scores) for scores in self.scores], dtype=np.int64)
        if not np.isfinite(together).all():
            query = np.searchsorted(ends, np.argmin(np.isfinite(together)), side="right")
            raise DataError(
                f"run: query '{self.query_ids[query]}' has a score that is not finite; check the model's output."
            )
        falls = together[1:] < together[:-1]
        falls[ends[(ends > 0) & (ends < len(together))] - 1] = True  # from one query to the next
        # Strictly falling scores need no look at the ids.
        for i in np.unique(np.searchsorted(ends, np.flatnonzero(~falls), side="right")):
            doc_ids, scores = self.doc_ids[i], self.scores[i]
            order = rank_order(scores, doc_ids.__getitem__)
            self.doc_ids[i] = [doc_ids[j] for j in order.tolist()]
            self.scores[i] = scores[order]

    def __len__(self) -> int:
        return len(self.query_ids)

    def cut(self, depth: int) -> Run:
        """The first ``depth`` hits of every query."""
        return Run(self.query_ids, [ids[:depth] for ids in self.doc_ids], [values[:depth] for values in self.scores])

    def restrict(self, query_ids: Collection[str]) -> Run:
        """The rankings of ``query_ids`` only, in the order of this run; an id that the run lacks is a DataError."""
        wanted = set(query_ids)
        missing = sorted(wanted - set(self.query_ids))
        if missing:
            raise DataError(f"run: {len(missing)} queries are not in it, the first is '{missing[0]}'; search them too.")
        keep = [i for i, query_id in enumerate(self.query_ids) if query_id in wanted]
        return Run([self.query_ids[i] for i in keep], [self.doc_ids[i] for i in keep], [self.scores[i] for i in keep])


def check_lists(
    what: str, query_ids: Sequence[str], doc_ids: Sequence[Sequence[str]], scores: Sequence[np.ndarray]
) -> None:
    """Raise DataError where lengths differ or an id repeats; ``what`` begins the message."""
    if not len(query_ids) == len(doc_ids) == len(scores):
        raise DataError(
            f"{what}: {len(query_ids)} query ids, {len(doc_ids)} lists of document ids and {len(scores)} lists of scores; "
            "expected one of each per query."
        )
    if len(set(query_ids)) < len(query_ids):
        raise DataError(f"{what}: query id '{first_repeated(query_ids)}' occurs twice; give each query once.")
    for query_id, own, values in zip(query_ids, doc_ids, scores, strict=True):
        if len(own) != len(values):
            raise DataError(f"{what}: query '{query_id}' has {len(own)} document ids but {len(values)} scores.")
        if len(set(own)) < len(own):
            raise DataError(
                f"{what}: document '{first_repeated(own)}' occurs twice for query '{query_id}'; give each document once."
            )


def write_trec(path: Path | str, run: Run, tag: str) -> None:
    """Write ``query_id Q0 doc_id rank score tag`` lines, rank from 1; gzip when the name ends in ``.gz``. Of a query
    whose ids have white space they are percent-encoded, and ``Q0%`` stands in place of ``Q0``.

    The file appears whole, equal runs give equal bytes, and scores keep every bit of float32 (9 significant digits).
    A query without hits has no line: the format cannot express it, and evaluation counts a missing query as 0.

    Raises
    ------
    DataError
        when an id is empty, which the format cannot hold, or no valid Unicode.
    ConfigError
        when ``tag`` is empty or has white space.
    """
    path = Path(path)
    if not tag or tag.split() != [tag]:
        raise ConfigError(f"{path}: run tag '{tag}' must be one word without white space.")
    with whole_file(path) as raw:
        if path.name.endswith(".gz"):
            # No name and no time in the gzip header: the bytes depend on the run only. Level 3 takes a third of the time of 6,
            # and the file is a tenth larger.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=3, fileobj=raw, mtime=0) as stream:
                stream.writelines(_lines(path, run, tag))
        else:
            raw.writelines(_lines(path, run, tag))


def _lines(path: Path, run: Run, tag: str) -> Iterable[bytes]:
    for query_id, doc_ids, scores in zip(run.query_ids, run.doc_ids, run.scores, strict=True):
        words, second = [query_id, *doc_ids], "Q0"
        if " ".join(words).split() != words:
            if not all(words):
                raise DataError(
                    f"{path}: an id of query '{query_id}' is empty, which a TREC run cannot hold; give it one."
                )
            (query_id, *doc_ids), second = map(encoded, words), ENCODED
        hits = zip(doc_ids, scores.tolist(), strict=True)
        block = [f"{query_id} {second} {doc_id} {i} {score:.9g} {tag}\n" for i, (doc_id, score) in enumerate(hits, 1)]
        yield check_characters(f"{path}: query {query_id!r}, its id or that of a hit", "".join(block))


def read_trec(path: Path | str, three_columns: bool = False) -> Run:
    """Read a TREC run, plain or ``.gz``. Queries keep the order of the file; hits are sorted by this module's order
    (the rank column must be a whole number but does not decide, as in trec_eval).

    three_columns: lines may also be MS MARCO's, ``query_id doc_id rank``, which have no scores: minus the rank is the score.

    Raises
    ------
    DataError
        when the file is missing or damaged, or a line is malformed or repeats a document; file and line are named.
    """
    path = Path(path)
    if path.name.endswith(".gz") and path.is_file() and not path.stat().st_size:  # gzip reads it as an empty text
        raise DataError(f"{path}: has 0 bytes, which is no gzip file; expected a TREC run: write the run again.")
    run = _read_columns(path)
    return _read_lines(path, three_columns) if run is None else run


def _read_columns(path: Path) -> Run | None:
    """The run of a file as :func:`write_trec` makes it, single spaces between the columns, several times faster than line by
    line; None where the file is another, or wrong: then the lines say where."""
    reading = csv.ReadOptions(use_threads=False, column_names=["query", "q0", "document", "rank", "score", "tag"])
    parsing = csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False)
    word = pa.dictionary(pa.int32(), pa.string())
    types = {"query": word, "q0": word, "document": word, "rank": pa.int64(), "score": pa.float64(), "tag": word}
    converting = csv.ConvertOptions(column_types=types, null_values=[])
    try:
        with pa.input_stream(path, compression="gzip" if path.name.endswith(".gz") else None) as stream:
            table = csv.read_csv(stream, reading, parsing, converting).unify_dictionaries().combine_chunks()
        query, second, document = (table[name].combine_chunks() for name in ("query", "q0", "document"))
        if any(word.split() != [word] for column in (query, document) for word in column.dictionary.to_pylist()):
            return None
        if ENCODED in (seconds := second.dictionary.to_pylist()):
            marked = second.indices.to_numpy() == seconds.index(ENCODED)
            query, document = _with_decoded(query, marked), _with_decoded(document, marked)
        query_ids, doc_ids = query.dictionary.to_pylist(), np.array(document.dictionary.to_pylist(), dtype=object)
        numbers = query.indices.to_numpy()
        order = np.argsort(numbers, kind="stable")  # a query's lines need not be adjacent
        ends = np.cumsum(np.bincount(numbers, minlength=len(query_ids)))[:-1]
        ranked = np.split(doc_ids[document.indices.to_numpy()[order]], ends)
        with np.errstate(over="ignore"):  # then it is infinite, which Run refuses
            scores = np.split(table["score"].to_numpy()[order].astype(np.float32), ends)
        return Run(query_ids, [ids.tolist() for ids in ranked], scores)
    except (pa.ArrowException, OSError, DataError):
        return None


def _with_decoded(column: pa.DictionaryArray, marked: np.ndarray) -> pa.DictionaryArray:
    """A column (n,) of words as ids, those of ``marked`` rows (n,) bool decoded."""
    words = column.dictionary.to_pylist()
    ids = pa.array([*words, *map(decoded, words)])
    return ids.take(pa.array(column.indices.to_numpy() + len(words) * marked)).dictionary_encode()


def run_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each line of a run, plain or ``.gz``. Raises DataError when the file is missing or damaged."""
    number = 0
    try:
        with (gzip.open if path.name.endswith(".gz") else open)(
            path, "rt", encoding="utf-8-sig", newline="\n"
        ) as stream:
            for number, line in enumerate(stream, 1):
                yield number, line
    except FileNotFoundError:
        raise DataError(f"{path}: no such file, expected a TREC run.") from None
    except DAMAGED_TEXT as error:
        raise DataError(
            f"{path}: {f'damaged after line {number}' if number else 'cannot be read'}: {error}. Expected "
            "UTF-8 text (gzip for .gz); write the run again."
        ) from error


def _read_lines(path: Path, three_columns: bool = False) -> Run:
    hits: dict[str, dict[str, float]] = {}
    for number, line in run_lines(path):
        words = line.split()
        if three_columns and len(words) == 3:
            words = [words[0], "Q0", *words[1:], f"-{words[2]}", ""]
        try:
            query_id, second, doc_id, rank, score, _ = words
            query_id, doc_id = ids_of(query_id, second, doc_id)
            int(rank)
            value = float(score)
            # Python also reads 1_0, and digits of other scripts; no other program does.
            numbers = rank + score
            if not abs(value) < _LIMIT or "_" in numbers or not numbers.isascii():
                raise ValueError("not a float32, or not written as one")
        except ValueError:
            also = ", or 3 columns 'query_id doc_id rank'" if three_columns else ""
            raise DataError(
                f"{path}, line {number}: found '{line.rstrip()[:120]}', expected {_COLUMNS} with a "
                f"whole-number rank and a finite score{also}. Write the run again."
            ) from None
        ranking = hits.setdefault(query_id, {})
        if doc_id in ranking:
            raise DataError(
                f"{path}, line {number}: document '{doc_id}' occurs twice for query '{query_id}', "
                "expected once. Write the run again."
            )
        ranking[doc_id] = value
    return Run(
        list(hits),
        [list(ranking) for ranking in hits.values()],
        [np.array(list(ranking.values()), dtype=np.float32) for ranking in hits.values()],
    )


def first_repeated(words: Sequence[str]) -> str:
    """The first word that stands there a second time."""
    seen: set[str] = set()
    for word in words:
        if word in seen:
            return word
        seen.add(word)
    raise ValueError("no word repeats")


def read_candidates(path: Path | str) -> dict[str, list[str]]:
    """The documents that each query is given to rank: the hits of a TREC run. Raises DataError as :func:`read_trec`."""
    run = read_trec(path)
    return dict(zip(run.query_ids, run.doc_ids, strict=True))
