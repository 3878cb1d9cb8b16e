"""A retriever as a directory that ``sentence_transformers.SentenceTransformer(directory)`` loads, with the same vectors.

==============================  ==========================================================================================
one tower                       what it does in sentence-transformers
==============================  ==========================================================================================
config.json, model.safetensors  the body, for ``AutoModel``
tokenizer.json, …               the tokenizer; its template gives our sequences, one separator between two texts
sentence_bert_config.json       ``query_length``, ``document_length``: where ``encode_query`` and ``encode_document`` cut
1_Pooling/                      state of the first token, or mean of all, special ones included
2_Dense/, …                     the projection: Dense and LayerNorm modules; none for head ``none``
N_Normalize/                    for cosine
modules.json                    the list of these
config_sentence_transformers.…  prompts and the similarity
README.md                       the model card (:mod:`pretrieve.retrieval.model_card`)
==============================  ==========================================================================================

Two towers are the two routes of a ``Router``: ``query_0_Transformer/``, ``query_1_Pooling/``, …, ``document_0_Transformer/``, …,
listed in ``router_config.json``. A projection that both share is one module. The files are written here, by the format of
sentence-transformers 6 (base/model.py, base/modules/*.py), which need not be installed.

**ε of LayerNorm.** That of sentence-transformers' module is 1e-5 and cannot be set. With ε another one in the projection, the
Dense layer in front of it is multiplied by ``s = √(1e-5 / ε)``, and nothing changes::

    LN_1e-5(s·x) = s·(x − mean) / √(s²·var + 1e-5) = (x − mean) / √(var + ε) = LN_ε(x)

**A sentence and its passage** are a pair, ``encode_document([(sentence, passage)])``. Of pairs that are too long,
sentence-transformers cuts the longer text first, so a sentence gets half of what is left for both; here it gets
half of the whole length (:class:`~pretrieve.text.windows.PassageWindows`). Both are the same for sentences up to that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, processors
from torch import nn

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.models.dual_encoder import core
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import shown_config, to_saved_names, write_tensors
from pretrieve.models.joint import JointEncoder
from pretrieve.models.projection import NormedProjection, OrqaProjection
from pretrieve.models.retriever_files import load_retriever
from pretrieve.models.sentence_modules import EPS, Reading
from pretrieve.raw.checkpoint_files import OWN
from pretrieve.retrieval.model_card import CardFacts, model_card
from pretrieve.text.vocabulary import NO_TOKEN, given_tokenizer, special_ids, vocabulary_sha256

#: The version whose files these are; an older one does not know ``query_length``.
VERSION = "6.2.0"
_BASE, _SENTENCE = "sentence_transformers.base.modules", "sentence_transformers.sentence_transformer.modules"
_TYPES = {
    "Transformer": f"{_BASE}.transformer.Transformer",
    "Router": f"{_BASE}.router.Router",
    "Dense": f"{_BASE}.dense.Dense",
    "Normalize": f"{_BASE}.normalize.Normalize",
    "Pooling": f"{_SENTENCE}.pooling.Pooling",
    "LayerNorm": f"{_SENTENCE}.layer_norm.LayerNorm",
}
#: Names of the input and the output of a module that maps vectors to vectors.
_VECTORS = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
_IDENTITY, _TANH = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
#: Bodies whose AutoModel has a pooler that no weights are there for.
_POOLER = ("bert", "roberta", "ernie")


@dataclass(frozen=True)
class Module:
    """One module: its kind, ``config.json`` and tensors; of: what it stands for, so that a shared one is written once."""

    kind: str
    config: dict
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    of: object = None


def export(
    retriever: Path, tokenizer: Path, out: Path, reading: Reading, facts: CardFacts | None = None, part: str = ""
) -> None:
    """Write ``out`` (the module's table) from a retriever's directory.

    tokenizer: ``tokenizer.json`` (or ``vocab.txt``) that the retriever was trained with; reading: tokens of a query and a passage
    that are read, special ones included, and the text in front of each; facts: what the card says in addition to the retriever's
    own files; part: ``cls``: of a joint representation, export that part alone.

    Raises ConfigError when sentence-transformers cannot hold the retriever, a length is too large for its body, or ``out`` is a
    retriever or an encoder, and DataError when a file is damaged, or the tokenizer is another one.
    """
    retriever, out = Path(retriever), Path(out)
    if (out / OWN).exists():
        raise ConfigError(
            f"{out}: is a retriever or an encoder, whose files would be replaced; give the export a directory of its own."
        )
    dual, about = load_retriever(retriever)
    dual.eval()
    words = given_tokenizer(tokenizer)
    found, wanted = vocabulary_sha256(words), about.get("vocabulary_sha256")
    if found != wanted:
        raise DataError(
            f"{tokenizer}: vocabulary {found[:12]}, but {retriever} was made with {str(wanted)[:12]}; give its tokenizer."
        )
    document, query = core(dual.document), core(dual.query)
    lengths = {"query": reading.query_length, "document": reading.passage_length}
    _check(retriever, document, part, max(lengths.values()))
    out.mkdir(parents=True, exist_ok=True)
    routes = {"query": query, "document": document} if dual.separate else {}
    if routes:
        _write_router(out, routes, words, lengths)
    else:
        _write_modules(out, document, words, lengths)
    config = {
        "__version__": {"sentence_transformers": VERSION},
        "requirements": {"sentence-transformers": ">=6"},
        "model_type": "SentenceTransformer",
        "prompts": {"query": reading.query_prompt, "document": reading.passage_prompt},
        "default_prompt_name": None,
        "similarity_fn_name": document.similarity,
    }
    write_json(out / "config_sentence_transformers.json", config)
    card = model_card(about, config, lengths, bool(routes), document, facts or CardFacts())
    (out / "README.md").write_text(card, encoding="utf-8")


def _check(retriever: Path, encoder: Encoder | JointEncoder, part: str, length: int) -> None:
    if part not in ("", "cls"):
        raise ConfigError(f"part {part!r} is not allowed; choose 'cls', or '' for everything.")
    if isinstance(encoder, JointEncoder):
        if encoder.parts == "ot":
            raise ConfigError(
                f"{retriever}: its vectors are words alone (parts: ot), and sentence-transformers has no module for them."
            )
        if encoder.parts == "both" and part != "cls":
            raise ConfigError(
                f"{retriever}: half of its joint score is lexical, and sentence-transformers has no module for that. Ask for "
                "--part cls to export the [CLS] part alone; its scores then differ from the measured ones."
            )
    elif part:
        raise ConfigError(f"{retriever}: has no parts; --part is for joint representations.")
    if encoder.config.kind == "bow-mlp":
        raise ConfigError(f"{retriever}: sentence-transformers cannot hold a BoW-MLP body; export a Transformer or T5.")
    if encoder.config.kind == "transformer" and length > encoder.config.max_positions:
        raise ConfigError(f"length {length}, but the body of {retriever} has {encoder.config.max_positions} positions.")


def projection_modules(projection: nn.Module) -> list[Module]:
    """The Dense and LayerNorm modules of a head (:mod:`pretrieve.models.projection`).

    Raises ConfigError for a module that is not one of the heads.
    """
    if isinstance(projection, nn.Identity):
        return []
    if isinstance(projection, nn.Linear):
        return [_dense(projection, _IDENTITY)]
    if isinstance(projection, NormedProjection):
        return _normed(projection.linear, projection.norm)
    if isinstance(projection, OrqaProjection):
        return [_dense(projection.pooler, _TANH), *_normed(projection.dense, projection.norm)]
    raise ConfigError(f"head {type(projection).__name__} has no modules in sentence-transformers.")


def _dense(linear: nn.Linear, activation: str, scale: float = 1.0) -> Module:
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": activation,
        **_VECTORS,
    }
    tensors = {f"linear.{name}": tensor * scale for name, tensor in linear.state_dict().items()}
    return Module("Dense", config, tensors, linear)


def _normed(linear: nn.Linear, norm: nn.LayerNorm) -> list[Module]:
    """The module's docstring says why there is a factor."""
    tensors = {f"norm.{name}": tensor for name, tensor in norm.state_dict().items()}
    layer = Module("LayerNorm", {"dimension": norm.normalized_shape[0]}, tensors, norm)
    return [_dense(linear, _IDENTITY, math.sqrt(EPS / norm.eps)), layer]


def _behind_the_body(encoder: Encoder | JointEncoder) -> list[Module]:
    pooling = {"embedding_dimension": encoder.config.hidden, "pooling_mode": encoder.pooling, "include_prompt": True}
    modules = [Module("Pooling", pooling), *projection_modules(encoder.projection)]
    if encoder.similarity == "cosine":
        modules.append(Module("Normalize", _VECTORS))
    return modules


def _write_module(directory: Path, module: Module) -> None:
    write_json(directory / "config.json", module.config)
    if module.tensors:
        write_tensors(module.tensors, directory / "model.safetensors")


def _write_modules(out: Path, encoder: Encoder | JointEncoder, words: Tokenizer, lengths: dict[str, int]) -> None:
    _write_body(out, encoder, words, lengths)
    listed = [("Transformer", "")]
    for number, module in enumerate(_behind_the_body(encoder), start=1):
        listed.append((module.kind, f"{number}_{module.kind}"))
        _write_module(out / listed[-1][1], module)
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": _TYPES[kind]}
        for number, (kind, path) in enumerate(listed)
    ]
    _write_list(out / "modules.json", entries)


