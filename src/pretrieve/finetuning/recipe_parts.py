"""What a recipe is made of: a model, the data that it is trained on, and the run. Each field is an option of ``config.yaml``.

The values are those that most recipes share. No torch: the workflow reads this file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, NamedTuple

from pretrieve.base.options import FLAG, WEIGHT, Between, ByPreset, Given, OneOf, Option, Part, Sourced

#: No limit of steps or epochs, for a source that states the other one.
NO_LIMIT, NO_END = 1 << 30, 1e6


class Depths(NamedTuple):
    """Allowed: ``first``, ``all`` or a number of documents; or a list with one of these for each list of negatives."""

    def admits(self, value: object) -> bool:
        if isinstance(value, (list, tuple)):
            return bool(value) and all(not isinstance(one, list) and self.admits(one) for one in value)
        return value in ("first", "all") or Between(1, 100_000, True).admits(value)

    def __str__(self) -> str:
        return "first, all, a whole number from 1 to 100000, or a list of these, one for each of negatives"


class Candidates(NamedTuple):
    """Allowed: a list of numbers above 0, or an empty one."""

    def admits(self, value: object) -> bool:
        return isinstance(value, (list, tuple)) and all(Between(1e-3, 1e6).admits(one) for one in value)

    def __str__(self) -> str:
        return "a list of numbers from 0.001 to 1e+06, or []"


class Names(NamedTuple):
    """Allowed: a list (or a single word) that matches ``pattern``; '' and [] for none."""

    pattern: str
    many: bool = False

    def admits(self, value: object) -> bool:
        values = value if self.many else [value]
        return isinstance(values, (list, tuple)) and all(
            isinstance(word, str) and re.fullmatch(self.pattern, word) is not None for word in values
        )

    def __str__(self) -> str:
        return f"{'a list of names' if self.many else 'a name'} like {self.pattern}"


_NAME = r"[a-z0-9][a-z0-9-]*"
_OPEN = "dupmae §3.2 leaves it open"
#: Other relevant documents of a batch: no paper says, and here they are masked; all releases keep them as negatives.
_IF_RELEASED = ByPreset("masked", "kept")


@dataclass(frozen=True, kw_only=True)
class Model(Part):
    """Two towers: how much of them is one (``sharing``), and how they make a score of two texts."""

    sharing: Annotated[Given[str], OneOf(("sde", "ade", "ade-ste", "ade-fte", "ade-spl"))] = "sde"
    representation: Annotated[Given[str], OneOf(("dense", "joint"))] = "dense"
    pooling: Annotated[Given[str], OneOf(("cls", "mean"))] = "cls"
    head: Annotated[Given[str], OneOf(("linear", "orqa", "none", "linear-norm", "linear-no-bias"))] = "none"
    dim: Annotated[Given[str | int], Between(1, 4096, True, ("full", "half", "quarter", "hidden"))] = "hidden"
    similarity: Annotated[Given[str], OneOf(("cosine", "dot"))] = "dot"
    temperature: Annotated[Given[float], Between(1e-3, 100)] = 1.0


@dataclass(frozen=True, kw_only=True)
class JointModel(Model):
    """A vector of [CLS] and the largest word weights μ of all tokens (DupMAE)."""

    representation: Annotated[Given[str], OneOf(("dense", "joint"))] = "joint"
    parts: Annotated[Given[str], OneOf(("cls", "ot", "both")), "dupmae §4 and table 3"] = "both"
    cls_dim: Annotated[Given[int], Between(1, 4096, True), "dupmae §4 and table 3"] = 384
    top: Annotated[Given[int], Between(1, 1 << 20, True), "dupmae §4 and table 3"] = 384
    lexical_head: Annotated[
        Given[str], OneOf(("", "mlm", "bow")), f"{_OPEN}: what makes μ; '': bow where the encoder has it"
    ] = ""
    activation: Annotated[Given[str], OneOf(("none", "relu", "log1p")), f"{_OPEN}; SPLADE's is log1p"] = "none"
    sep: Annotated[Given[bool], FLAG, f"{_OPEN}: is [SEP] an ordinary token; RetroMAE modeling_duplex.py:53"] = True
    zeroed: Annotated[Given[str], OneOf(("none", "special")), f"{_OPEN}: words of μ that are left out"] = "none"


@dataclass(frozen=True, kw_only=True)
class Ranking(Part):
    """A query's relevant document above others: its own group of documents, and those of the batch.

    With ``refresh`` the model finds negatives again while it trains (ANCE), and ``sample`` of a query's first ``pool`` are drawn.
    """

    loss: Annotated[Given[str], OneOf(("softmax", "pairwise", "hinge"))] = "softmax"
    direction: Annotated[Given[str], OneOf(("one", "both"))] = "one"
    in_batch: Annotated[Given[bool], FLAG] = True
    margin: Annotated[Given[float], WEIGHT, "seed_encoder §4.2: relu(1 − (s⁺ − s⁻))"] = 1.0
    group: Annotated[Given[int], Between(1, 4096, True)] = 1
    negatives: Annotated[Given[tuple[str, ...]], Names(f"bm25|mined:{_NAME}|published", True)] = ()
    pool: Annotated[Given[int], Between(1, 100_000, True)] = 1
    pool_from: Annotated[Given[str | int | tuple[str | int, ...]], Depths()] = "first"
    sources: Annotated[Given[str], OneOf(("union", "separate"))] = "union"
    examples: Annotated[Given[str], OneOf(("judgement", "query", "first"))] = "judgement"
    false_negatives: Annotated[
        Given[str], OneOf(("masked", "kept")), "{}: other relevant documents of the batch; no paper says"
    ] = _IF_RELEASED
    refresh: Annotated[Given[int], Between(0, 1 << 30, True)] = 0
    sample: Annotated[Given[int], Between(1, 100_000, True), "SEED-Encoder README: --negative_sample 20"] = 20
    windows: Annotated[
        Given[int], Between(1, 64, True), "seed_encoder §4.3: FirstP 1, MaxP 4 vectors of a document"
    ] = 1
    curve: Annotated[
        Given[int], Between(0, 1000, True), "steps at which the test queries are searched with: seed_encoder figure 6"
    ] = 0


_FORMS = ByPreset("soft-labels", "kl")
_TEACHING = "dupmae §3.2, third step; RetroMAE bi_encoder/modeling.py, arguments.py"


@dataclass(frozen=True, kw_only=True)
class Distillation(Ranking):
    """The scores that a cross-encoder gives to a query's own documents."""

    loss: Annotated[Given[str], OneOf(("distillation",)), _TEACHING] = "distillation"
    teacher: Annotated[Given[str], Names(_NAME), _TEACHING]
    distillation: Annotated[Given[str], OneOf(("soft-labels", "kl")), _TEACHING] = _FORMS
    contrastive_weight: Annotated[Given[float], WEIGHT, f"{_TEACHING}: of form kl"] = 1e-4


