"""The model card of an exported retriever: recipe, data, scores, how to use; from the files alone.

The recipe, the encoder's pre-training and the counts are those of ``pretrieve.json``; scores are those of metrics files
(docs/architecture.md, Metrics), each with the run it was computed from. Where training began with a published
encoder, the ``README.md`` next to its weights says its name (first heading), licence and data (front matter in YAML,
https://huggingface.co/docs/hub/model-cards).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.encoder import Encoder
from pretrieve.models.joint import JointEncoder

#: Characters of a card that are read; the front matter is at its beginning.
_LONGEST = 1 << 16


@dataclass(frozen=True)
class BaseModel:
    """start: as the configuration names it; name, licence, datasets: as its card says, '' and () where it says nothing."""

    start: str
    name: str
    licence: str
    datasets: tuple[str, ...]

    @property
    def hub_id(self) -> str:
        """``OWNER/NAME`` of a model of the hub, '' for others."""
        return self.start.removeprefix("hub:").partition("@")[0] if self.start.startswith("hub:") else ""


def read_base(directory: Path, start: str) -> BaseModel:
    """What the card in ``directory`` says; a directory without one, or with one that cannot be read, says nothing."""
    import yaml

    card = Path(directory) / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace")[:_LONGEST] if card.is_file() else ""
    front, _, body = text[4:].partition("\n---") if text.startswith("---\n") else ("", "", text)
    try:
        said = yaml.safe_load(front)
    except yaml.YAMLError:
        said = None
    said = said if isinstance(said, dict) else {}
    title = next((line[2:].strip() for line in body.splitlines() if line.startswith("# ")), "")
    datasets = said.get("datasets")
    return BaseModel(
        start,
        _plain(title),
        _plain(said.get("license")),
        tuple(map(_plain, datasets or ())) if isinstance(datasets, list) else (),
    )


def base_of(given: str) -> BaseModel | None:
    """Of the option ``--base START=DIR``; None for ''."""
    start, equals, directory = given.rpartition("=")
    if given and not (start and equals):
        raise ConfigError(f"--base {given!r}: expected START=DIR, such as hub:OWNER/NAME=data/hub/OWNER--NAME.")
    return read_base(Path(directory), start) if given else None


def _plain(value: Any) -> str:
    """A short value on one line; '' for none."""
    return " ".join(str(value).split())[:200] if isinstance(value, str | int | float) else ""


#: Keys of ``pretrieve.json`` that other sections of the card have, or that are long and say little.
_ELSEWHERE = ("encoder", "finetuning", "body", "files", "joint", "validation")


@dataclass(frozen=True)
class CardFacts:
    """What a card says in addition to the retriever's own files.

    metrics: metrics files of this retriever; licences: lines about the training data; base: the published encoder that its
    training began with; search: how ``pretrieve search`` uses the directory (:mod:`pretrieve.retrieval.deployment`).
    """

    metrics: Sequence[Path] = ()
    licences: Sequence[str] = ()
    base: BaseModel | None = None
    search: str = ""


def model_card(
    about: Mapping[str, Any],
    config: Mapping[str, Any],
    lengths: Mapping[str, int],
    two_towers: bool,
    encoder: Encoder | JointEncoder,
    facts: CardFacts,
) -> str:
    """Markdown with the front matter of the Hugging Face hub.

    about: the retriever's ``pretrieve.json``; config: of config_sentence_transformers.json; lengths: tokens by side;
    encoder: the document tower.

    Raises DataError when a metrics file is missing or is none.
    """
    size, objective = encoder.config, about.get("encoder", {}).get("objective", {})
    name = objective.get("name", "") if isinstance(objective, Mapping) else str(objective)
    front = ["---", "library_name: sentence-transformers", "pipeline_tag: sentence-similarity", "tags:"]
    front += ["- sentence-transformers", "- sentence-similarity", "- feature-extraction", "- dense-retrieval"]
    # What began with random weights has no base, whatever others of its run have.
    base = facts.base if about.get("encoder", {}).get("start") else None
    if facts.licences or base:
        front.append(f"license: {base.licence if base and re.fullmatch('[a-z0-9.-]+', base.licence) else 'other'}")
    front += [f"base_model: {base.hub_id}"] if base and base.hub_id else []
    front += ["---", ""]
    towers = (
        "two towers, one for queries and one for documents" if two_towers else "one tower for queries and documents"
    )
    lines = [
        "# Dense retriever",
        "",
        f"A dual encoder with {towers}: {size.kind}, {size.layers} layers of {size.hidden}, "
        f"{'first state' if encoder.pooling == 'cls' else 'mean of the states'}, head `{encoder.head}`, vectors of "
        f"{encoder.dim} numbers, compared by {'cosine' if encoder.similarity == 'cosine' else 'dot product'}."
        + (f" Pre-trained with `{name}`." if name and name != "none" else ""),
    ]
    if isinstance(encoder, JointEncoder) and encoder.parts == "both":
        lines += [
            "",
            "**This is the [CLS] part of a joint representation alone**: the scores below are those of both parts.",
        ]
    own = {key: value for key, value in about.items() if key not in _ELSEWHERE}
    sections = {
        "Use": [*_use(config, lengths), *(["", facts.search] if facts.search else [])],
        "What its training has seen": _seen(about, name, base, facts.licences),
        "Recipe": _table(about.get("finetuning", {}), "Not recorded: not fine-tuned here."),
        "Encoder": _table({**about.get("encoder", {}), "body": about.get("body", {})}, "Not recorded."),
        "Data": _table(own, "Not recorded."),
        "Scores": _scores(facts.metrics),
    }
    for title, section in sections.items():
        lines += ["", f"## {title}", "", *section]
    return "\n".join([*front, *lines]) + "\n"


def _use(config: Mapping[str, Any], lengths: Mapping[str, int]) -> list[str]:
    prompts = config["prompts"]
    said = [f"`{text}` in front of every {side}" for side, text in prompts.items() if text]
    return [
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        'model = SentenceTransformer("path/to/this/directory")  # sentence-transformers 6 or later',
        'queries = model.encode_query(["where do anchors hold?"])',
        'documents = model.encode_document(["An anchor holds a boat to the bed of the sea."])',
        "scores = model.similarity(queries, documents)",
        "```",
        "",
        f"Queries are cut to {lengths['query']} tokens and documents to {lengths['document']}, special ones included. "
        + (f"Prompts: {', '.join(said)}." if said else "There are no prompts.")
        + " A sentence in its passage is a pair: `encode_document([(sentence, passage)])`. `encode` knows no side; use the other "
        "two.",
    ]


def _seen(about: Mapping[str, Any], objective: str, base: BaseModel | None, licences: Sequence[str]) -> list[str]:
    """The base with its data and licence, the texts of pre-training, the questions of fine-tuning, and their licences."""
    lines = []
    if base is None:
        lines.append("- **Base model**: none is recorded.")
    else:
        named = f"{base.name} (`{base.start}`)" if base.name else f"`{base.start}`"
        lines.append(f"- **Base model**: {named}, licence {base.licence or 'not stated in its card'}.")
        data = ", ".join(f"`{name}`" for name in base.datasets)
        read = f"its card names {data}" if data else "its card does not say which"
        lines.append(
            f"- **Data of the base model**: {read}. Texts or questions of yours that are among them are not new to it."
        )
    tokens = about.get("encoder", {}).get("tokens")
    if objective and objective != "none":
        lines.append(
            f"- **Pre-training here**: `{objective}`{f' on {tokens:,} tokens of the corpus' if tokens else ''}."
        )
    else:
        lines.append("- **Pre-training here**: none.")
    if about.get("finetuning") and about.get("steps", 1):
        numbers = [(about.get("training_questions"), "training questions"), (about.get("steps"), "steps")]
        counted = ", ".join(f"{number:,} {what}" for number, what in numbers if number is not None)
        lines.append(f"- **Fine-tuning here**: {counted or 'examples that are not counted'}.")
    else:
        lines.append("- **Fine-tuning here**: none.")
    lines += [f"- **Licence of the data**: {line}" for line in licences]
    if not licences:
        lines.append(
            "- **Licences of the data** are not recorded; those of the corpus and of the training questions hold."
        )
    return lines


def _table(values: Mapping[str, Any], without: str) -> list[str]:
    """Names and values, nested ones as ``a.b``."""
    rows: list[tuple[str, str]] = []

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key in sorted(value):
                add(f"{prefix}.{key}" if prefix else str(key), value[key])
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            rows.append((prefix, shown.replace("|", "\\|")))

    add("", values)
    return ["| | |", "|---|---|", *[f"| `{name}` | {value} |" for name, value in rows]] if rows else [without]


def _scores(paths: Sequence[Path]) -> list[str]:
    lines: list[str] = []
    for path in paths:
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
            means = {str(name): float(value) for name, value in record["metrics"].items()}
            run, queries, candidates = record["run"], record["n_queries"], record["n_candidates"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: no metrics file ({type(error).__name__} {error}); run evaluate again.") from None
        lines += [f"`{run}`: {queries:,} queries, {candidates:,} candidates.", ""]
        lines += ["| metric | value |", "|---|---|", *[f"| {name} | {means[name]:.4f} |" for name in sorted(means)], ""]
    return lines[:-1] if lines else ["Not measured."]
