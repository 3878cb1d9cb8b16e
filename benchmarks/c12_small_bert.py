"""C12: seconds of a training step and texts a second of a 6 x 384 body, on one core; and what they were in another checkout.

The body of all-MiniLM-L6-v2: 6 layers of 384, 12 heads, 1,536 feed-forward, BERT's vocabulary of 30,522, no dropout; random
weights and tokens. In bf16 where the CPU multiplies it. Texts have the lengths of web passages, at most 128 tokens (57 % full
when padded), queries at most 32.

Steps of pre-training are what ``pretrieve.training.loop.train`` does, drawing of batches and masks included (C1 checks that), in
batches of 32 and 64; coCondenser has two spans of 64 tokens at most for each of them, ``pairs`` is ICT. Steps of fine-tuning have
the batches of the scale ``small``: 16 queries with 4 documents each (dpr-bm25), 32 with 2 (ance: pairwise; without the search
for new negatives), 32 with 1 (dupmae-1stage, joint vectors), 64 with 1 (reqa). Embedding: passages cut to 128 tokens, [CLS].

``--before DIR`` is the root of a checkout of this repository at another commit (``git worktree add DIR COMMIT``): its code runs
the same steps in a process of its own, in turn with ours; batches of 64 are ours alone. First, equality: the losses of two steps
agree to one part in a hundred.

    PYTHONPATH=src python benchmarks/c12_small_bert.py --before DIR
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import functools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BODY = {
    "vocabulary_size": 30_522,
    "hidden": 384,
    "layers": 6,
    "heads": 12,
    "feed_forward": 1536,
    "max_positions": 128,
    "dropout": 0.0,
}
BATCHES = (32, 64)
#: Name → objective, changes to its preset.
OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "mlm": ("mlm", {}),
    "condenser": ("condenser", {"skip_layer": 3}),
    "cocondenser": ("cocondenser", {"skip_layer": 3, "span_length": 64}),
    "retromae": ("retromae", {}),
    "dupmae": ("dupmae", {}),
    "seed-encoder, 1 layer": ("seed-encoder", {"decoder_layers": 1}),
    "seed-encoder, 3 layers": ("seed-encoder", {"decoder_layers": 3}),
    "seed-encoder, 5 layers": ("seed-encoder", {"decoder_layers": 5}),
    "optimus, 6 layers": ("optimus", {"decoder_layers": 6}),
    "ict": ("pairs", {"tasks": ["ict"]}),
}
#: Recipe → what differs from its preset.
RECIPES: dict[str, dict[str, Any]] = {
    "dpr-bm25": {"batch": 16, "group": 4},
    "ance": {"batch": 32, "passage_length": 128, "query_length": 32},
    "dupmae-1stage": {"batch": 32, "cls_dim": 128, "top": 128, "passage_length": 128},
    "reqa": {"batch": 64, "dim": 256, "similarity": "cosine", "passage_length": 128, "query_length": 32},
}
#: Texts that are embedded in a round.
TEXTS = 512
CHECKED = 2


def setup(root: str, directory: str, rounds: int, wanted: list[str]) -> dict[str, Callable[[int], Any]]:
    """What a checkout does in a round, by name; run in a process of its own, as there is one ``pretrieve`` in a process."""
    sys.path.insert(0, f"{root}/src")
    import numpy as np
    import steps

    import pretrieve
    from pretrieve.finetuning.groups import Group
    from pretrieve.finetuning.ranking import RankingObjective
    from pretrieve.finetuning.recipes import resolve_recipe
    from pretrieve.models.config import BodyConfig
    from pretrieve.models.dual_encoder import dual_encoder
    from pretrieve.models.encoder import Encoder
    from pretrieve.models.joint import JointEncoder, JointShape
    from pretrieve.retrieval.embed import encode
    from pretrieve.text.packing import pack_passages
    from pretrieve.text.token_store import TokenStore
    from pretrieve.training.device import choose_device
    from pretrieve.training.optimiser import OptimiserConfig

    if not Path(pretrieve.__file__).is_relative_to(root):
        raise SystemExit(f"{root}/src: has no pretrieve; --before expects the root of a checkout of this repository.")
    device, body = choose_device("auto", 1), BodyConfig(**BODY)
    made_in, rng, count = Path(directory), np.random.default_rng(steps.SEED), 2 * max(BATCHES) * (rounds + CHECKED)

    def store(name: str, longest: int, sentences: int, articles: int) -> TokenStore:
        """Passages of at most ``longest`` tokens with [CLS] and [SEP], cut into sentences of equal length."""
        lengths = np.maximum(steps.web_lengths(count, rng) * longest // steps.LENGTH - 2, sentences)
        ends = np.arange(sentences + 1) * lengths[:, None] // sentences
        (made_in / name).mkdir()
        parts = np.diff(ends, axis=1).ravel()
        return steps.random_store(made_in / name, body.vocabulary_size, parts, rng, sentences, articles)

    passages, queries = store("passages", steps.LENGTH, 4, count // 4), store("queries", 32, 1, 1)
    task = SimpleNamespace(
        pack_queries=lambda rows, length: pack_passages(queries, rows, length),
        pack_candidates=lambda rows, length: pack_passages(passages, rows, length),
        relevance=lambda rows, documents: rows[:, None] == documents[None, :],
    )

    def step_of(objective: Any) -> Callable[[int], Any]:
        return steps.Stepper(objective, OptimiserConfig(1000, 1e-5), device.bf16).step

    def pretraining(name: str, batch: int) -> Callable[[int], Any]:
        kind, changes = OBJECTIVES[name]
        return step_of(steps.make(kind, body, passages, changes, batch))

    def fine_tuning(name: str) -> Callable[[int], Any]:
        options = resolve_recipe(name, {"options": RECIPES[name]}, {})
        if options.get("representation") == "joint":
            shape = JointShape(parts="both", cls_dim=options["cls_dim"], top=options["top"], lexical_head="mlm")
            encoder = JointEncoder(body, shape, steps.SEED, "linear")
        else:
            encoder = Encoder(body, options["dim"] if name == "reqa" else body.hidden, "cls", steps.SEED)
        group = options["group"]

        def at(step: int, size: int) -> Group:
            rows = (step * size + np.arange(size)) % passages.n_passages
            return Group(rows, (rows[:, None] + np.arange(group)[None, :] * size) % passages.n_passages)

        return step_of(RankingObjective(dual_encoder(encoder, "sde", 1), task, SimpleNamespace(at=at), options))

    def embedding() -> Callable[[int], Any]:
        encoder = Encoder(body, body.hidden, "cls", steps.SEED).eval()
        rows, pack_texts = np.arange(TEXTS), functools.partial(task.pack_candidates, length=steps.LENGTH)
        return lambda _: float(encode(encoder, pack_texts, rows, device).sum())

    every = {f"{name}, {batch}": (pretraining, name, batch) for batch in BATCHES for name in OBJECTIVES}
    every |= {name: (fine_tuning, name) for name in RECIPES} | {"embed": (embedding,)}
    made: dict[str, Callable[[int], Any]] = {}

    def call(name: str, number: int) -> Any:
        if name not in made:
            made.clear()  # one model and optimiser at a time
            make, *given = every[name]
            made[name] = make(*given)
        return made[name](number)

    return {name: functools.partial(call, name) for name in every if name.startswith(tuple(wanted))}


def check(workers: dict[str, common.Worker], name: str) -> list[float]:
    """Mean loss of some steps of each checkout; they are the first ones of its model."""
    found = {}
    for checkout, worker in workers.items():
        call = worker.variant(name, returns=True)
        found[checkout] = [call(number).result for number in range(CHECKED)]
    ours, *others = found.values()
    for theirs in others:
        if any(abs(one - other) > 0.01 * abs(one) for one, other in zip(ours, theirs, strict=True)):
            raise SystemExit(f"{name}: the losses differ: {found}")
    return ours


def main() -> None:
    parser = common.parser(__doc__, rounds=7)
    parser.add_argument("--before", type=Path, help="root of another checkout")
    parser.add_argument(
        "--only", nargs="*", default=[""], help="beginnings of names; other results that are there stay"
    )
    args = parser.parse_args()
    roots = {"ours": common.ROOT} | ({"before": args.before.resolve()} if args.before else {})
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        workers = {}
        for name, root in roots.items():
            (Path(directory) / name).mkdir()
            workers[name] = common.Worker(setup, str(root), f"{directory}/{name}", args.rounds, args.only)
        for name in workers["ours"].names:
            wanted = {"ours": workers["ours"]} if name.endswith(f", {BATCHES[-1]}") else workers
            losses = check(wanted, name)
            turns = {checkout: worker.variant(name) for checkout, worker in wanted.items()}
            times = common.interleave(
                {c: lambda number, turn=turn: turn(number + CHECKED) for c, turn in turns.items()}, args.rounds, False
            )
            results[name] = {"losses": losses, "seconds": common.medians(times)}
            if "before" in times:
                results[name]["ratio"] = common.ratios(times, "ours")["before"]
            if name == "embed":
                results[name]["texts_per_s"] = round(TEXTS / results[name]["seconds"]["ours"], 1)
            print(name, results[name], file=sys.stderr)
    common.table(
        "C12: 6 layers of 384, 30,522 words, one core",
        ["step", "CPU seconds", "before", "ratio", "least", "greatest"],
        [
            [name, found["seconds"]["ours"], found["seconds"].get("before", "")]
            + [found.get("ratio", {}).get(key, "") for key in ("median", "min", "max")]
            for name, found in results.items()
        ],
    )
    path = args.out / "c12_small_bert.json"
    kept = json.loads(path.read_text())["results"] if args.only != [""] and path.is_file() else {}
    common.write("c12_small_bert", args, ("torch",), body=BODY, results=kept | results)


if __name__ == "__main__":
    main()
