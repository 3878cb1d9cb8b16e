"""Every option of every objective, with the paper's value, the released code's value, and where they come from.

How options are written and checked: :mod:`pretrieve.base.options`. No torch here: the workflow reads this file.

Commits that the sources refer to: microsoft/SEED-Encoder@ececaa9, playing-code/fairseq@70345cc, luyug/Condenser@74880ab,
staoxiao/RetroMAE@ee37587, google-research/language@865fae6 (ORQA), ChunyuanLI/Optimus@f3190fe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.options import FLAG, WEIGHT, Between, ByPreset, Given, OneOf, Option, Part, resolve_options

EXAMPLES = (
    "sentences of a text up to the length: Devlin et al. 2019 §A.2; Condenser create_train.py; RetroMAE preprocess.py"
)


@dataclass(frozen=True, kw_only=True)
class MaskedTexts(Part):
    """Which texts are read, and which of their words are masked. The values: Devlin et al. 2019."""

    unk: Annotated[Given[str], OneOf(("skipped", "spent"))] = "skipped"
    packing: Annotated[Given[str], OneOf(("whole", "fill")), EXAMPLES] = "whole"
    short: Annotated[Given[float], Between(0, 1), EXAMPLES] = 0.0
    unit: Annotated[Given[str], OneOf(("token", "word"))] = "token"
    rate: Annotated[Given[float], Between(0.01, 0.95)] = 0.15
    of: Annotated[Given[str], OneOf(("ordinary", "all"))] = "ordinary"
    mask: Annotated[Given[float], Between(0, 1)] = 0.8
    random: Annotated[Given[float], Between(0, 1)] = 0.1
    examples: Annotated[Given[str], OneOf(("passages", "blocks")), EXAMPLES] = "blocks"


def _false_negatives(source: str) -> dict[str, Option]:
    return {"false_negatives": Option("masked", "kept", OneOf(("masked", "kept")), source)}


_BERT_MASKING = MaskedTexts("Devlin et al. 2019 §3.1").options()
_CONDENSER = MaskedTexts(
    "condenser §3.3: the masks of Devlin et al. 2019; Condenser data.py:68-98",
    unit=ByPreset("token", "word"),
    short=ByPreset(0.0, 0.1),
).options() | {
    "skip_layer": Option(
        6, 2, Between(0, 1000, True), "condenser §4.1 (half of 12 layers); Condenser arguments.py:118 (its README: 6)"
    ),
    "head_layers": Option(2, 2, Between(1, 12, True), "condenser §4.1; Condenser arguments.py:117"),
    "late_mlm": Option(True, False, FLAG, "condenser equation 11; Condenser arguments.py:119 (its README: true)"),
}
_RETROMAE = MaskedTexts(
    "dupmae §3.1, §4: some tokens replaced by [M]; RetroMAE data.py:42,69, arguments.py:20",
    unit=ByPreset("token", "word"),
    rate=0.30,
    of="all",
    mask=ByPreset(1.0, 0.8),
    random=ByPreset(0.0, 0.1),
    packing="fill",
    unk=ByPreset("skipped", "spent"),
).options() | {
    "decoder_unit": Option("token", "word", OneOf(("token", "word")), "dupmae §3.1; RetroMAE data.py:44-47"),
    "decoder_rate": Option(0.5, 0.5, Between(0.01, 0.99), "dupmae §4; RetroMAE arguments.py:21"),
    "row_masks": Option(
        "all",
        256,
        Between(1, 4096, True, ("all",)),
        "dupmae equation 5: one for each row; RetroMAE data.py:46,51 (FlagEmbedding: 128)",
    ),
}

OPTIONS: dict[str, dict[str, Option]] = {
    "none": {},
    "mlm": _BERT_MASKING,
    "seed-encoder": _BERT_MASKING
    | {
        "decoder_layers": Option(3, 3, Between(1, 12, True), "seed_encoder §4.1; config_decoder_3_attn_2.json"),
        "span": Option(
            2, 2, Between(1, 4096, True, ("all",)), "seed_encoder §4.1; transformer_sentence_encoder.py:585"
        ),
        "mlm_weight": Option(1.0, 0.5, WEIGHT, "seed_encoder equation 10; mask_decode_lm_para.py:114"),
        "decoder_weight": Option(1.0, 0.5, WEIGHT, "seed_encoder equation 10; mask_decode_lm_para.py:114"),
    },
    # No code of the baseline as seed_encoder describes it; the released code is Optimus's own.
    "optimus": MaskedTexts(
        "seed_encoder §4.1; Optimus run_lm_vae_pretraining_phdist_beta.py:405 (without --mlm no token is masked)",
        mask=ByPreset(0.8, 0.0),
        random=ByPreset(0.1, 0.0),
    ).options()
    | {
        "decoder_layers": Option(12, 12, Between(1, 12, True), "seed_encoder §3.1 and Optimus: GPT-2 on top of BERT"),
        "span": Option("all", "all", Between(1, 4096, True, ("all",)), "seed_encoder equation 2; GPT-2"),
        "mlm_weight": Option(
            1.0, 0.0, WEIGHT, "seed_encoder §3.4, equation 10; Optimus vae.py:148-151 has no such term"
        ),
        "decoder_weight": Option(1.0, 1.0, WEIGHT, "seed_encoder equation 2; Optimus vae.py:151"),
        "kl_weight": Option(
            0.0, 1.0, WEIGHT, "seed_encoder equation 2 has none; Optimus rr3_wiki_beta.json (also released: 0 and 0.5)"
        ),
        "free_bits": Option(
            0.0,
            1.0,
            Between(0, 100),
            "none in seed_encoder; Optimus rr3_wiki_beta.json, nats a dimension (fine-tuning: 0.5)",
        ),
        "latent_size": Option(
            "hidden",
            "hidden",
            Between(1, 4096, True, ("hidden",)),
            "seed_encoder equation 1: h_0; Optimus README: 768, BERT-base's width, or 32",
        ),
        "kl_per": Option(
            "token",
            "token",
            OneOf(("token", "sequence")),
            "none in seed_encoder; Optimus vae.py:148-151 (sequence: nearly its length_weighted_loss)",
        ),
    },
    "condenser": _CONDENSER,
    "cocondenser": {key: option for key, option in _CONDENSER.items() if key not in ("examples", "packing", "short")}
    | _false_negatives("Gao & Callan 2022 §3.2 leaves it open; Condenser modeling.py:239-242")
    | {
        "chunk": Option(
            0,
            32,
            Between(0, 1 << 20, True),
            "open; Condenser trainer.py:161-184: spans of a mean, how many is the user's",
        ),
        "span_length": Option(128, 128, Between(8, 4096, True), "luyug/Condenser issue 4"),
        "contrastive_weight": Option(1.0, 1.0, WEIGHT, "Gao & Callan 2022 §3.2; Condenser modeling.py:239"),
        "mlm_weight": Option(
            1.0, 2.0, WEIGHT, "Gao & Callan 2022 §3.2; Condenser modeling.py:227 (with gradient caching; 1 without)"
        ),
    },
    "retromae": _RETROMAE
    | {
        "normalised_query": Option(
            False, False, FLAG, "dupmae equation 2; RetroMAE modeling.py:45-47 (FlagEmbedding's RetroMAE: true)"
        )
    },
    "dupmae": _RETROMAE
    | {
        "normalised_query": Option(False, True, FLAG, "dupmae equation 2; RetroMAE modeling_duplex.py:36-37"),
        "decode": Option("both", "both", OneOf(("both", "cls", "ot")), "dupmae §4.2, table 3"),
        "bow_weight": Option(1.0, 0.1, WEIGHT, "dupmae equation 9; RetroMAE modeling_duplex.py:80, arguments.py:43-45"),
        "bow_normalised": Option(
            False, True, FLAG, "dupmae equation 8; RetroMAE data.py:129-131 (1/L for each distinct token)"
        ),
        "bow_positions": Option(
            "unmasked",
            "all",
            OneOf(("unmasked", "all")),
            "dupmae §3.2: masked tokens excluded; RetroMAE modeling_duplex.py:77",
        ),
        "bow_head": Option(
            "linear", "mlm", OneOf(("linear", "mlm")), "dupmae equation 6; RetroMAE modeling_duplex.py:77"
        ),
    },
    "pairs": _false_negatives("pretraining_tasks leaves it open; ORQA ict_model.py:130-137")
    | {
        "ict_keep": Option(0.0, 0.1, Between(0, 1), "pretraining_tasks §3 states none; ORQA mask_rate 0.9"),
        "by": Option("task", "task", OneOf(("task", "pair")), "pretraining_tasks §4.1: uniformly from the three tasks"),
        "similarity": Option(
            "dot", "dot", OneOf(("dot", "cosine")), "pretraining_tasks equation 1; ORQA ict_model.py:130"
        ),
        "temperature": Option(1.0, 1.0, Between(1e-3, 100), "pretraining_tasks equation 3 has none; nor has ORQA"),
        "towers": Option("shared", "shared", OneOf(("shared", "separate")), "not stated; ORQA ict_model.py:44"),
        "head": Option(
            "linear", "orqa", OneOf(("linear", "orqa", "none")), "pretraining_tasks §4.1; ORQA ict_model.py:44-48"
        ),
    },
}

#: The preset of an encoder that names none: what is nearest to how the published numbers were made.
DEFAULT_PRESET = {"seed-encoder": "official_code", "retromae": "official_code", "dupmae": "official_code"}


def resolve(
    name: str, preset: str | None, changes: Mapping[str, Any], where: str, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """All options of an objective: those of the preset, then ``more`` (the scale's), then ``changes`` (the encoder's).

    where: the key of the configuration, for messages.

    Raises ConfigError for an unknown objective, preset or option, or a value that is not allowed.
    """
    if name not in OPTIONS:
        raise ConfigError(
            f"config: {where}.objective: {name!r} is not allowed; allowed: {', '.join(OPTIONS)}{nearest(name, OPTIONS)}"
        )
    preset = preset or DEFAULT_PRESET.get(name, "paper")
    return resolve_options(name, OPTIONS[name], preset, {**(more or {}), **changes}, where)
