"""What the parsers of many commands share: required options, groups of options, and the forms of their values."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError


def json_object(text: str) -> dict[str, Any]:
    """The type of an option whose value is a JSON object.

    >>> json_object('{"batch": 4}')
    {'batch': 4}
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is {type(value).__name__}; expected a JSON object.")
    return value


def positive(text: str) -> int:
    """The type of an option that counts something: a whole number, 1 or more."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a whole number, 1 or more.")
    return int(text)


def lengths(text: str) -> dict[str, Any]:
    """The type of an option whose value is a JSON object with ``query_length`` and ``passage_length`` among its keys."""
    options = json_object(text)
    for name in ("query_length", "passage_length"):
        if type(value := options.get(name)) is not int or value < 3:
            found = repr(value) if name in options else "missing"
            raise argparse.ArgumentTypeError(
                f"{name} is {found}; expected how many tokens are read, special ones included: a whole number, 3 or more."
            )
    return options


def ending_in(ending: str) -> Callable[[str], Path]:
    """The type of an output file whose name must end in ``ending``. The name of a second file, such as its cost, is made by
    replacing that ending; without it the second file would overwrite the first."""

    def path(text: str) -> Path:
        if not text.endswith(ending):
            raise argparse.ArgumentTypeError(f"{text!r} does not end in {ending}; expected NAME{ending}.")
        return Path(text)

    return path


def required(parser: argparse.ArgumentParser, kind: Callable[[str], Any], **helps: str) -> None:
    """One required option of type ``kind`` for each name; ``helps`` maps the name, with _ for -, to its help."""
    for name, text in helps.items():
        _require(parser, name, kind, help=text or None)


def required_lists(parser: argparse.ArgumentParser, kind: Callable[[str], Any], **helps: str) -> None:
    """As :func:`required`, for options that take one value or more."""
    for name, text in helps.items():
        _require(parser, name, kind, help=text or None, nargs="+")


def _require(parser: argparse.ArgumentParser, name: str, kind: Callable[[str], Any], **more: Any) -> None:
    metavar = {Path: "PATH", json_object: "JSON", lengths: "JSON"}.get(kind, name.upper())
    parser.add_argument(f"--{name.replace('_', '-')}", type=kind, required=True, metavar=metavar, **more)


def add_outputs(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """``--csv PATH`` and the like: the files that are written."""
    required(parser, Path, **dict.fromkeys(kinds, "output"))


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=positive, default=1)


def add_device(parser: argparse.ArgumentParser) -> None:
    """What :func:`pretrieve.training.device.choose_device` is told."""
    add_threads(parser)
    parser.add_argument("--precision", default="auto", help="fp32 or bf16; auto: whichever the processor runs faster")


def add_training(parser: argparse.ArgumentParser) -> None:
    """Seed, device and checkpoints of a program that trains."""
    required(parser, int, seed="")
    add_device(parser)
    required(parser, Path, checkpoints="directory of the checkpoints that a killed run continues from")
    seconds = os.environ.get("PRETRIEVE_CHECKPOINT_SECONDS", "60")
    parser.add_argument("--checkpoint-seconds", type=float, default=seconds, help="between two checkpoints")


def add_without_answers(parser: argparse.ArgumentParser) -> None:
    kept = "a hit that contains an answer of its query is no negative; the task has answers.parquet"
    parser.add_argument("--without-answers", action="store_true", help=kept)


def add_mirror(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mirror", type=Path, help="folder with raw files, asked first")


def add_config_file(parser: argparse.ArgumentParser, use: str) -> None:
    """``--config``: the configuration's file; ``use`` says what for."""
    parser.add_argument("--config", type=Path, metavar="YAML", help=f"{use}; config.yaml, unless given")


def add_run(parser: argparse.ArgumentParser) -> None:
    """A scale, tables and settings of it, as a run of Snakemake has them."""
    parser.add_argument("--scale", default="demo")
    tables = "all of config.yaml, unless given"
    parser.add_argument("--tables", nargs="*", default=[], metavar="PAPER/TABLE", help=tables)
    add_settings(parser, "as Snakemake's --config takes them")


def add_settings(parser: argparse.ArgumentParser, use: str) -> None:
    """``--config``: settings of a run. A scale is refused: it is named elsewhere, and the two could differ."""
    parser.add_argument("--config", nargs="*", type=_setting, default=[], metavar="KEY=VALUE", help=use)


def _setting(text: str) -> str:
    if text.partition("=")[0] == "scale":
        raise argparse.ArgumentTypeError(f"{text!r}: expected no scale here; --scale or the file names it.")
    return text


def add_reference(parser: argparse.ArgumentParser, reference: str) -> None:
    """What a table or a figure is made from and of, and what its manifest names."""
    required(parser, Path, reference=reference)
    required(parser, json_object, setting="what the scale makes")
    parser.add_argument("--config-hash", default="")
    parser.add_argument("--lock", type=Path, help="lock file of the environment")
    parser.add_argument("--sources", type=Path, nargs="*", default=[], help="data files to checksum")


def add_licences(parser: argparse.ArgumentParser) -> None:
    lines = "lines about the training data, for the model card"
    parser.add_argument("--licences", nargs="*", default=[], help=lines)


def add_base(parser: argparse.ArgumentParser) -> None:
    given = "START=DIR of the published encoder that training began with, for the model card"
    parser.add_argument("--base", default="", help=given)


def named_values(entries: Iterable[str], option: str) -> dict[str, str]:
    """``["train=a.tsv"]`` → ``{"train": "a.tsv"}``.

    Raises ConfigError for another form, or a name that appears twice.
    """
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not (name and equals and value):
            raise ConfigError(f"{option}: {entry!r} is not NAME=VALUE, such as train=train.tsv.")
        if name in found:
            raise ConfigError(f"{option}: '{name}' is given twice, as {found[name]} and {value}; give each name once.")
        found[name] = value
    return found
