"""Every option of every objective, with the paper's value, the released code's value, and where they come from.

Papers and released code differ in at least one place that changes the loss, for every one of the five papers. So each
objective has two presets, ``paper`` and ``official_code``, and each option can be set by itself in ``config.yaml``. No torch
here: the workflow reads this file to check a configuration.

Commits that the sources refer to: microsoft/SEED-Encoder@ececaa9, playing-code/fairseq@70345cc, luyug/Condenser@74880ab,
staoxiao/RetroMAE@ee37587, google-research/language@865fae6 (ORQA).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pretrieve.errors import ConfigError, nearest

PRESETS = ("paper", "official_code")


class OneOf(NamedTuple):
    """Allowed: one of these words or flags."""

    values: tuple

    def admits(self, value: object) -> bool:
        return any(value is v if isinstance(v, bool) or isinstance(value, bool) else value == v for v in self.values)

    def __str__(self) -> str:
        return ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)


class Between(NamedTuple):
    """Allowed: numbers from low to high (whole ones only, if ``whole``), or one of ``words``."""

    low: float
    high: float
    whole: bool = False
    words: tuple[str, ...] = ()

    def admits(self, value: object) -> bool:
        if value in self.words:
            return True
        number = isinstance(value, int if self.whole else (int, float)) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return " or ".join([f"{kind} from {self.low:g} to {self.high:g}", *self.words])


class Option(NamedTuple):
    """One switch: its value in the paper, in the released code, what is allowed, and the sources of both values."""

    paper: Any
    official_code: Any
    allowed: OneOf | Between
    source: str


FLAG = OneOf((False, True))
WEIGHT = Between(0, 1e3)


def _masking(unit: tuple, rate: float, of: str, mask: tuple, random: tuple, source: str) -> dict[str, Option]:
    return {
        "unit": Option(*unit, OneOf(("token", "word")), source),
        "rate": Option(rate, rate, Between(0.01, 0.95), source),
        "of": Option(of, of, OneOf(("ordinary", "all")), source),
        "mask": Option(*mask, Between(0, 1), source),
        "random": Option(*random, Between(0, 1), source),
    }


_BERT_MASKING = _masking(("token", "token"), 0.15, "ordinary", (0.8, 0.8), (0.1, 0.1), "Devlin et al. 2019 §3.1")
_CONDENSER = _masking(
    ("word", "word"),
    0.15,
    "ordinary",
    (0.8, 0.8),
    (0.1, 0.1),
    "Condenser data.py:68-98; the paper: whole-word masks as BERT's",
) | {
    "skip_layer": Option(6, 2, Between(0, 1000, True), "paper §3.2 (half of 12 layers); Condenser arguments.py:117"),
    "head_layers": Option(2, 2, Between(1, 12, True), "paper §3.2; Condenser README"),
    "late_mlm": Option(True, False, FLAG, "paper equation 7; Condenser arguments.py:119"),
}
_RETROMAE = _masking(
    ("word", "word"), 0.30, "all", (1.0, 0.8), (0.0, 0.1), "dupmae §3.1, §4: tokens replaced by [M]; RetroMAE data.py:69"
) | {
    "decoder_unit": Option("token", "word", OneOf(("token", "word")), "dupmae §3.1; RetroMAE data.py:44-57"),
    "decoder_rate": Option(0.5, 0.5, Between(0.01, 0.99), "dupmae §4; RetroMAE arguments.py:21"),
    "row_masks": Option(
        "all", 256, Between(1, 4096, True, ("all",)), "dupmae §3.1: one a row; RetroMAE data.py:47 (FlagEmbedding: 128)"
    ),
}  # fmt: skip

OPTIONS: dict[str, dict[str, Option]] = {
    "none": {},
    "mlm": _BERT_MASKING,
    "seed-encoder": _BERT_MASKING
    | {
        "decoder_layers": Option(3, 3, Between(1, 12, True), "seed_encoder §5; config_decoder_3_attn_2.json"),
        "span": Option(2, 2, Between(1, 4096, True, ("all",)), "seed_encoder §5; transformer_sentence_encoder.py:585"),
        "mlm_weight": Option(1.0, 0.5, WEIGHT, "seed_encoder equation 10; mask_decode_lm_para.py:112"),
        "decoder_weight": Option(1.0, 0.5, WEIGHT, "seed_encoder equation 10; mask_decode_lm_para.py:112"),
    },
    "optimus": _BERT_MASKING
    | {
        "decoder_layers": Option(12, 12, Between(1, 12, True), "seed_encoder §3.2: GPT-2 on top of BERT"),
        "span": Option("all", "all", Between(1, 4096, True, ("all",)), "seed_encoder §3.2: a standard decoder"),
        "mlm_weight": Option(1.0, 0.0, WEIGHT, "seed_encoder equation 3; Li et al. 2020 equation 5"),
        "decoder_weight": Option(1.0, 1.0, WEIGHT, "seed_encoder equation 3"),
        "kl_weight": Option(0.0, 1.0, WEIGHT, "seed_encoder equation 3 has none; Li et al. 2020 equation 5"),
        "free_bits": Option(0.0, 0.5, Between(0, 100), "Li et al. 2020 §3.2 (λ, nats a dimension)"),
    },
    "condenser": _CONDENSER,
    "cocondenser": _CONDENSER
    | {
        "span_length": Option(128, 128, Between(8, 4096, True), "luyug/Condenser issue 4"),
        "contrastive_weight": Option(1.0, 1.0, WEIGHT, "Gao & Callan 2022 equation 3; modeling.py:239"),
        "mlm_weight": Option(1.0, 2.0, WEIGHT, "Gao & Callan 2022 equation 3; modeling.py:227 under gradient caching"),
    },
    "retromae": _RETROMAE
    | {"normalised_query": Option(False, False, FLAG, "RetroMAE modeling.py:45 (FlagEmbedding's RetroMAE: true)")},
    "dupmae": _RETROMAE
    | {
        "normalised_query": Option(False, True, FLAG, "dupmae §3.1; modeling_duplex.py:36"),
        "decode": Option("both", "both", OneOf(("both", "cls", "ot")), "dupmae §4.2, table 3"),
        "bow_weight": Option(1.0, 0.1, WEIGHT, "dupmae equation 9; modeling_duplex.py:80"),
        "bow_normalised": Option(False, True, FLAG, "dupmae equation 8; data.py:129 (1/L for each distinct token)"),
        "bow_positions": Option("unmasked", "all", OneOf(("unmasked", "all")), "dupmae §3.2; modeling_duplex.py:53"),
        "bow_head": Option("linear", "mlm", OneOf(("linear", "mlm")), "dupmae equation 6; modeling_duplex.py:53"),
    },
    "pairs": {
        "ict_keep": Option(0.0, 0.1, Between(0, 1), "pretraining_tasks §3 states none; ORQA mask_rate 0.9"),
        "by": Option("task", "task", OneOf(("task", "pair")), "pretraining_tasks §4.1: uniformly from the three tasks"),
        "similarity": Option(
            "dot", "dot", OneOf(("dot", "cosine")), "pretraining_tasks equation 1; ORQA ict_model.py:130"
        ),
        "temperature": Option(1.0, 1.0, Between(1e-3, 100), "pretraining_tasks equation 2 has none; nor has ORQA"),
        "towers": Option("shared", "shared", OneOf(("shared", "separate")), "not stated; ORQA ict_model.py:44"),
        "head": Option("linear", "orqa", OneOf(("linear", "orqa")), "pretraining_tasks §4.1; ORQA ict_model.py:44-48"),
    },
}

#: The preset of an encoder that names none: what is nearest to how the published numbers were made.
DEFAULT_PRESET = {
    "seed-encoder": "official_code",
    "retromae": "official_code",
    "dupmae": "official_code",
}


def resolve(
    name: str, preset: str | None, changes: Mapping[str, Any], where: str, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """All options of an objective: those of the preset, then ``more`` (the scale's), then ``changes`` (the encoder's).

    where: the key of the configuration, for messages.

    Raises
    ------
    ConfigError
        for an unknown objective, preset or option, or a value that is not allowed.
    """
    if name not in OPTIONS:
        raise ConfigError(
            f"config: {where}.objective: {name!r} is not allowed; allowed: {', '.join(OPTIONS)}{nearest(name, OPTIONS)}"
        )
    preset = preset or DEFAULT_PRESET.get(name, "paper")
    if preset not in PRESETS:
        raise ConfigError(
            f"config: {where}.preset: {preset!r} is not allowed; allowed: {', '.join(PRESETS)}{nearest(preset, PRESETS)}"
        )
    known = OPTIONS[name]
    values = {option: getattr(entry, preset) for option, entry in known.items()}
    for option, value in {**(more or {}), **changes}.items():
        if option not in known:
            raise ConfigError(
                f"config: {where}.options.{option}: unknown option of {name}; it has {', '.join(sorted(known)) or 'none'}"
                f"{nearest(option, known)}"
            )
        if not known[option].allowed.admits(value):
            raise ConfigError(
                f"config: {where}.options.{option}: {value!r} is not allowed; allowed: {known[option].allowed}"
            )
        values[option] = value
    return values
