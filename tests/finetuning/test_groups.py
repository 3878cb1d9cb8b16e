"""Which documents a step is trained with: every example once an epoch, every negative once a round; refusals.

Seen to fail when: negatives are the same in every epoch, or of every query in one order, not shuffled, sampled anew
each time, or from a stateful generator; two examples of a query read the same negatives; lists are cut before relevant
documents are taken out, or not cut, or those stay in, or repeats do; the same group stands in a step twice, or another
group of the same example is dropped; only the first answer is trained on; a step is longer than an epoch; empty lists,
unknown ids, unanswered queries, or ids and judgements that stand twice pass; documents of grade 0 are relevant; a draw takes
the first documents, or looks deeper than it should; lists are united though they should be separate; a query's relevant
documents do not take turns, or do though the first alone is wanted, or the first is the one with the lowest row.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from ranking_small import OPTIONS, lists

from pretrieve.base.errors import DataError
from pretrieve.finetuning.groups import Groups, steps_for
from pretrieve.retrieval.negatives import Negatives
from pretrieve.tasks.dataset import Dataset


def of(source: dict[str, list[str]], name: str = "bm25", path: str = "") -> Negatives:
    scores = [np.zeros(len(own), np.float32) for own in source.values()]
    return Negatives(list(source), list(source.values()), scores, {"source": name}, path)


def make(data: Dataset, group: int, negatives=None, seed: int = 7, rows=None, **options) -> Groups:
    rows = data.split("60pct", "train") if rows is None else rows
    negatives = [lists(data, rows)] if negatives is None else negatives
    return Groups(data, rows, OPTIONS | {"group": group} | options, negatives, seed)


def triples(group) -> list[tuple]:
    return [(int(q), *map(int, d)) for q, d in zip(group.queries, group.documents, strict=True)]


@pytest.mark.parametrize("group", [1, 4])
def test_a_pure_function_of_the_step(task: Dataset, group: int) -> None:
    one, other = make(task, group), make(task, group)
    forward = {step: triples(one.at(step, 7)) for step in range(12)}
    assert {step: triples(other.at(step, 7)) for step in reversed(range(12))} == forward
    different = make(task, group, seed=8)
    assert sum(triples(different.at(step, 7)) == forward[step] for step in range(12)) < 2


@pytest.mark.parametrize("two", [False, True])
def test_every_example_once_an_epoch(task: Dataset, two_answers: Dataset, two: bool) -> None:
    """Of a query with two relevant documents, both; whatever the size of a step, as long as it divides the epoch."""
    data = two_answers if two else task
    rows = data.split("60pct", "train")
    wanted = sorted((int(row), int(document)) for row in rows for document in data.relevant[row])
    assert len(wanted) == (48 if two else 24)
    for batch in (len(wanted), 8, 3):
        groups = make(data, 3)
        assert len(groups) == len(wanted)
        per_epoch = len(wanted) // batch
        epochs = []
        for epoch in range(3):
            steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
            seen = [row[:2] for step in steps for row in triples(groups.at(step, batch))]
            assert sorted(seen) == wanted
            epochs.append(seen)
        assert batch == len(wanted) or epochs[0] != epochs[1]
    assert triples(make(data, 3).at(0, 10**6)) == triples(make(data, 3).at(0, len(wanted)))


@pytest.mark.parametrize(("group", "length"), [(2, 8), (4, 8), (4, 6), (3, 5), (8, 8), (5, 3)])
@pytest.mark.parametrize("two", [False, True])
def test_every_negative_once_a_round(task, two_answers, two: bool, group: int, length: int) -> None:
    """Read in the order of training, a query's negatives are one sequence of its whole pool, again and again."""
    data = two_answers if two else task
    rows = data.split("60pct", "train")
    groups = make(data, group, [lists(data, rows, length)])
    tapes: dict[int, list[int]] = defaultdict(list)
    epochs = 2 * length
    for epoch in range(epochs):
        for query, positive, *negatives in sorted(
            triples(groups.at(epoch, 10**6)),
            key=lambda row: (row[0], data.relevant[row[0]].tolist().index(row[1])),
        ):
            assert positive in data.relevant[query] and not set(negatives) & set(data.relevant[query].tolist())
            assert len(set(negatives)) == min(group - 1, len(groups.pools[0][query]))
            tapes[query] += negatives
    orders = set()
    for query, tape in tapes.items():
        size = len(groups.pools[0][query])
        assert size == min(length, 8 - two)
        assert len(tape) == epochs * (group - 1) * (1 + two) and len(tape) >= 2 * size
        first = tape[:size]
        assert sorted(first) == sorted(groups.pools[0][query].tolist())
        assert tape == (first * (len(tape) // size + 1))[: len(tape)]
        orders.add(tuple(groups.pools[0][query].tolist().index(negative) for negative in first))
    assert len(orders) > 3  # each query has an order of its own


def test_sources_are_united_each_cut_to_its_first(task: Dataset) -> None:
    rows = task.split("60pct", "train")[:2]  # q0-0 and q0-1, answered by d0
    ids = [task.query_ids[row] for row in rows]
    bm25 = of({ids[0]: ["d1", "d2", "d3", "d4"], ids[1]: ["d1"]})
    mined = of({ids[1]: ["x"], ids[0]: ["d3", "d1", "d5", "d6"], "q7-4": ["d1"]}, "mined")
    names = lambda groups, query: [task.document_ids[row] for row in groups.pools[0][query]]
    groups = make(task, 2, [bm25, mined], rows=rows, pool=3)
    assert names(groups, rows[0]) == ["d1", "d2", "d3", "d5"] and names(groups, rows[1]) == ["d1", "x"]
    groups = make(task, 2, [mined], rows=rows, pool=1)
    assert names(groups, rows[0]) == ["d3"] and names(groups, rows[1]) == ["x"]
    # The union is enough where one list is empty.
    empty = of({ids[0]: ["d7"], ids[1]: []})
    assert names(make(task, 2, [empty, mined], rows=rows, pool=9), rows[1]) == ["x"]


def test_a_relevant_document_is_never_a_negative(two_answers: Dataset) -> None:
    """Though a list has it, and before the cut: the list was made with other judgements."""
    rows = two_answers.split("60pct", "train")
    everything = of({two_answers.query_ids[row]: list(two_answers.document_ids) for row in rows})
    groups = make(two_answers, 3, [everything], pool=4)
    for row in rows:
        kept = [document for document in range(9) if document not in two_answers.relevant[row]]
        assert groups.pools[0][row].tolist() == kept[:4]


def test_lists_are_drawn_as_tevatron_draws_them(task: Dataset) -> None:
    """build_train_hn.py:23-25: ``pool`` of the first ``pool_from``, without replacement; build_train.py:33: of the whole list.
    Relevant documents are taken out first. The draw is of the seed, and every document is drawn equally often."""
    rows = task.split("60pct", "train")
    own = ["d1", "d2", "d3", "d4", "d5", "d6", "d7", "x"]
    everything = of({task.query_ids[row]: ["d0", *own] for row in rows})  # d0 is relevant to the first five queries
    row = rows[0]
    assert task.document_ids[task.positive[row]] == "d0"
    names = lambda groups: [task.document_ids[document] for document in groups.pools[0][row]]
    for depth, within in ((4, own[:4]), ("all", own)):
        drawn = [names(make(task, 2, [everything], seed, rows, pool=2, pool_from=depth)) for seed in range(400)]
        assert all(len(pair) == 2 and pair == sorted(pair, key=own.index) for pair in drawn)  # best first
        counts = Counter(name for pair in drawn for name in pair)
        assert set(counts) == set(within)
        expected = 800 / len(within)
        assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())
        assert drawn[3] == names(make(task, 2, [everything], 3, rows, pool=2, pool_from=depth))
    assert names(make(task, 2, [everything], 1, rows, pool=2)) == own[:2]
    # One depth for each list: all of the second one's documents are among its first three.
    other = of({task.query_ids[row]: own[::-1] for row in rows}, "mined")
    groups = make(task, 2, [everything, other], 1, rows, pool=3, pool_from=["first", 3])
    assert names(groups) == [*own[:3], *own[:-4:-1]]


def test_each_list_makes_examples_of_its_own(task: Dataset) -> None:
    """tevatron trains on a file for each list: each query is an example of each, none has negatives of both lists, and a list
    without a document for a query makes no example."""
    rows = task.split("60pct", "train")
    rows = rows[task.positive[rows] > 1]  # not answered by d0 or d1
    ids = [task.query_ids[row] for row in rows]
    bm25, mined = of({name: ["d0", "d1"] for name in ids}), of({name: ["x"] for name in ids[1:]}, "mined")
    groups = make(task, 2, [bm25, mined], rows=rows, sources="separate")
    assert len(groups) == 2 * len(rows) - 1
    seen = defaultdict(list)
    for query, _, negative in triples(groups.at(0, len(groups))):
        seen[query].append(task.document_ids[negative])
    assert len(seen[rows[0]]) == 1 and seen[rows[0]][0] in ("d0", "d1")
    assert all(sorted(name == "x" for name in seen[row]) == [False, True] for row in rows[1:])
    assert len(make(task, 2, [bm25, mined], rows=rows)) == len(rows)


def test_relevant_documents_take_turns(two_answers: Dataset) -> None:
    """tevatron dataset.py:125: one example for each query, whose relevant document moves on by one every epoch."""
    rows = two_answers.split("60pct", "train")
    groups = make(two_answers, 3, examples="query")
    assert len(groups) == len(rows) == 24
    taken = defaultdict(list)
    for epoch in range(4):
        for query, positive, *_ in triples(groups.at(epoch, 24)):
            taken[query].append(positive)
    for query, positives in taken.items():
        assert set(positives) == set(two_answers.relevant[query].tolist())
        assert positives[:2] == positives[2:] and positives[0] != positives[1]
    assert len({two_answers.relevant[query].tolist().index(first[0]) for query, first in taken.items()}) == 2


def test_the_first_relevant_document_alone_is_trained_on(two_answers: Dataset) -> None:
    """DPR biencoder.py:171-177: the gold passage, which stands first in its files. The others are no negatives either."""
    rows = two_answers.split("60pct", "train")
    first = {row: int(two_answers.relevant[row][0]) for row in rows.tolist()}
    assert any(first[row] > two_answers.relevant[row][1] for row in first), "qrels.parquet is in no order of rows"
    everything = of({two_answers.query_ids[row]: list(two_answers.document_ids) for row in rows})
    groups = make(two_answers, 3, [everything], examples="first")
    assert len(groups) == len(rows) == 24
    tapes = defaultdict(list)
    for epoch in range(7):
        for query, positive, *negatives in triples(groups.at(epoch, 24)):
            assert positive == first[query] and not set(negatives) & set(two_answers.relevant[query].tolist())
            tapes[query] += negatives
    assert all(sorted(tape) == sorted(groups.pools[0][query].tolist() * 2) for query, tape in tapes.items())
    again = make(two_answers, 3, [everything], examples="first")
    assert triples(again.at(5, 7)) == triples(groups.at(5, 7)), "a function of the step"
    # An example for each list, as where relevant documents take turns.
    other = of({two_answers.query_ids[row]: ["x"] for row in rows}, "mined")
    assert len(make(two_answers, 3, [everything, other], examples="first", sources="separate")) == 48


def test_the_same_group_twice_in_a_step_is_once(task: Dataset) -> None:
    """A step of 16 of 24 examples: the second one spans two epochs."""
    for group in (1, 3):
        groups = make(task, group)
        sizes = []
        for step in range(9):
            rows = triples(groups.at(step, 16))
            assert len(set(rows)) == len(rows) and rows == sorted(rows)
            sizes.append((len(rows), len({row[:2] for row in rows})))
        assert [size for size, _ in sizes[::3]] == [16] * 3
        if group == 1:
            assert min(size for size, _ in sizes) < 16
        else:  # with other negatives it is another group, so that no negative is passed over
            assert {size for size, _ in sizes} == {16} and min(own for _, own in sizes) < 16


def test_no_negatives_are_needed_for_groups_of_one(task: Dataset) -> None:
    assert make(task, 1, []).at(0, 4).documents.shape == (4, 1)


def test_a_query_without_negatives_gets_random_ones(task: Dataset) -> None:
    """Of the whole corpus, the same for a seed, never a relevant one; seen to end the run before ("have no negatives")."""
    rows = task.split("60pct", "train")
    good = {task.query_ids[row]: ["x"] for row in rows}
    row = task.query_row("q3-1")
    for bad in (
        {name: own for name, own in good.items() if name != "q3-1"},
        good | {"q3-1": []},
        good | {"q3-1": ["d3"]},
    ):
        groups = make(task, 2, [of(bad)], pool=5)
        assert groups.counts == {"random_negatives": 1} and len(groups) == 24
        drawn = groups.pools[0][row].tolist()
        assert len(set(drawn)) == 5 and not set(drawn) & set(task.relevant[row].tolist())
        assert drawn == make(task, 2, [of(bad)], pool=5).pools[0][row].tolist()
        assert drawn != make(task, 2, [of(bad)], seed=8, pool=5).pools[0][row].tolist()
    groups = make(task, 2, [], pool=100)
    assert groups.counts == {"random_negatives": 24} and len(groups.pools[0][row]) == 8, "all but the relevant one"
    assert make(task, 2).counts == {}


def test_a_query_that_all_documents_answer_is_left_out(changed_task) -> None:
    """And where that is true of every query, they are trained against each other; without a batch nothing can be learnt."""
    names = ["x", *(f"d{k}" for k in range(8))]
    task = Dataset(changed_task("qrels", query_id=["q0-0"] * 9, doc_id=names, relevance=[1] * 9))
    alone = np.array([task.query_row("q0-0")])
    groups = make(task, 4, [], rows=alone)
    assert groups.counts == {"left_out_without_negatives": 1} and groups.at(0, 4).documents.shape == (4, 1)
    with pytest.raises(DataError, match="every document is relevant to every training query"):
        make(task, 4, [], rows=alone, in_batch=False)


def test_a_file_with_none_of_the_queries_is_refused(task: Dataset) -> None:
    rows = task.split("60pct", "train")
    other = next(name for name in task.query_ids if task.query_row(name) not in rows)
    with pytest.raises(DataError, match=r"negatives/bm25.jsonl.gz: has none of the 24 training queries"):
        make(task, 2, [of({other: ["x"]}, path="negatives/bm25.jsonl.gz")])


def test_a_file_of_another_task_is_refused(task: Dataset) -> None:
    rows = task.split("60pct", "train")
    good = {task.query_ids[row]: ["x"] for row in rows}
    with pytest.raises(DataError, match=r"n.jsonl.gz: query 'nobody' is not in the task .*made for another task"):
        make(task, 2, [of(good | {"nobody": ["x"]}, path="n.jsonl.gz")])
    with pytest.raises(DataError, match=r"negatives of bm25: document 'd99' of query 'q2-0' is not in the task"):
        make(task, 2, [of(good | {"q2-0": ["x", "d99"]})])


def test_a_query_without_answer_is_named(changed_task) -> None:
    relevance = [0, 1] * 40
    relevance[2 * 6 + 1] = 0  # q1-1 trains
    relevance[2 * 9 + 1] = 0  # q1-4 tests: that is no error here
    with pytest.raises(DataError, match=r"qrels.parquet: 1 training questions have no answer, e.g. 'q1-1'"):
        make(Dataset(changed_task("qrels", relevance=relevance)), 1)


def test_without_a_training_query_or_example_nothing_is_divided(task: Dataset) -> None:
    with pytest.raises(DataError, match=r"splits.parquet: no training query; expected one or more"):
        make(task, 1, [], rows=np.empty(0, np.int64))
    with pytest.raises(DataError, match="no example to train on; expected one or more"):
        steps_for(0, {"batch": 16, "steps": 60, "epochs": 10})
    assert steps_for(0, {"batch": 16, "steps": 0, "epochs": 10}) == 0, "a recipe without training needs none"


def test_ids_that_stand_twice_and_a_missing_positive_are_named(changed_task, task: Dataset) -> None:
    with pytest.raises(DataError, match=r"corpus.parquet: document 'd0' appears twice"):
        Dataset(changed_task("corpus", doc_id=["x", "d0", "d0", *(f"d{k}" for k in range(2, 8))]))
    documents = [f"d{(k + 1 - r) % 8}" for k in range(8) for _ in range(5) for r in (0, 1)]
    with pytest.raises(DataError, match=r"qrels.parquet: document 'd99' is not in the task"):
        Dataset(changed_task("qrels", doc_id=[*documents[:-1], "d99"]))


def test_a_judgement_or_a_query_that_stands_twice_is_named(changed_task, task: Dataset) -> None:
    same = [f"d{k}" for k in range(8) for _ in range(5) for _ in (0, 1)]
    with pytest.raises(DataError, match=r"document 'd0' is judged twice for query 'q0-0'"):
        Dataset(changed_task("qrels", doc_id=same, relevance=[1] * 80))
    changed = changed_task("qrels", doc_id=same, relevance=[0, 1] * 40)
    assert Counter(map(len, Dataset(changed).relevant)) == {1: 40}
    with pytest.raises(DataError, match=r"queries.parquet: query 'q0-0' appears twice"):
        Dataset(changed_task("queries", query_id=["q0-0", "q0-0", *task.query_ids[2:]]))


def test_relevance_of_pairs(two_answers: Dataset) -> None:
    queries, documents = np.array([0, 39, 0]), np.array([0, 1, 2, 1, 8])
    assert two_answers.relevance(queries, documents).tolist() == [
        [False, True, True, True, False],
        [False, True, False, True, True],
        [False, True, True, True, False],
    ]


@pytest.mark.parametrize(
    ("examples", "batch", "steps", "epochs", "expected"),
    [(24, 16, 60, 1000, 60), (24, 16, 60, 10, 15), (24, 128, 60, 10, 10), (3, 128, 60, 0.1, 1), (1000, 100, 60, 5, 50)],
)
def test_steps_for(examples: int, batch: int, steps: int, epochs: float, expected: int) -> None:
    assert steps_for(examples, {"batch": batch, "steps": steps, "epochs": epochs}) == expected
