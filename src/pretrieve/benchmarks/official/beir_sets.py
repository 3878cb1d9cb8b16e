"""The sets of BEIR and their counts: those of https://ir-datasets.com/beir.html and of Table 1 of the paper (Thakur et al. 2021),
which agree where both state one. Standard library only, for every call of Snakemake reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class BeirSet(NamedTuple):
    """Documents, and queries and judgements by split (None: not stated here). below_zero: see
    :func:`~pretrieve.tasks.qrels_lines.add_judgements`. own_ids: queries have ids of documents, as where a query is itself a
    document; those sets whose tasks in mteb drop a hit with the id of its query. BEIR drops it in all. lacking: judgements of
    documents that the published corpus lacks."""

    documents: int
    queries: dict[str, int]
    judgements: dict[str, int] | None = None
    below_zero: str = "error"
    own_ids: bool = False
    lacking: int = 0

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
        own_ids=True,
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
    "fiqa": BeirSet(
        57_638, {"train": 5_500, "dev": 500, "test": 648}, {"train": 14_166, "dev": 1_238, "test": 1_706}, own_ids=True
    ),
    "signal1m": BeirSet(2_866_316, {"test": 97}),
    "trec-news": BeirSet(594_977, {"test": 57}),
    "robust04": BeirSet(528_155, {"test": 249}),
    # beir-cellar/beir#101; embeddings-benchmark/mteb#5021 counts them.
    "arguana": BeirSet(8_674, {"test": 1_406}, {"test": 1_406}, own_ids=True, lacking=5),
    # The second version; the first had 2,962 judgements.
    "webis-touche2020": BeirSet(382_545, {"test": 49}),
    "quora": BeirSet(522_931, {"dev": 5_000, "test": 10_000}, {"dev": 7_626, "test": 15_675}, own_ids=True),
    "dbpedia-entity": BeirSet(4_635_922, {"dev": 67, "test": 400}, {"dev": 5_673, "test": 43_515}),
    "scidocs": BeirSet(25_657, {"test": 1_000}),
    "fever": BeirSet(
        5_416_568,
        {"train": 109_810, "dev": 6_666, "test": 6_666},
        {"train": 140_085, "dev": 8_079, "test": 7_937},
        own_ids=True,
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


def set_called(folder: str) -> BeirSet:
    """The set with this name; one without peculiarities where there is none."""
    return SETS.get(folder, BeirSet(0, {}))
