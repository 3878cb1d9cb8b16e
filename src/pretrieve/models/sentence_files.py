"""The small files of a directory of sentence-transformers, which others may have written: what they say, checked before anything
is loaded.

``modules.json`` (and ``router_config.json`` of a Router) names the folders of the modules: each is a place in the directory.
:func:`check_directory` is for what sentence-transformers itself will load: links, devices, code of the directory's own, adapters
of other models, and sizes that would fill the memory are refused. No torch here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.base.inside import inside, refuse_outside
from pretrieve.models.published_configs import checked
from pretrieve.raw.checkpoint_files import room_of
from pretrieve.raw.json_file import read_json

MODULES, ROUTER, SETTINGS = "modules.json", "router_config.json", "config_sentence_transformers.json"
#: Names of the settings beside a body, in the order in which sentence-transformers looks for them; old versions named the model.
_BESIDE_BODY = [
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
]
#: Bytes; the labels of a classifier can take one MiB.
LARGEST_CONFIG = 16 << 20
#: Names of a size in ``config.json`` → ours (:data:`pretrieve.models.config.SIZES`).
_SIZES = {
    "vocabulary_size": ("vocab_size",),
    "hidden": ("hidden_size", "d_model", "n_embd", "embedding_size"),
    "layers": ("num_hidden_layers", "num_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "num_heads", "n_head", "n_heads"),
    "feed_forward": ("intermediate_size", "d_ff"),
    "max_positions": ("max_position_embeddings", "n_positions"),
    "segments": ("type_vocab_size",),
}
_TOKENS = {"max_seq_length", "query_length", "document_length"}


@dataclass(frozen=True)
class Module:
    """A module: its class (``sentence_transformers.models.Pooling``), the last word of that, and its folder."""

    type: str
    kind: str
    place: Path


@dataclass(frozen=True)
class Said:
    """What a directory says of reading texts: tokens by name (``max_seq_length``, ``query_length``, ``document_length``), and the
    text put in front, by name."""

    lengths: Mapping[str, int]
    prompts: Mapping[str, str]


def read_object(path: Path, expected: str = "settings of sentence-transformers") -> dict[str, Any]:
    """The keys and values of a JSON file; {} where there is none.

    Raises DataError as :func:`pretrieve.raw.json_file.read_json`, and when it is something else.
    """
    if not path.exists():
        return {}
    found = read_json(path, expected, most=LARGEST_CONFIG)
    if not isinstance(found, dict):
        raise DataError(f"{path}: found {type(found).__name__}; expected an object of settings: take the model anew.")
    return found


def read_modules(directory: Path) -> list[Module]:
    """The modules of ``modules.json`` in their order; none where there is no such file.

    Raises DataError when an entry has no type and path, a path leaves the directory, or a class is not one of
    sentence-transformers.
    """
    path = directory / MODULES
    if not path.exists():
        return []
    listed = read_json(path, "the list of modules", most=LARGEST_CONFIG)
    if not isinstance(listed, list) or not listed or not all(isinstance(entry, dict) for entry in listed):
        raise DataError(f"{path}: expected a list of modules, each with type and path: take the model anew.")
    taken: dict[str, str] = {}
    return [_module(path, entry.get("type"), directory, entry.get("path"), taken) for entry in listed]


def expect_modules(directory: Path) -> list[Module]:
    """As :func:`read_modules`; raises DataError where there is no such file, too."""
    if modules := read_modules(directory):
        return modules
    raise DataError(
        f"{directory}: {f'has no {MODULES}' if directory.is_dir() else 'no such directory'}; expected a directory of "
        "sentence-transformers: `pretrieve export` makes one of a retriever, SentenceTransformer(DIR).save(NEW) of a plain model "
        "whose vectors are means."
    )


def read_router(place: Path) -> dict[str, list[Module]]:
    """Route → its modules, of the folder of a Router.

    Raises DataError as :func:`read_modules`; also when a route names a module that has no type.
    """
    path = place / ROUTER
    about = read_object(path)
    types, structure = about.get("types"), about.get("structure")
    if not isinstance(types, dict) or not isinstance(structure, dict):
        raise DataError(f"{path}: has no types and structure; expected both, as sentence-transformers writes them.")
    taken: dict[str, str] = {}
    modules = {name: _module(path, kind, place, name, taken) for name, kind in types.items()}
    for route, names in structure.items():
        if not isinstance(names, list) or not names or not all(isinstance(n, str) and n in modules for n in names):
            raise DataError(
                f"{path}: structure.{route}: {str(names)[:80]}; expected a list of {', '.join(modules)[:200]}."
            )
    return {route: [modules[name] for name in names] for route, names in structure.items()}


def _module(path: Path, kind: Any, folder: Path, name: Any, taken: dict[str, str]) -> Module:
    if not isinstance(kind, str) or not re.fullmatch(r"sentence_transformers(\.\w+)+", kind, re.ASCII):
        raise DataError(
            f"{path}: type {repr(kind)[:80]}; expected a class of sentence_transformers: code that comes with a model is never "
            "run."
        )
    where = folder if name == "" else inside(folder, name, f"{path}: path", room_of(folder), taken)
    return Module(kind, kind.rpartition(".")[2], where)


def beside_body(body: Path) -> Path:
    """The file with the settings of a body, which may be missing."""
    return next((body / name for name in _BESIDE_BODY if (body / name).exists()), body / _BESIDE_BODY[0])


def read_said(directory: Path, body: Path) -> Said:
    """What ``config_sentence_transformers.json`` of a directory says, and :func:`beside_body` and ``tokenizer_config.json`` of
    its body; to the latter sentence-transformers 6 writes ``max_seq_length``, under the name ``model_max_length``.

    Raises DataError when a number of tokens is none, or a prompt is no text.
    """
    most = read_object(body / "tokenizer_config.json").get("model_max_length")
    lengths = {"max_seq_length": most} if type(most) is int and 1 <= most < 2**31 else {}  # 1e30: no limit
    path = beside_body(body)
    lengths |= {name: value for name, value in read_object(path).items() if name in _TOKENS and value is not None}
    for name, value in lengths.items():
        if type(value) is not int or not 1 <= value < 2**31:
            raise DataError(f"{path}: {name} is {repr(value)[:40]}; expected a whole number of tokens, 1 or more.")
    path = directory / SETTINGS
    prompts = read_object(path).get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise DataError(f"{path}: prompts is {repr(prompts)[:80]}; expected names and texts.")
    return Said(lengths, {name: text or "" for name, text in prompts.items()})


def check_directory(directory: Path, known: Container[str]) -> None:
    """That sentence-transformers may load a directory. known: kinds of models (``model_type``) that need no code of their own.

    Raises DataError with the file, what it says and what was expected, for what the module's text names.
    """
    for folder, folders, files in os.walk(directory):
        refuse_outside((Path(folder, name) for name in (*folders, *files)), room_of(directory))
    modules = expect_modules(directory)
    routed = [
        part for one in modules if one.kind == "Router" for route in read_router(one.place).values() for part in route
    ]
    for module in [*modules, *routed]:
        if not module.place.is_dir() and module.kind != "Normalize":  # it has no files, and git keeps no empty folder
            raise DataError(f"{directory / MODULES}: {module.kind} needs the folder {module.place}, which is missing.")
        if (adapter := module.place / "adapter_config.json").exists():
            base = str(read_object(adapter).get("base_model_name_or_path"))[:80]
            raise DataError(f"{adapter}: an adapter of {base!r}; expected a whole model: merge the two, and save that.")
        if module.kind == "Transformer":
            _check_body(module.place, known)
            read_said(directory, module.place)


def _check_body(place: Path, known: Container[str]) -> None:
    path = place / "config.json"
    if not path.exists():
        raise DataError(f"{path}: no such file; expected the settings of a model of transformers.")
    shown = read_object(path)
    kind = shown.get("model_type")
    if not isinstance(kind, str) or kind not in known:
        own = f", with code of its own ({', '.join(map(str, code))[:80]})" if (code := shown.get("auto_map")) else ""
        raise DataError(
            f"{path}: model_type is {repr(kind)[:40]}{own}; expected a model of transformers: code that comes with a model is "
            "never run."
        )
    sizes = dict(_sizes(path, shown))
    weights = sum(file.stat().st_size for file in place.iterdir() if file.suffix in (".safetensors", ".bin"))
    width = min(sizes.get("hidden", {}).values(), default=0)
    for ours, rows in (("vocabulary_size", 1), ("layers", width)):
        for theirs, value in sizes.get(ours, {}).items():
            if value * width * rows > 2 * weights:
                raise DataError(
                    f"{path}: {theirs} is {value:,} and the width {width:,}: more than {value * width * rows:,} numbers, but its "
                    f"weights have {weights:,} bytes; expected settings of these weights: take the model anew."
                )


def _sizes(path: Path, shown: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    """Our name of a size → the file's names of it and their values."""
    for ours, names in _SIZES.items():
        given = {name: shown[name] for name in names if shown.get(name) is not None}
        for name, value in given.items():
            checked(ours, value, f"{path}: {name}")
        if given:
            yield ours, given