@dataclass(frozen=True, kw_only=True)
class Triplets(Part):
    """A text nearer to one than to another."""

    margin: Annotated[Given[float], WEIGHT] = 1.0


@dataclass(frozen=True, kw_only=True)
class Classes(Part):
    """One of some classes for each text or pair of texts."""

    classes: Annotated[Given[int], Between(2, 100, True)] = 2


@dataclass(frozen=True, kw_only=True)
class Clicks(Part):
    """A clicked candidate above others of its impression: ``group`` in all."""

    group: Annotated[Given[int], Between(2, 4096, True)] = 2


@dataclass(frozen=True, kw_only=True)
class Run(Part):
    """How long, and with which optimiser.

    ``steps`` and ``epochs`` are both limits; a source that states one of them leaves the other out of reach. With ``steps: 0``
    nothing is trained: the retriever is the encoder as it is.
    ``schedule_steps``: where the schedule of the learning rate would end if training continued; 0: with the training.
    ``few_epochs``: what ``epochs`` is chosen from by validation loss, for all training-set sizes but ``full``; []: no search.
    """

    batch: Annotated[Given[int], Between(1, 1 << 20, True)]
    steps: Annotated[Given[int], Between(0, 1 << 30, True)] = NO_LIMIT
    epochs: Annotated[Given[float], Between(1e-3, 1e6)] = NO_END
    few_epochs: Annotated[Given[tuple[float, ...]], Candidates(), "{}: with few training examples"] = ()
    learning_rate: Annotated[Given[float], Between(1e-12, 10)]
    warmup: Annotated[Given[float], Between(0, 1)] = 0.1
    optimiser: Annotated[Given[str], OneOf(("adamw", "adafactor", "lamb"))] = "adamw"
    schedule: Annotated[Given[str], OneOf(("linear", "constant", "t5x"))] = "linear"
    schedule_steps: Annotated[Given[int], Between(0, 1 << 30, True)] = 0
    weight_decay: Annotated[Given[float], Between(0, 1)] = 0.01
    clip: Annotated[
        Given[float], Between(0, 1e6), "of the gradient's norm; BERT's code, where nothing is stated: 1; T5X: none (0)"
    ] = 1.0
    query_length: Annotated[Given[int], Between(3, 4096, True)]
    passage_length: Annotated[Given[int], Between(3, 4096, True)]
    snapshots: Annotated[Given[int], Between(0, 1000, True), "of validation; 0: the last weights are taken. Ours"] = 0
    start: Annotated[Given[str], Names(_NAME)] = "encoder"


@dataclass(frozen=True)
class Recipe:
    """Model and data are None where a kind has no options of them. ``kind``: what is trained, and so which tasks it goes with:
    ``ranking`` and ``cross-encoder`` need a retrieval task, ``regression``, ``triplet``, ``classification`` and ``clicks`` one of
    examples."""

    run: Run
    model: Model | None = None
    data: Part | None = None
    kind: str = "ranking"

    def options(self) -> dict[str, Option]:
        """Every option of the recipe."""
        parts = [part for part in (self.model, self.data, self.run) if part is not None]
        return {name: option for part in parts for name, option in part.options().items()}

    def but(self, source: str | None = None, **values: Any) -> Recipe:
        """The same recipe with other values, all from ``source`` where it is given."""
        changed = {}
        for name in ("model", "data", "run"):
            part = getattr(self, name)
            own = {key: values.pop(key) for key in set(values) & {one.name for one in fields(part)}}
            changed[name] = replace(part, **{k: Sourced(v, source) if source else v for k, v in own.items()})
        if values:
            raise TypeError(f"no part has {', '.join(values)}")
        return replace(self, **changed)
