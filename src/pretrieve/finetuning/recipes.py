"""Every fine-tuning recipe of the five papers, with each hyper-parameter's origin.

A recipe turns an encoder into a retriever (or another scorer). How options are written and checked:
:mod:`pretrieve.base.options` and :mod:`pretrieve.finetuning.recipe_parts`, whose fields have the values that most recipes share.
No torch here: the workflow reads this file.

``start``: ``encoder``, or a recipe whose retriever this one continues from. ``negatives``: a list of ``bm25``, ``mined:RECIPE``
(lists that the retriever of another recipe found) and ``published`` (those that the data set ships). ``teacher``: a recipe that
trains a cross-encoder. A recipe's retriever is made once for each encoder, training-set size and seed, whoever asks for it.

Commits that the sources refer to: microsoft/SEED-Encoder@ececaa9, luyug/Condenser@74880ab, texttron/tevatron@dd06310,
staoxiao/RetroMAE@ee37587, google-research/t5x_retrieval@e2fbef3, facebookresearch/DPR@a31212d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.options import PRESETS, ByPreset, Option, resolve_options
from pretrieve.finetuning.recipe_parts import (
    Classes,
    Clicks,
    Distillation,
    JointModel,
    Model,
    Ranking,
    Recipe,
    Run,
    Triplets,
)

RETRIEVAL_KINDS = ("ranking", "cross-encoder")

_REQA = "pretraining_tasks §4.1"
_CONDENSER = "condenser §4.3, A.1; tevatron examples/coCondenser-marco"
_TEVATRON = f"{_CONDENSER}/build_train.py:30-33, build_train_hn.py:11-35, README.md:85-97"
_SEED = "seed_encoder §4.2; SEED-Encoder README:85-90, model/models.py:87-114, 266-306"
_ANCE = "seed_encoder §4.2; SEED-Encoder README, drivers/run_ann_data_gen.py:370-427"
_DUPMAE = "dupmae §3.2 (fine-tuning was never released); sizes of a step from RetroMAE examples/retriever/msmarco"
_T5 = "dual_encoders §4; t5x_retrieval models.py:213, losses.py:129, finetune.gin"
_AS_IT_IS = "no paper; all-MiniLM-L6-v2: modules.json, 1_Pooling/config.json, sentence_bert_config.json"
_STS = "condenser A.1; Reimers & Gurevych 2019 §4.2 (batch 16)"
_SECTIONS = "condenser A.1; Reimers & Gurevych 2019 §4.4"
_GLUE = "seed_encoder A.2: the schedule of Devlin et al. 2019 A.3"

_DPR = Recipe(
    model=Model(_CONDENSER),
    data=Ranking(_TEVATRON, group=8, negatives=("bm25",), pool=30, pool_from=ByPreset("first", "all")),
    run=Run(
        _CONDENSER,
        batch=8,
        epochs=3,
        learning_rate=5e-6,
        query_length=32,
        passage_length=128,
        few_epochs=ByPreset((5, 10, 40), ()),
    ),
)
_PAIRWISE = Recipe(
    model=Model(_SEED, head=ByPreset("none", "linear-norm")),
    data=Ranking(
        _SEED,
        loss=ByPreset("hinge", "pairwise"),
        in_batch=False,
        group=2,
        negatives=("bm25",),
        pool=1000,
        false_negatives="masked",
    ),
    run=Run(
        f"{_SEED}; run_warmup.py:57,84",
        batch=256,
        steps=90_000,
        learning_rate=2e-4,
        warmup=ByPreset(0.0111, 0.003657),
        optimiser="lamb",
        schedule_steps=ByPreset(0, 273_437),
        weight_decay=ByPreset(0.01, 0.0),
        query_length=64,
        passage_length=128,
    ),
)
_SENTENCES_RUN = Run(
    _STS, batch=16, epochs=4, few_epochs=(4, 8), learning_rate=2e-5, query_length=128, passage_length=128
)
_DUPMAE_RUN = Run(_DUPMAE, batch=128, epochs=4, learning_rate=2e-5, query_length=32, passage_length=140)
_DUPMAE_STAGE = Recipe(model=JointModel(_DUPMAE), data=Ranking(_DUPMAE, pool=200), run=_DUPMAE_RUN)

_RECIPES: dict[str, Recipe] = {
    "reqa": Recipe(
        model=Model(_REQA, head="linear", dim="full"),
        data=Ranking(_REQA, false_negatives="masked"),
        run=Run(_REQA, batch=512, steps=2000, learning_rate=5e-5, query_length=64, passage_length=288, snapshots=4),
    ),
    "dpr-bm25": _DPR,
    # tevatron's create_hn.sh: the second round has the BM25 negatives too, and begins with the pre-trained encoder again
    "dpr-hard": _DPR.but(
        negatives=("bm25", "mined:dpr-bm25"),
        pool=ByPreset(200, 30),
        pool_from=ByPreset("first", ("all", 200)),
        sources=ByPreset("union", "separate"),
        examples=ByPreset("judgement", "query"),
        epochs=ByPreset(3, 2),
    ),
    "seed-pairwise": _PAIRWISE,
    "ance": _PAIRWISE.but(
        _ANCE,
        start="seed-pairwise",
        negatives=("mined:seed-pairwise",),
        pool=200,
        refresh=10_000,
        batch=64,
        steps=ByPreset(300_000, 440_000),
        schedule_steps=ByPreset(0, 1_000_000),
        learning_rate=1e-6,
        warmup=ByPreset(0.0167, 0.005),
        passage_length=512,
    ),
    "dupmae-1stage": _DUPMAE_STAGE,
    "dupmae-2stage": _DUPMAE_STAGE.but(start="dupmae-1stage", negatives=("mined:dupmae-1stage",), group=16),
    "dupmae-teacher": Recipe(
        kind="cross-encoder",
        data=Ranking(
            _DUPMAE, in_batch=False, group=16, negatives=("mined:dupmae-1stage",), pool=200, false_negatives="masked"
        ),
        run=replace(_DUPMAE_RUN, batch=16, epochs=2),
    ),
    "dupmae-3stage": Recipe(
        model=JointModel(_DUPMAE),
        data=Distillation(_DUPMAE, group=16, negatives=("mined:dupmae-1stage",), pool=200, teacher="dupmae-teacher"),
        run=replace(_DUPMAE_RUN, start="dupmae-2stage"),
    ),
    "dual-t5": Recipe(
        model=Model(_T5, head="linear-no-bias", dim=768, similarity="cosine", temperature=0.01, pooling="mean"),
        data=Ranking(_T5, direction=ByPreset("one", "both")),
        run=Run(
            _T5,
            batch=512,
            steps=20_000,
            learning_rate=1e-3,
            warmup=ByPreset(0.0, 0.05),
            optimiser="adafactor",
            schedule="t5x",
            weight_decay=0.0,
            clip=0.0,
            query_length=64,
            passage_length=256,
        ),
    ),
    # Nothing is trained: the vectors of a published sentence encoder, as its own modules.json makes them
    "as-it-is": Recipe(
        model=Model(_AS_IT_IS, pooling="mean", similarity="cosine"),
        data=Ranking(_AS_IT_IS, false_negatives="masked"),
        run=Run(_AS_IT_IS, batch=1, steps=0, learning_rate=1e-5, query_length=256, passage_length=256),
    ),
    "sts": Recipe(kind="regression", model=Model(_STS, similarity="cosine", pooling="mean"), run=_SENTENCES_RUN),
    "sections": Recipe(
        kind="triplet",
        model=Model(_SECTIONS, pooling="mean"),
        data=Triplets("Reimers & Gurevych 2019 §3: 1, Euclidean distance"),
        run=replace(_SENTENCES_RUN, source=_SECTIONS, epochs=1, few_epochs=(1, 4, 8)),
    ),
    "glue": Recipe(
        kind="classification",
        data=Classes("MNLI has 3 classes, QQP, QNLI and SST-2 have 2"),
        run=replace(_SENTENCES_RUN, source=_GLUE, batch=32, epochs=3, few_epochs=()),
    ),
    "news": Recipe(
        kind="clicks",
        model=Model("seed_encoder §4.4; the code adds a linear layer, tanh, LayerNorm"),
        data=Clicks("seed_encoder §4.4: DPR (MIND Neg); fairseq train_plain_bert_dot4_fp16.py"),
        run=Run(
            "the paper states none; fairseq train_plain_bert_dot4_fp16.py",
            batch=1024,
            steps=50_000,
            learning_rate=1e-4,
            optimiser="lamb",
            query_length=512,
            passage_length=64,
        ),
    ),
}
#: Recipe → its options.
RECIPES: dict[str, dict[str, Option]] = {name: recipe.options() for name, recipe in _RECIPES.items()}
#: Recipe → what it trains.
KIND_OF: dict[str, str] = {name: recipe.kind for name, recipe in _RECIPES.items()}

_OPEN_QA = {
    "sharing": "ade",
    "batch": 128,
    "group": 2,
    "examples": "first",  # DPR biencoder.py:171-177; tevatron: --positive_passage_no_shuffle
    "learning_rate": ByPreset(1e-5, 5e-6),
    "pool": 100,
    "passage_length": 256,
    "few_epochs": [],  # "low data share the same setting"
}

#: What papers do differently on some data sets (``variant`` of a data set in config.yaml).
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    # condenser A.1, DPR: 128 questions, one BM25 negative each, 40 epochs, 1e-5; tevatron examples/coCondenser-nq/README.md:
    # 40 and 20 epochs, 5e-6; DPR: titles, 256 tokens. Two towers, as in DPR, tevatron (--untie_encoder) and SEED-Encoder's
    # dpr_fast
    "open-qa": {
        "dpr-bm25": {**_OPEN_QA, "epochs": 40},
        "dpr-hard": {**_OPEN_QA, "epochs": ByPreset(40, 20)},
        # dpr_fast: plain [CLS], on DPR's retriever. SEED-Encoder data/DPR_data.py:116: the gold passage; commands/
        # run_ann_data_gen_dpr.sh:25, drivers/run_ann_data_gen_dpr.py:307-324: of the first 100 hits all without the answer;
        # commands/run_train_dpr.sh:10-13: batch, rate, 1,000 steps of warm-up; drivers/run_ann_dpr.py:110-112, 547-553: clip,
        # steps, and the rate that falls to 0 at the last
        "ance": {
            "sharing": "ade",
            "head": "none",
            "start": "dpr-bm25",
            "negatives": ["mined:dpr-bm25"],
            "examples": "first",
            "pool": 100,
            "sample": 100,
            "batch": 256,
            "steps": 300_000,
            "schedule_steps": 0,
            "learning_rate": 1e-5,
            "warmup": 0.003333,
            "clip": 2.0,
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


def resolve_recipe(
    name: str, entry: Mapping[str, Any], scale: Mapping[str, Mapping[str, Any]], variant: str | None = None
) -> dict[str, Any]:
    """Every option of a recipe of the configuration, and its ``kind``.

    The preset, then the data set's ``variant``, then the scale's (``all``: for every recipe that has the option, then the
    recipe's), then the entry's own options.

    Raises ConfigError for a name, a preset, an option or a value that is not allowed.
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
