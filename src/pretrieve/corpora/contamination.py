"""Which articles of a pre-training corpus hold paragraphs of a test set, by title and by text.

An encoder that has seen a test set's paragraphs in pre-training is measured on texts it knows. The question's
paragraph is in Wikipedia for most sets, so this is the rule and not the exception in the papers; here it is counted,
and can be taken out.

* **Test paragraphs** are the passages that are relevant to test questions, with their titles: of a task directory
  (:mod:`pretrieve.tasks.task`), a collection directory, or a file in SQuAD's layout (all of its paragraphs). Where nobody judged
  a passage, they are all passages that are searched; of a task of examples (:mod:`pretrieve.tasks.example_task`), the texts
  of its test examples. ``of`` says which.
* **By title**: an article with the title of a test paragraph's article, normalised as MediaWiki does.
* **By text**: words are runs of letters and digits in lower case; a paragraph overlaps with an article when at least
  ``share`` of the paragraph's distinct 8-grams of words stand in the article. One 8-gram alone is often a phrase that
  anybody uses, and each word that differs between two versions of a page costs eight 8-grams; hence the share, 0.5.

8-grams are 64-bit hashes: among a million different test 8-grams, chance finds one in 10^13. The corpus is read row
group by row group; in memory are the titles and the hashes of the test paragraphs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import whole_file, write_json
from pretrieve.corpora.tables import read_rows, read_table, titles_of
from pretrieve.corpora.wikitext import article_title
from pretrieve.raw.json_file import read_json

N = 8
SHARE = 0.5
_WORD = re.compile(r"[^\W_]+")
#: An odd number: powers of it differ modulo 2**64.
_BASE = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=500_000)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def grams(text: str) -> np.ndarray:
    """Distinct hashes (uint64, sorted) of the 8-grams of words of ``text``; none for less than 8 words."""
    words = _WORD.findall(text.lower())
    if len(words) < N:
        return np.empty(0, dtype=np.uint64)
    codes = np.fromiter(map(_word_hash, words), dtype=np.uint64, count=len(words))
    found = np.zeros(len(words) - N + 1, dtype=np.uint64)
    for place in range(N):  # modulo 2**64, as unsigned integers do
        found = found * _BASE + codes[place : place + len(found)]
    return np.unique(found)


class TestParagraph(NamedTuple):
    """A paragraph that answers a test question; ``title`` may be ''."""

    __test__ = False  # the name is the field's; pytest need not look

    title: str
    text: str


def _of_tables(directory: Path, table: str, text: str) -> list[TestParagraph]:
    """Passages relevant to test questions, of a task or a collection."""
    splits = directory / "splits.parquet"
    test = _test_ids(splits if splits.exists() else directory / "queries.parquet")
    judged = list(read_rows(directory / "qrels.parquet", ("query_id", "doc_id", "relevance")))
    wanted = {document for query, document, relevance in judged if query in test and relevance > 0}
    # Without judgements answers are looked for in whatever is found. The sentences of one paragraph are candidates each.
    rows = read_rows(directory / table, ("doc_id", "title", text))
    return [*dict.fromkeys(TestParagraph(*row) for name, *row in rows if not judged or name in wanted)]


def _test_ids(table: Path) -> set[str]:
    return {name for name, split in read_rows(table, ("query_id", "split")) if split == "test"}


def _of_examples(directory: Path) -> list[TestParagraph]:
    """The texts of test examples of a task of examples, each once."""
    test = _test_ids(directory / "splits.parquet")
    examples = read_rows(directory / "examples.parquet", ("example_id", "texts"))
    wanted = {row for example, texts in examples if example in test for row in texts}
    texts = read_table(directory / "texts.parquet", ["text"])["text"]
    return [TestParagraph("", text) for text in dict.fromkeys(texts[row].as_py() for row in sorted(wanted))]


def kind_of(path: Path) -> str:
    """What the test paragraphs of ``path`` are: the value of ``of`` in the numbers."""
    if (path / "examples.parquet").is_file():
        return "texts of test examples"
    if not path.is_dir():
        return "paragraphs of the file"
    judged = pq.ParquetFile(path / "qrels.parquet").metadata.num_rows
    return "passages that answer a test question" if judged else "passages that are searched"


def read_test_paragraphs(path: Path) -> list[TestParagraph]:
    """The distinct test paragraphs of a task directory, a collection directory or a SQuAD file (plain or packed).

    Raises DataError when it is none of these, or has no test paragraph.
    """
    if (path / "collection.parquet").is_file():
        found = _of_tables(path, "collection.parquet", "text")
    elif (path / "corpus.parquet").is_file():
        found = _of_tables(path, "corpus.parquet", "passage")
    elif (path / "examples.parquet").is_file():
        found = _of_examples(path)
    elif path.is_dir():
        raise DataError(
            f"{path}: neither collection.parquet, corpus.parquet nor examples.parquet in it; expected a task or a collection."
        )
    else:
        found = _of_squad(path)
    if not found:
        raise DataError(f"{path}: no paragraph in it is relevant to a test question; is this the test part?")
    return found


def _of_squad(path: Path) -> list[TestParagraph]:
    root = read_json(path, "SQuAD's layout, or a directory")
    try:
        found = [
            TestParagraph(article["title"], paragraph["context"])
            for article in root["data"]
            for paragraph in article["paragraphs"]
        ]
        if not all(isinstance(text, str) for paragraph in found for text in paragraph):
            raise TypeError("a title or context is not text")
        return found
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path}: {type(error).__name__}: {error}; expected SQuAD's layout (data, title, "
            "paragraphs, context), or a directory."
        ) from None


class _Index:
    """8-gram → paragraphs that have it."""

    def __init__(self, paragraphs: Iterable[TestParagraph]) -> None:
        each = [grams(paragraph.text) for paragraph in paragraphs]
        self.sizes = np.array([len(found) for found in each], dtype=np.int64)
        keys = np.concatenate(each) if each else np.empty(0, np.uint64)
        owners = np.repeat(np.arange(len(each)), self.sizes)
        order = np.argsort(keys, kind="stable")
        self._keys, self._owners = keys[order], owners[order]

    def hits(self, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Paragraphs (k,) that have any of the distinct 8-grams, and how many of them (k,)."""
        begin = np.searchsorted(self._keys, found, "left")
        counts = np.searchsorted(self._keys, found, "right") - begin
        begin, counts = begin[counts > 0], counts[counts > 0]
        if not len(begin):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places = np.concatenate([np.arange(b, b + c) for b, c in zip(begin, counts, strict=True)])
        return np.unique(self._owners[places], return_counts=True)


