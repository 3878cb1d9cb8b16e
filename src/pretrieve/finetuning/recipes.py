"""Every fine-tuning recipe of the five papers, with each hyper-parameter's origin.

A recipe turns an encoder into a retriever (or another scorer). How options are written and checked:
:mod:`pretrieve.base.options`. ``None`` in one of the presets means that its source says nothing, and the other's value is
taken. No torch here: the workflow reads this file.

``start``: ``encoder``, or a recipe whose retriever this one goes on from. ``negatives``: a list of ``bm25``, ``mined:RECIPE``
(lists that the retriever of another recipe found) and ``published`` (those that the data set ships). ``teacher``: a recipe that
trains a cross-encoder. A recipe's retriever is made once for each encoder, training-set size and seed, whoever asks for it.

Commits that the sources refer to: microsoft/SEED-Encoder@ececaa9, luyug/Condenser@74880ab, texttron/tevatron@dd06310,
staoxiao/RetroMAE@ee37587, google-research/t5x_retrieval@e2fbef3, facebookresearch/DPR@a31212d.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.options import FLAG, PRESETS, WEIGHT, Between, OneOf, Option, resolve_options

#: What a recipe trains, and so which tasks it goes with: rankings need a retrieval task, the last four a task of examples.
KINDS = ("ranking", "cross-encoder", "regression", "triplet", "classification", "clicks")
RETRIEVAL_KINDS = ("ranking", "cross-encoder")


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


class ByPreset(NamedTuple):
    """A value of a variant that paper and released code do not share."""

    paper: Any
    official_code: Any


#: Other relevant documents of a batch: no paper says, and here they are masked; all releases keep them as negatives.
_IF_RELEASED = ByPreset("masked", "kept")


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


_OPEN = "dupmae §3.2 leaves it open"
_NAME = r"[a-z0-9][a-z0-9-]*"


def _both(value: Any, allowed: Any, source: str) -> Option:
    """One value for both presets, or a :class:`ByPreset`."""
    return Option(*(value if isinstance(value, ByPreset) else (value, value)), allowed, source)


def _model(
    head: tuple,
    dim: object,
    similarity: str,
    temperature: float,
    source: str,
    pooling: str = "cls",
    sharing: str = "sde",
) -> dict[str, Option]:
    return {
        "sharing": _both(sharing, OneOf(("sde", "ade", "ade-ste", "ade-fte", "ade-spl")), source),
        "representation": _both("dense", OneOf(("dense", "joint")), source),
        "pooling": _both(pooling, OneOf(("cls", "mean")), source),
        "head": Option(*head, OneOf(("linear", "orqa", "none", "linear-norm", "linear-no-bias")), source),
        "dim": _both(dim, Between(1, 4096, True, ("full", "half", "quarter", "hidden")), source),
        "similarity": _both(similarity, OneOf(("cosine", "dot")), source),
        "temperature": _both(temperature, Between(1e-3, 100), source),
    }


def _run(
    batch: int,
    steps: int | ByPreset,
    epochs: float | ByPreset,
    rate: float,
    lengths: tuple[int, int],
    source: str,
    *,
    warmup: float | ByPreset = 0.1,
    optimiser: str = "adamw",
    schedule: str = "linear",
    schedule_steps: int | ByPreset = 0,
    decay: float | ByPreset = 0.01,
    clip: float = 1.0,
    snapshots: int = 0,
    few_epochs: Any = [],  # noqa: B006 - an option's value, never changed
) -> dict[str, Option]:
    """``steps`` and ``epochs`` are both limits; a source that states one of them leaves the other out of reach.
    ``schedule_steps``: where the schedule of the learning rate would end if training went on; 0: with the training.
    ``few_epochs``: what ``epochs`` is chosen from by validation loss, for all training-set sizes but ``full``; []: no search."""
    return {
        "batch": _both(batch, Between(1, 1 << 20, True), source),
        "steps": _both(steps, Between(1, 1 << 30, True), source),
        "epochs": _both(epochs, Between(1e-3, 1e6), source),
        "few_epochs": _both(few_epochs, Candidates(), f"{source}: with few training examples"),
        "learning_rate": _both(rate, Between(1e-12, 10), source),
        "warmup": _both(warmup, Between(0, 1), source),
        "optimiser": _both(optimiser, OneOf(("adamw", "adafactor", "lamb")), source),
        "schedule": _both(schedule, OneOf(("linear", "constant", "t5x")), source),
        "schedule_steps": _both(schedule_steps, Between(0, 1 << 30, True), source),
        "weight_decay": _both(decay, Between(0, 1), source),
        "clip": _both(
            clip, Between(0, 1e6), "of the gradient's norm; BERT's code, where nothing is stated: 1; T5X: none (0)"
        ),
        "query_length": _both(lengths[0], Between(3, 4096, True), source),
        "passage_length": _both(lengths[1], Between(3, 4096, True), source),
        "snapshots": _both(snapshots, Between(0, 1000, True), "of validation; 0: the last weights are taken. Ours"),
        "start": _both("encoder", Names(_NAME), source),
    }


def _ranking(
    loss: tuple,
    group: int,
    negatives: list[str],
    pool: int,
    source: str,
    *,
    pool_from: Any = "first",
    in_batch: bool = True,
    direction: tuple = ("one", "one"),
    refresh: int = 0,
    false_negatives: Any = _IF_RELEASED,
) -> dict[str, Option]:
    return {
        "loss": Option(*loss, OneOf(("softmax", "pairwise", "hinge")), source),
        "direction": Option(*direction, OneOf(("one", "both")), source),
        "in_batch": _both(in_batch, FLAG, source),
        "margin": _both(1.0, WEIGHT, "seed_encoder §4.2: relu(1 − (s⁺ − s⁻))"),
        "group": _both(group, Between(1, 4096, True), source),
        "negatives": _both(negatives, Names(f"bm25|mined:{_NAME}|published", True), source),
        "pool": _both(pool, Between(1, 100_000, True), source),
        "pool_from": _both(pool_from, Depths(), source),
        "sources": _both("union", OneOf(("union", "separate")), source),
        "examples": _both("judgement", OneOf(("judgement", "query")), source),
        "false_negatives": _both(
            false_negatives if in_batch else "masked",
            OneOf(("masked", "kept")),
            f"{source}: other relevant documents of the batch; no paper says",
        ),
        "refresh": _both(refresh, Between(0, 1 << 30, True), source),
        "windows": _both(1, Between(1, 64, True), "seed_encoder §5.1: FirstP 1, MaxP 4 vectors of a document"),
        "curve": _both(
            0, Between(0, 1000, True), "steps at which the test queries are searched with: seed_encoder figure 6"
        ),
    }


def _joint(parts: str, cls_dim: int, top: int, source: str) -> dict[str, Option]:
    return {
        "parts": _both(parts, OneOf(("cls", "ot", "both")), source),
        "cls_dim": _both(cls_dim, Between(1, 4096, True), source),
        "top": _both(top, Between(1, 1 << 20, True), source),
        "lexical_head": _both(
            "", OneOf(("", "mlm", "bow")), f"{_OPEN}: what makes μ; '': bow where the encoder has it"
        ),
        "activation": _both("none", OneOf(("none", "relu", "log1p")), f"{_OPEN}; SPLADE's is log1p"),
        "sep": _both(True, FLAG, f"{_OPEN}: is [SEP] an ordinary token; RetroMAE modeling_duplex.py:53"),
        "zeroed": _both("none", OneOf(("none", "special")), f"{_OPEN}: words of μ that are left out"),
    }


def _distilled(teacher: str, source: str) -> dict[str, Option]:
    return {
        "loss": _both("distillation", OneOf(("distillation",)), source),
        "teacher": _both(teacher, Names(_NAME), source),
        "distillation": Option("soft-labels", "kl", OneOf(("soft-labels", "kl")), source),
        "contrastive_weight": _both(1e-4, WEIGHT, f"{source}: of form kl"),
    }


_NO_LIMIT = 1 << 30
_REQA = "pretraining_tasks §4.1"
_CONDENSER = "condenser §4.3, A.1; tevatron examples/coCondenser-marco"
_TEVATRON = f"{_CONDENSER}/build_train.py:30-33, build_train_hn.py:11-35, README.md:85-97"
_SEED = "seed_encoder §4.2; SEED-Encoder README:85-90, model/models.py:87-114, 266-306"
_ANCE = "seed_encoder §4.2; SEED-Encoder README, drivers/run_ann_data_gen.py:370-427"
_DUPMAE = "dupmae §3.2 (fine-tuning was never released); sizes of a step from RetroMAE examples/retriever/msmarco"
_T5 = "dual_encoders §3.1; t5x_retrieval models.py:213, losses.py:129, finetune.gin"
_STS = "condenser A.1; Reimers & Gurevych 2019 §4.2 (batch 16)"

_DPR = (
    _model(("none", "none"), "hidden", "dot", 1.0, _CONDENSER)
    | _ranking(("softmax", "softmax"), 8, ["bm25"], 30, _TEVATRON, pool_from=ByPreset("first", "all"))
    | _run(8, _NO_LIMIT, 3, 5e-6, (32, 128), _CONDENSER, few_epochs=ByPreset([5, 10, 40], []))
)
_PAIRWISE = (
    _model(("none", "linear-norm"), "hidden", "dot", 1.0, _SEED)
    | _ranking(("hinge", "pairwise"), 2, ["bm25"], 1000, _SEED, in_batch=False)
    | _run(
        256,
        90_000,
        2,
        2e-4,
        (64, 128),
        f"{_SEED}; run_warmup.py:57,84",
        warmup=ByPreset(0.0111, 0.003657),
        optimiser="lamb",
        schedule_steps=ByPreset(0, 273_437),
        decay=ByPreset(0.01, 0.0),
    )
)
_DUPMAE_STAGE = (
    _model(("none", "none"), "hidden", "dot", 1.0, _DUPMAE)
    | {"representation": _both("joint", OneOf(("dense", "joint")), _DUPMAE)}
    | _joint("both", 384, 384, "dupmae §4 and table 3")
    | _ranking(("softmax", "softmax"), 1, [], 200, _DUPMAE)
    | _run(128, _NO_LIMIT, 4, 2e-5, (32, 140), _DUPMAE)
)


def _with(options: Mapping[str, Option], source: str | None = None, **values: Any) -> dict[str, Option]:
    """The same options with other values: one for both presets, or a :class:`ByPreset`."""
    changed = {
        name: _both(value, options[name].allowed, source or options[name].source) for name, value in values.items()
    }
    return {**options, **changed}


RECIPES: dict[str, dict[str, Option]] = {
    "reqa": _model(("linear", "linear"), "full", "dot", 1.0, _REQA)
    | _ranking(("softmax", "softmax"), 1, [], 1, _REQA, false_negatives="masked")
    | _run(512, 2000, 1e6, 5e-5, (64, 288), _REQA, snapshots=4),
    "dpr-bm25": _DPR,
    # tevatron's create_hn.sh: the second round has the BM25 negatives too, and begins with the pre-trained encoder again
    "dpr-hard": _with(
        _DPR,
        negatives=["bm25", "mined:dpr-bm25"],
        pool=ByPreset(200, 30),
        pool_from=ByPreset("first", ["all", 200]),
        sources=ByPreset("union", "separate"),
        examples=ByPreset("judgement", "query"),
        epochs=ByPreset(3, 2),
    ),
    "seed-pairwise": _PAIRWISE,
    "ance": _with(
        _PAIRWISE,
        _ANCE,
        start="seed-pairwise",
        negatives=["mined:seed-pairwise"],
        pool=200,
        refresh=10_000,
        batch=64,
        steps=ByPreset(300_000, 440_000),
        schedule_steps=ByPreset(0, 1_000_000),
        epochs=1e6,
        learning_rate=1e-6,
        warmup=ByPreset(0.0167, 0.005),
        passage_length=512,
    ),
    "dupmae-1stage": _DUPMAE_STAGE,
    "dupmae-2stage": _with(_DUPMAE_STAGE, start="dupmae-1stage", negatives=["mined:dupmae-1stage"], group=16),
    "dupmae-teacher": _ranking(("softmax", "softmax"), 16, ["mined:dupmae-1stage"], 200, _DUPMAE, in_batch=False)
    | _run(16, _NO_LIMIT, 2, 2e-5, (32, 140), _DUPMAE),
    "dupmae-3stage": _with(_DUPMAE_STAGE, start="dupmae-2stage", negatives=["mined:dupmae-1stage"], group=16)
    | _distilled("dupmae-teacher", "dupmae §3.2, third step; RetroMAE bi_encoder/modeling.py, arguments.py"),
    "dual-t5": _model(("linear-no-bias", "linear-no-bias"), 768, "cosine", 0.01, _T5, pooling="mean")
    | _ranking(("softmax", "softmax"), 1, [], 1, _T5, direction=("one", "both"))
    | _run(
        512,
        20_000,
        1e6,
        1e-3,
        (64, 256),
        _T5,
        warmup=ByPreset(0.0, 0.05),
        optimiser="adafactor",
        schedule="t5x",
        decay=0.0,
        clip=0.0,
    ),
    "sts": _model(("none", "none"), "hidden", "cosine", 1.0, _STS, pooling="mean")
    | _run(16, _NO_LIMIT, 4, 2e-5, (128, 128), _STS, few_epochs=[4, 8]),
    "sections": _model(("none", "none"), "hidden", "dot", 1.0, "condenser A.1; Reimers & Gurevych 2019 §4.4", "mean")
    | {"margin": _both(1.0, WEIGHT, "Reimers & Gurevych 2019 §3: 1, Euclidean distance")}
    | _run(16, _NO_LIMIT, 1, 2e-5, (128, 128), "condenser A.1; Reimers & Gurevych 2019 §4.4", few_epochs=[1, 4, 8]),
    "glue": {"classes": _both(2, Between(2, 100, True), "MNLI has 3 classes, QQP, QNLI and SST-2 have 2")}
    | _run(32, _NO_LIMIT, 3, 2e-5, (128, 128), "seed_encoder A.2: the schedule of Devlin et al. 2019 A.3"),
    "news": _model(
        ("none", "none"), "hidden", "dot", 1.0, "seed_encoder §4.4; the code adds a linear layer, tanh, LayerNorm"
    )
    | {
        "group": _both(
            2, Between(2, 4096, True), "seed_encoder §4.4: DPR (MIND Neg); fairseq train_plain_bert_dot4_fp16.py"
        )
    }
    | _run(
        1024,
        50_000,
        1e6,
        1e-4,
        (512, 64),
        "the paper states none; fairseq train_plain_bert_dot4_fp16.py",
        optimiser="lamb",
    ),
}

KIND_OF: dict[str, str] = dict.fromkeys(RECIPES, "ranking") | {
    "dupmae-teacher": "cross-encoder",
    "sts": "regression",
    "sections": "triplet",
    "glue": "classification",
    "news": "clicks",
}

_OPEN_QA = {
    "sharing": "ade",
    "batch": 128,
    "group": 2,
    "learning_rate": ByPreset(1e-5, 5e-6),
    "pool": 100,
    "passage_length": 256,
    "few_epochs": [],  # "low data share the same setting"
}

#: What papers do otherwise on some data sets (``variant`` of a data set in config.yaml).
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    # condenser A.1, DPR: 128 questions, one BM25 negative each, 40 epochs, 1e-5; tevatron examples/coCondenser-nq/README.md:
    # 40 and 20 epochs, 5e-6; DPR: titles, 256 tokens. Two towers, as in DPR, tevatron (--untie_encoder) and SEED-Encoder's
    # dpr_fast
    "open-qa": {
        "dpr-bm25": {**_OPEN_QA, "epochs": 40},
        "dpr-hard": {**_OPEN_QA, "epochs": ByPreset(40, 20)},
        # dpr_fast: plain [CLS], on DPR's retriever
        "ance": {
            "sharing": "ade",
            "head": "none",
            "start": "dpr-bm25",
            "negatives": ["mined:dpr-bm25"],
            "pool": 200,
            "batch": 256,
            "learning_rate": 1e-5,
            "passage_length": 256,
        },
    },
    # The first 512 tokens of a document: seed_encoder §4.3 (ANCE FirstP); its README: 5e-6. condenser A.4 states neither
    "documents": {
        "dpr-bm25": {"passage_length": 512},
        "dpr-hard": {"passage_length": 512},
        "seed-pairwise": {"passage_length": 512},
        # SEED-Encoder README:51,142: the released checkpoint has 800,000 steps, of which 3,000 warm up
        "ance": {
            "learning_rate": 5e-6,
            "steps": ByPreset(300_000, 800_000),
            "warmup": ByPreset(0.0167, 0.003),
        },
    },
    # MNLI
    "three-classes": {"glue": {"classes": 3}},
}

#: The preset of a recipe that names none: what is nearest to how the published numbers were made.
DEFAULT_PRESET = {"seed-pairwise": "official_code", "ance": "official_code", "dual-t5": "paper"}


def trainer_of(options: Mapping[str, Any]) -> str:
    """Who prepares a run with these options (:mod:`pretrieve.finetuning.trainers`)."""
    if options["kind"] != "ranking":
        return "cross-encoder" if options["kind"] == "cross-encoder" else "examples"
    if options["loss"] == "distillation":
        return "distillation"
    if options["refresh"]:
        return "ance"
    return "maxp" if options["windows"] > 1 else "curve" if options["curve"] else "ranking"


def resolve_recipe(
    name: str, entry: Mapping[str, Any], scale: Mapping[str, Mapping[str, Any]], variant: str | None = None
) -> dict[str, Any]:
    """Every option of a recipe of the configuration, and its ``kind``.

    The preset, then the data set's ``variant``, then the scale's (``all``: for every recipe that has the option, then the
    recipe's), then the entry's own options.

    Raises
    ------
    ConfigError
        for a name, a preset, an option or a value that is not allowed.
    """
    base, where = entry.get("recipe", name), f"recipes.{name}"
    if base not in RECIPES:
        raise ConfigError(
            f"config: {where}.recipe: {base!r} is not allowed; allowed: {', '.join(RECIPES)}{nearest(base, RECIPES)}"
        )
    known = RECIPES[base]
    general = {key: value for key, value in scale.get("all", {}).items() if key in known}
    preset = entry.get("preset") or DEFAULT_PRESET.get(base, "paper")
    different = VARIANTS[variant].get(base, {}) if variant else {}
    if preset in PRESETS:
        different = {k: getattr(v, preset) if isinstance(v, ByPreset) else v for k, v in different.items()}
    changes = {**different, **general, **scale.get(base, {}), **entry.get("options", {})}
    return {"kind": KIND_OF[base], **resolve_options(base, known, preset, changes, where)}
