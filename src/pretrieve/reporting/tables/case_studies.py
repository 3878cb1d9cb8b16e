"""Case studies, read from a run: the chosen queries, what each system ranks first for them, and how its text begins.

How the queries are chosen: :mod:`pretrieve.references.cases`. Reciprocal ranks come from the metrics files, the first
document from the run of the first seed, texts from the data set's ``corpus.parquet`` and ``queries.parquet``. A run that is
not the one its metrics were computed from is refused, so a document cannot stand beside the rank of another ranking.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of
from pretrieve.references.cases import RANKED_BY, choose_cases, text_files
from pretrieve.reporting.tables.results import ResultFiles

#: Characters of a snippet, at most.
SNIPPET = 200


def snippet(text: str, length: int = SNIPPET) -> str:
    """The beginning of a text in one line, cut behind a word: at most ``length`` characters and an ellipsis.

    >>> snippet("A boat,  a ship\\nand a raft.", 16)
    'A boat, a ship …'
    """
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    cut = text[: length + 1].rpartition(" ")[0] or text[:length]
    return f"{cut} …"


class CaseStudies:
    """The cases of two systems on one data set.

    systems: system → its seeds, the one that wins first.

    Raises DataError when a file is damaged, two metrics files have different queries or none of their own, a run is not that of
    its metrics, or a document or query is not in the data set.
    """

    def __init__(self, root: str, dataset: str, systems: Mapping[str, Sequence[int]], files: ResultFiles) -> None:
        self._root, self._dataset, self._systems, self._files = root, dataset, systems, files

    @cached_property
    def ranks(self) -> dict[str, dict[str, list[float]]]:
        """System → query → reciprocal rank with each seed."""
        ranks: dict[str, dict[str, list[float]]] = {}
        first = None
        for system, seeds in self._systems.items():
            for seed in seeds:
                path = paths.metrics_file(self._root, system, self._dataset, seed)
                values = self._files.per_query(path, RANKED_BY)
                if values is None:
                    raise DataError(f"{path}: no values per query for {RANKED_BY}; expected them. Run its stage again.")
                first = first or (path, values.keys())
                if values.keys() != first[1]:
                    raise DataError(
                        f"{path}: its queries are not those of {first[0]}; expected the same. Evaluate both again."
                    )
                for query, value in values.items():
                    ranks.setdefault(system, {}).setdefault(query, []).append(value)
        return ranks

    @cached_property
    def queries(self) -> list[str]:
        """The query of every case, the first case first."""
        first, second = self.ranks.values()
        return choose_cases(first, second)

    def rank(self, system: str, case: int) -> list[float]:
        """Reciprocal rank of a case's query with each seed."""
        return self.ranks[system][self.queries[case]]

    def text(self, metric: str, system: str, case: int) -> str:
        """What a case shows; ``metric`` one of :data:`~pretrieve.references.cases.CASE_TEXTS`. '' where there is nothing."""
        query = self.queries[case]
        if metric == "query":
            return self._query_texts[query]
        document = self._first_documents[system].get(query)
        if document is None:
            return ""
        if metric == "first-url":
            return document
        title, text = self._documents[document]
        return " ".join(title.split()) if metric == "first-title" else snippet(text)

    @cached_property
    def _first_documents(self) -> dict[str, dict[str, str]]:
        """System → query of a case → id of the document that it ranks first with its first seed."""
        from pretrieve.retrieval.trec_run import read_trec

        found, cases = {}, set(self.queries)
        for system, seeds in self._systems.items():
            path = paths.run_file(self._root, system, self._dataset, seeds[0])
            metrics = paths.metrics_file(self._root, system, self._dataset, seeds[0])
            run = read_trec(path)
            if self._files.read(metrics).get("run_sha256") != sha256_of(Path(path)):
                raise DataError(
                    f"{path}: not the run that {metrics} is about; run snakemake again, one of them is older."
                )
            ranked = zip(run.query_ids, run.doc_ids, strict=True)
            found[system] = {query: ids[0] for query, ids in ranked if query in cases and ids}
        return found

    @cached_property
    def _documents(self) -> dict[str, tuple[str, str]]:
        """Document → title and text: the sentence where a candidate is one, or the whole passage."""
        ids = {document for of_system in self._first_documents.values() for document in of_system.values()}
        rows = _rows(Path(text_files(self._root, self._dataset)[0]), "doc_id", ids, ("title", "sentence", "passage"))
        return {document: (title, sentence or passage) for document, (title, sentence, passage) in rows.items()}

    @cached_property
    def _query_texts(self) -> dict[str, str]:
        rows = _rows(Path(text_files(self._root, self._dataset)[1]), "query_id", self.queries, ("text",))
        return {query: " ".join(text.split()) for query, (text,) in rows.items()}


def _rows(path: Path, key: str, wanted: Collection[str], columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """``columns`` of the rows whose ``key`` is wanted; of a collection of millions the others are never held."""
    import pyarrow as pa  # here, for a table without cases needs neither
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path, columns=[key, *columns], filters=[(key, "in", sorted(wanted))], pre_buffer=False)
        found = {row[key]: tuple(row[name] for name in columns) for row in rows.to_pylist()}
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: not readable: {error}. Delete it and run snakemake again.") from None
    if missing := sorted(set(wanted) - found.keys()):
        raise DataError(
            f"{path}: no {key} {missing[0]!r}, which is in a run; run snakemake again, one of them is older."
        )
    return found
