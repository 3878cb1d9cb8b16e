"""Retrievers in the layout of sentence-transformers, read without it: ``modules.json`` says what follows the body.

The reverse of :mod:`pretrieve.retrieval.export`. A directory without ``modules.json`` is a plain encoder of transformers:
the caller names its pooling. Its vectors are not normalised, as in sentence-transformers.

Search takes inner products. So where the directory compares by the cosine, its vectors get length 1, with a Normalize or without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.encoder import SIMILARITIES, Encoder
from pretrieve.models.hf_format import load_tensors
from pretrieve.models.published import read_published, read_tensors
from pretrieve.models.sentence_files import (
    MODULES,
    ROUTER,
    SETTINGS,
    Module,
    beside_body,
    read_modules,
    read_object,
    read_router,
    read_said,
)
from pretrieve.raw.checkpoint_files import WEIGHTS, CheckpointFiles, find_checkpoint
from pretrieve.text.vocabulary import NO_TOKEN, given_tokenizer, special_ids, vocabulary_sha256

#: Settings beside a body that change its layers, its tokenizer or what is read, under their older and newer names.
_NOT_READ = (
    "config_args",
    "config_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "processing_kwargs",
    "query_expansion",
)
#: Settings among them that change nothing.
_HARMLESS = {"trust_remote_code", "use_fast"}
#: Modules behind the pooling (a Dense by its activation) → our head, and the prefix of each module's tensors in it.
_HEADS: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    (): ("none", ()),
    ("Identity",): ("linear", ("",)),
    ("Identity", "LayerNorm"): ("linear-norm", ("linear.", "norm.")),
    ("Tanh", "Identity", "LayerNorm"): ("orqa", ("pooler.", "dense.", "norm.")),
}
#: ε of sentence-transformers' LayerNorm, which cannot be set.
EPS = 1e-5
#: Classes of tokenizers that take ``tokenizer.json`` as it is; others make the tokens around a text themselves.
_AS_IT_IS = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass(frozen=True)
class Reading:
    """Tokens of a query and of a passage that are read, special ones included, and the text put in front of each."""

    query_length: int
    passage_length: int
    query_prompt: str = ""
    passage_prompt: str = ""

    @classmethod
    def of(cls, config: BodyConfig, query_length: int | None = None, passage_length: int | None = None) -> Reading:
        """As much as is given, or as ``max_positions`` says; a Transformer has no more positions, T5 has none."""
        room = config.max_positions
        lengths = (query_length or room, passage_length or room)
        return cls(*(min(length, room) if config.kind == "transformer" else length for length in lengths))


def read_sentence_transformer(directory: Path, pooling: str | None = None) -> tuple[DualEncoder, Reading, Path | None]:
    """The towers of a published directory (two, if it has a Router), how they read texts, and where the vocabulary is, if there
    is one. pooling: ``cls`` or ``mean``, where the directory does not say.

    Raises DataError when a module is not one that :func:`pretrieve.load` names, the checkpoint cannot be read, or nobody says the
    pooling, and ConfigError when both do.
    """
    routes = _routes(directory)
    towers = {route: _encoder(directory, modules, pooling) for route, modules in routes.items()}
    files = [find_checkpoint(modules[0].place) for modules in routes.values()]
    reading = _reading(directory, files[0], towers["query"].config)
    if "document" not in towers:
        return DualEncoder(towers["query"], towers["query"], "sde"), reading, files[0].vocabulary
    if len({vocabulary_sha256(given_tokenizer(file.vocabulary)) for file in files if file.vocabulary}) > 1:
        raise DataError(f"{directory}: queries and documents have different vocabularies; expected one of both.")
    passage = _reading(directory, files[1], towers["document"].config)
    reading = replace(reading, passage_length=passage.passage_length)
    return DualEncoder(towers["query"], towers["document"], "ade"), reading, files[0].vocabulary


def _routes(directory: Path) -> dict[str, list[Module]]:
    """Route → its modules; a single route is that of both sides, and is called ``query``."""
    modules = read_modules(directory) or [Module("", "Transformer", directory)]
    if [module.kind for module in modules] != ["Router"]:
        return {"query": modules}
    routes = read_router(modules[0].place)
    if set(routes) != {"query", "document"}:
        raise DataError(f"{directory}/{ROUTER}: has the routes {sorted(routes)}; expected query and document.")
    return {route: routes[route] for route in ("query", "document")}


def _encoder(directory: Path, modules: list[Module], given: str | None) -> Encoder:
    pooling, similarity = "", _similarity(directory)
    behind = [(_part(module), module.place) for module in modules if module.kind in ("Dense", "LayerNorm")]
    known = _HEADS.get(tuple(part for part, _ in behind))
    for number, (kind, place) in enumerate((module.kind, module.place) for module in modules):
        settings = read_object(place / "config.json")
        if kind == "Pooling" and not pooling:
            pooling = _pooling(place, settings)
        elif kind in ("Dense", "LayerNorm") and known and (pooling or given):
            _refuse_other_than(False, place / "config.json", "use_residual")
            _refuse_other_than("sentence_embedding", place / "config.json", "module_input_name")
        elif kind == "Normalize" and number == len(modules) - 1:
            similarity = "cosine"
        elif kind != "Transformer" or number:
            raise DataError(
                f"{directory}: found the module {kind} in place {number}; expected Transformer, Pooling, at most one Dense with "
                "the activation Identity, and Normalize at the end. A LayerNorm may follow that Dense, and then one with Tanh "
                "precede it."
            )
    files = find_checkpoint(modules[0].place)
    if pooling and given:
        raise ConfigError(f"{directory}: says the pooling {pooling!r} itself; leave pooling={given!r} out.")
    if not (pooling := pooling or given or ""):
        raise DataError(
            f"{directory}: nothing in it says how the tokens' states become one vector; expected {MODULES} with a Pooling, or "
            "pooling='cls' (the first token's state) or 'mean', as the model was trained."
        )
    saved = read_published(files)
    head, prefixes = known
    parts = [(name, _tensors(place), place) for name, (_, place) in zip(prefixes, behind, strict=True)]
    tensors = {prefix + name: tensor for prefix, own, _ in parts for name, tensor in own.items()}
    if head == "linear" and "bias" not in tensors:
        head = "linear-no-bias"
    dim = next((len(own["weight"]) for _, own, _ in reversed(parts)), saved.config.hidden)
    encoder = Encoder(saved.config, dim, pooling, 0, similarity, head)
    load_tensors(encoder.body, saved.body, saved.path)
    if parts:
        load_tensors(encoder.projection, tensors, parts[0][2])
    if hasattr(encoder.projection, "norm"):
        encoder.projection.norm.eps = EPS
    return encoder


def _part(module: Module) -> str:
    """The activation of a Dense; the kind of any other module."""
    if module.kind != "Dense":
        return module.kind
    return str(read_object(module.place / "config.json").get("activation_function")).rpartition(".")[2]


def _similarity(directory: Path) -> str:
    """``cosine`` or ``dot``; where a list of modules says neither, sentence-transformers takes the cosine."""
    said = read_object(directory / SETTINGS).get("similarity_fn_name")
    found = said or ("cosine" if (directory / MODULES).is_file() else "dot")
    if found not in SIMILARITIES:
        raise DataError(
            f"{directory / SETTINGS}: similarity_fn_name is {repr(found)[:40]}; expected one of {', '.join(SIMILARITIES)}: "
            "search is by inner products."
        )
    return found


def _pooling(place: Path, settings: dict[str, Any]) -> str:
    """``cls`` or ``mean``, in the newer form of the settings or the older one."""
    older = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    chosen = [older.get(name, name) for name, value in settings.items() if name.startswith("pooling_mode_") and value]
    found = settings.get("pooling_mode", ", ".join(chosen))
    if found not in older.values():
        raise DataError(
            f"{place}/config.json: found the pooling {found!r}; expected cls (the first token's state) or mean."
        )
    if not settings.get("include_prompt", True):
        raise DataError(
            f"{place}/config.json: include_prompt is false: a prompt's tokens would be left out of the vector, which is not "
            "supported; expected true, which is the same for a model without prompts."
        )
    return found


def _tensors(place: Path) -> dict[str, Any]:
    """``weight`` and ``bias`` of a Dense or a LayerNorm."""
    file = next((place / name for name in WEIGHTS if (place / name).is_file()), place / WEIGHTS[0])
    found = {
        name.removeprefix("linear.").removeprefix("norm."): tensor for name, tensor in read_tensors((file,))[0].items()
    }
    if "weight" not in found:
        raise DataError(f"{file}: has {', '.join(sorted(found)) or 'no tensor'}; expected the weight of the module.")
    return found


def _refuse_other_than(allowed: Any, path: Path, name: str) -> None:
    """Raise DataError when a file has another value of a setting than the only one that is supported."""
    if (found := read_object(path).get(name)) not in (None, allowed):
        raise DataError(
            f"{path}: {name} is {repr(found)[:40]}, which changes the vectors; only {allowed} is supported."
        )


def _check_lower_case(files: CheckpointFiles) -> None:
    """Raise DataError where sentence-transformers makes letters small before a tokenizer that does not."""
    path = beside_body(files.path)
    if read_object(path).get("do_lower_case") and files.vocabulary:
        normaliser = given_tokenizer(files.vocabulary).normalizer
        if normaliser is None or normaliser.normalize_str("A") == "A":
            raise DataError(
                f"{path}: do_lower_case is true, but {files.vocabulary.name} keeps capitals, so the vectors would be others; set "
                "it to false, and give texts in small letters."
            )


def _check_ends(files: CheckpointFiles, config: BodyConfig) -> None:
    """Raise DataError where other tokens are put around a text than ours: by a ``tokenizer.json`` that is taken as it is, or by
    the tokenizer of another kind of body."""
    settings = files.path / "tokenizer_config.json"
    named = read_object(settings).get("tokenizer_class")
    if config.kind == "t5" and str(named).startswith("Bert"):
        raise DataError(
            f"{settings}: tokenizer_class is {named}, and the body is T5; only T5's tokens around a text are supported."
        )
    if named in _AS_IT_IS and files.vocabulary:
        words = given_tokenizer(files.vocabulary)
        special = special_ids(words)
        ends = [special.sep] if config.kind == "t5" or special.cls == NO_TOKEN else [special.cls, special.sep]
        if (found := words.encode("")).ids != ends:
            expected = [words.id_to_token(number) for number in ends]
            raise DataError(
                f"{files.vocabulary}: an empty text is read as {found.tokens}; expected {expected}: other tokens around a text "
                "change the vectors, and are not supported."
            )


def _reading(folder: Path, files: CheckpointFiles, config: BodyConfig) -> Reading:
    body = files.path
    _refuse_other_than(None, folder / SETTINGS, "truncate_dim")
    _refuse_other_than("right", body / "tokenizer_config.json", "truncation_side")
    for name, found in read_object(beside := beside_body(body)).items():
        if name in _NOT_READ and found and not (isinstance(found, dict) and _HARMLESS.issuperset(found)):
            raise DataError(f"{beside}: {name} may change the vectors, and is not supported.")
    _check_lower_case(files)
    _check_ends(files, config)
    said = read_said(folder, body)
    most = said.lengths.get("max_seq_length")
    lengths = Reading.of(config, *(said.lengths.get(name, most) for name in ("query_length", "document_length")))
    passage = said.prompts.get("document") or said.prompts.get("passage") or ""
    return replace(lengths, query_prompt=said.prompts.get("query") or "", passage_prompt=passage)
