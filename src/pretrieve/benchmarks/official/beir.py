"""BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/{train,dev,test}.tsv``.

https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset (Thakur et al. 2021)::

    corpus.jsonl   {"_id": "4983", "title": "Microstructural …", "text": "Alterations of …", "metadata": {…}}
    queries.jsonl  {"_id": "1", "text": "0-dimensional biomaterials …", "metadata": {…}}
    qrels/*.tsv    query-id <tab> corpus-id <tab> score, with a header line

``title`` and ``metadata`` may be missing; ids are strings (a number is read as one, and counted). ``queries.jsonl`` has
the queries of all splits; which split one belongs to is where it is judged, and one without judgements, or without text, is
left out.
The three files may be packed. CQADupStack is twelve such directories, twelve collections, and one number: the mean of
the twelve (:func:`pretrieve.evaluation.conventions.mean_of_means`).

Counts are those of https://ir-datasets.com/beir.html and of Table 1 of the paper, which agree where both state one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.corpora.beir_documents import document_fields, id_of, text_of
from pretrieve.raw.raw_text import read_json_lines
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.qrels_lines import add_judgements, splits_of_queries
from pretrieve.tasks.splits import rounded, shuffled

QRELS = ("train", "dev", "test")


class BeirSet(NamedTuple):
    """Documents, and queries and judgements by split (None: not stated here). below_zero: see
    :func:`~pretrieve.tasks.qrels_lines.add_judgements`."""

    documents: int
    queries: dict[str, int]
    judgements: dict[str, int] | None = None
    below_zero: str = "error"

    def expected(self, splits: Mapping[str, object]) -> dict[str, int]:
        """Counts that must be read when the judgements of these splits are given."""
        counts = {"documents": self.documents}
        for split in splits:
            counts |= {f"queries.{split}": self.queries[split]} if split in self.queries else {}
            counts |= {f"judgements.{split}": self.judgements[split]} if split in (self.judgements or {}) else {}
        return counts


#: The 18 sets of the benchmark besides MS MARCO. Four are not for download (BioASQ, Signal-1M, TREC-NEWS, Robust04): whoever has
#: them turns them into this layout with BEIR's scripts.
SETS: dict[str, BeirSet] = {
    "msmarco": BeirSet(
        8_841_823,
        {"train": 502_939, "dev": 6_980, "test": 43},
        {"train": 532_751, "dev": 7_437, "test": 9_260},
    ),
    # Two of its judgements are −1.
    "trec-covid": BeirSet(171_332, {"test": 50}, {"test": 66_334}, "leave-out"),
    "nfcorpus": BeirSet(
        3_633, {"train": 2_590, "dev": 324, "test": 323}, {"train": 110_575, "dev": 11_385, "test": 12_334}
    ),
    "bioasq": BeirSet(14_914_602, {"test": 500}),
    "nq": BeirSet(2_681_468, {"test": 3_452}, {"test": 4_201}),
    "hotpotqa": BeirSet(
        5_233_329, {"train": 85_000, "dev": 5_447, "test": 7_405}, {"train": 170_000, "dev": 10_894, "test": 14_810}
    ),
    "fiqa": BeirSet(57_638, {"train": 5_500, "dev": 500, "test": 648}, {"train": 14_166, "dev": 1_238, "test": 1_706}),
    "signal1m": BeirSet(2_866_316, {"test": 97}),
    "trec-news": BeirSet(594_977, {"test": 57}),
    "robust04": BeirSet(528_155, {"test": 249}),
    "arguana": BeirSet(8_674, {"test": 1_406}, {"test": 1_406}),
    # The second version; the first had 2,962 judgements.
    "webis-touche2020": BeirSet(382_545, {"test": 49}),
    "quora": BeirSet(522_931, {"dev": 5_000, "test": 10_000}, {"dev": 7_626, "test": 15_675}),
    "dbpedia-entity": BeirSet(4_635_922, {"dev": 67, "test": 400}, {"dev": 5_673, "test": 43_515}),
    "scidocs": BeirSet(25_657, {"test": 1_000}),
    "fever": BeirSet(
        5_416_568, {"train": 109_810, "dev": 6_666, "test": 6_666}, {"train": 140_085, "dev": 8_079, "test": 7_937}
    ),
    "climate-fever": BeirSet(5_416_593, {"test": 1_535}, {"test": 4_681}),
    "scifact": BeirSet(5_183, {"train": 809, "test": 300}, {"train": 919, "test": 339}),
    "cqadupstack/android": BeirSet(22_998, {"test": 699}),
    "cqadupstack/english": BeirSet(40_221, {"test": 1_570}),
    "cqadupstack/gaming": BeirSet(45_301, {"test": 1_595}),
    "cqadupstack/gis": BeirSet(37_637, {"test": 885}),
    "cqadupstack/mathematica": BeirSet(16_705, {"test": 804}),
    "cqadupstack/physics": BeirSet(38_316, {"test": 1_039}),
    "cqadupstack/programmers": BeirSet(32_176, {"test": 876}),
    "cqadupstack/stats": BeirSet(42_269, {"test": 652}),
    "cqadupstack/tex": BeirSet(68_184, {"test": 2_906}),
    "cqadupstack/unix": BeirSet(47_382, {"test": 1_072}),
    "cqadupstack/webmasters": BeirSet(17_405, {"test": 506}),
    "cqadupstack/wordpress": BeirSet(48_605, {"test": 541}),
}


def beir_files(directory: Path) -> dict[str, Path]:
    """The files of a directory in the layout, by their names in
    :data:`~pretrieve.benchmarks.readers.READERS`.

    ``corpus`` and ``queries`` may be packed as ``.gz`` or ``.bz2``.

    Raises
    ------
    DataError
        when a required one is missing or there twice, or there is no judgement at all.
    """
    directory = Path(directory)
    files = {}
    for name in ("corpus", "queries"):
        found = packed_file(directory, f"{name}.jsonl")
        if found is None:
            raise DataError(
                f"{directory / name}.jsonl: no such file (nor with .gz, .bz2); expected a directory in BEIR's layout."
            )
        files[name] = found
    for split in QRELS:
        if (directory / "qrels" / f"{split}.tsv").is_file():
            files[split] = directory / "qrels" / f"{split}.tsv"
    if not set(QRELS) & set(files):
        raise DataError(f"{directory}/qrels: no train.tsv, dev.tsv or test.tsv; expected at least one.")
    return files


def packed_file(directory: Path, name: str) -> Path | None:
    """A file by its name, or packed as ``.gz`` or ``.bz2``; None where there is neither. Raises DataError where there are two:
    which of them is newer cannot be known."""
    found = [place for suffix in ("", ".gz", ".bz2") if (place := directory / f"{name}{suffix}").is_file()]
    if len(found) > 1:
        names = " and ".join(place.name for place in found)
        raise DataError(f"{directory}: has {names}; expected one of them: remove or rename the others.")
    return found[0] if found else None


def read_beir(
    files: Mapping[str, Path],
    writer: CollectionWriter,
    name: str = "",
    below_zero: str = "error",
    test_share: float = 0.0,
) -> None:
    """Read a set in BEIR's layout.

    Parameters
    ----------
    files:
        ``corpus``, ``queries``, and the judgements ``train``, ``dev``, ``test``: at least one of the three.
    name:
        a BEIR set, such as ``scifact`` or ``cqadupstack/android``: its counts must come out. '': any data.
    below_zero:
        ``error``, or ``leave-out`` where a relevance below zero means "not judged".
    test_share:
        share of the train queries that test instead, drawn by their ids; for data without test and dev queries.

    Raises
    ------
    ConfigError
        for an unknown set, when there are no judgements, or a share beside test or dev queries.
    DataError
        when a file is damaged or not in the layout.
    """
    if name and name not in SETS:
        raise ConfigError(f"BEIR set '{name}' is unknown; there are {', '.join(SETS)}{nearest(name, SETS)}.")
    if below_zero not in ("error", "leave-out"):
        raise ConfigError(f"below_zero is {below_zero!r}; expected 'error' or 'leave-out'.")
    qrels = {split: files[split] for split in QRELS if split in files}
    if not qrels:
        raise ConfigError("reader 'beir' has no judgements: give at least one of the files train, dev and test.")
    if test_share and set(qrels) != {"train"}:
        raise ConfigError(f"test_share is {test_share}, beside {', '.join(qrels)}; expected judgements of train alone.")
    if name:
        writer.expected |= SETS[name].expected(qrels)
        below_zero = SETS[name].below_zero
    split_of = splits_of_queries(qrels, "beir", writer.warnings)
    if test_share:
        split_of |= dict.fromkeys(shuffled(split_of, 1)[: rounded(test_share * len(split_of))], "test")
    path = files["corpus"]
    for line, record in read_json_lines(path, ["_id", "text"], warnings=writer.warnings):
        writer.at(path, line)
        writer.add_document(*document_fields(record, path, line, writer.warnings))
    path = files["queries"]
    for line, record in read_json_lines(path, ["_id", "text"], warnings=writer.warnings):
        writer.at(path, line)
        query_id = id_of(record, path, line, writer.warnings)
        if query_id in split_of and not (text := text_of(record, "text", path, line)).strip():
            writer.warnings.add("query without text, left out", f"{path}: line {line}: {query_id!r}")
            split_of[query_id] = ""  # its judgements go with it
        elif query_id in split_of:
            writer.add_query(query_id, text, split_of[query_id])
        else:
            writer.warnings.add("query that is not judged, left out", f"{path}: line {line}: {query_id!r}")
    add_judgements(writer, qrels, "beir", split_of, below_zero, moved=bool(test_share))