def _write_router(
    out: Path, routes: Mapping[str, Encoder | JointEncoder], words: Tokenizer, lengths: dict[str, int]
) -> None:
    types: dict[str, str] = {}
    structure: dict[str, list[str]] = {}
    written: dict[int, str] = {}
    for route, encoder in routes.items():
        body = f"{route}_0_Transformer"
        _write_body(out / body, encoder, words, {name: lengths[route] for name in lengths})
        types[body], structure[route] = _TYPES["Transformer"], [body]
        for number, module in enumerate(_behind_the_body(encoder), start=1):
            name = f"{route}_{number}_{module.kind}"
            if module.of is not None:
                name = written.setdefault(id(module.of), name)
            structure[route].append(name)
            if name not in types:
                types[name] = _TYPES[module.kind]
                _write_module(out / name, module)
    parameters = {"default_route": "document", "allow_empty_key": True, "route_mappings": {}}
    write_json(out / "router_config.json", {"types": types, "structure": structure, "parameters": parameters})
    _write_list(out / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": _TYPES["Router"]}])


def _write_list(path: Path, entries: list[dict]) -> None:
    path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def _write_body(directory: Path, encoder: Encoder | JointEncoder, words: Tokenizer, lengths: dict[str, int]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    config, state = encoder.config, encoder.body.state_dict()
    first = special_ids(words).pad + 1
    if config.position_offset not in (0, first):
        # transformers counts RoBERTa's positions from the padding's id + 1, and takes a token of that id for padding.
        table = state["positions.weight"][config.position_offset :]
        state["positions.weight"] = torch.cat([table.new_zeros(first, table.shape[1]), table])
        config = replace(config, position_offset=first)
    write_json(directory / "config.json", shown_config(config))
    write_tensors(to_saved_names(state, config), directory / "model.safetensors")
    longest = max(lengths.values())
    module = {
        "transformer_task": "feature-extraction",
        "max_seq_length": longest,
        "query_length": lengths["query"],
        "document_length": lengths["document"],
        "do_lower_case": False,
    }
    if config.kind == "transformer" and config.family in _POOLER:
        module["model_kwargs"] = {"add_pooling_layer": False}
    write_json(directory / "sentence_bert_config.json", module)
    _write_tokenizer(
        directory, words, longest, config.kind == "t5", config.kind == "transformer" and config.segments > 1
    )


def _write_tokenizer(directory: Path, tokenizer: Tokenizer, longest: int, without_cls: bool, segments: bool) -> None:
    """The tokenizer with our sequences as its template (:mod:`pretrieve.text.packing`), for ``AutoTokenizer``."""
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    ids = special_ids(tokenizer)
    names = {name: tokenizer.id_to_token(number) for name, number in vars(ids).items() if number != NO_TOKEN}
    first = [] if without_cls or ids.cls == NO_TOKEN else [names["cls"]]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*first, "$A", names["sep"]],
        pair=[*first, "$A", names["sep"], "$B:1", f"{names['sep']}:1"],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in {*first, names["sep"]}],
    )
    # AutoTokenizer looks for every special token in the text. Ours does so only for those that the file lists as added: with none
    # of them "[SEP]" in a text is three words, here and there.
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    declared = {f"{name}_token": token for name, token in names.items() if not added or token in added or name == "pad"}
    if not first:
        declared["eos_token"] = names["sep"]
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
        "padding_side": "right",
        "truncation_side": "right",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not added,
        **declared,
    }
    write_json(directory / "tokenizer_config.json", config)
    write_json(directory / "special_tokens_map.json", declared)