def measure_overlap(corpus: Path, test: Path, share: float = SHARE) -> tuple[dict[str, Any], list[str]]:
    """Numbers of the overlap, and the titles of the articles that overlap, in corpus order.

    ``of``: what is counted (:func:`kind_of`); ``corpus``, ``corpus_articles``: the name of its directory, and its articles.
    ``test_paragraphs``; ``paragraphs_by_title``, ``paragraphs_by_text``, ``paragraphs``: how many of them the corpus
    has (the last: by either); ``paragraphs_touched``: with at least one 8-gram in one article; ``paragraphs_short``:
    with less than 8 words, which only a title can find; ``articles``, ``articles_by_title``, ``articles_by_text``:
    articles that overlap.

    Raises DataError when a table or the test set cannot be read, and ConfigError when ``share`` is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"share {share:g}: expected a share of a paragraph's 8-grams, above 0 and at most 1.")
    paragraphs = read_test_paragraphs(test)
    index = _Index(paragraphs)
    titles = titles_of(corpus)
    of_title: dict[str, list[int]] = {}
    for number, paragraph in enumerate(paragraphs):
        if title := article_title(paragraph.title):
            of_title.setdefault(title, []).append(number)
    by_title = {article for article, title in enumerate(titles) if article_title(title) in of_title}
    titled = {number for article in by_title for number in of_title[article_title(titles[article])]}
    by_text: set[int] = set()
    texted: set[int] = set()
    touched: set[int] = set()
    rows = read_rows(corpus / "passages.parquet", ("article_id", "text"))
    for article, passages in groupby(rows, key=itemgetter(0)):
        found = np.unique(np.concatenate([grams(text) for _, text in passages]))
        owners, counts = index.hits(found)
        touched.update(owners.tolist())
        whole = owners[counts >= share * index.sizes[owners]].tolist()
        texted.update(whole)
        if whole:
            by_text.add(article)
    numbers = {
        "of": kind_of(test),
        "corpus": corpus.name,
        "corpus_articles": len(titles),
        "test_paragraphs": len(paragraphs),
        "paragraphs": len(titled | texted),
        "paragraphs_by_title": len(titled),
        "paragraphs_by_text": len(texted),
        "paragraphs_touched": len(touched),
        "paragraphs_short": int((index.sizes == 0).sum()),
        "articles": len(by_title | by_text),
        "articles_by_title": len(by_title),
        "articles_by_text": len(by_text),
        "words": N,
        "share": share,
    }
    return numbers, [titles[article] for article in sorted(by_title | by_text)]


def write_overlap(numbers: dict[str, Any], titles: list[str], stats: Path, exclude: Path | None = None) -> None:
    """Write the numbers as JSON, and the titles as a file that ``exclude`` of a corpus takes."""
    if exclude is not None:
        with whole_file(exclude) as stream:
            stream.write(b"# Articles that overlap with a test set\n")
            # A title that is missing cannot be named; such an article stays.
            stream.writelines(f"{title}\n".encode() for title in dict.fromkeys(titles) if title.strip())
    write_json(stats, numbers | {"titles_without_name": sum(not title.strip() for title in titles)})
