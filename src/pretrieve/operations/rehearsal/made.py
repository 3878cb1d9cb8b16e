"""Made files by the names of the sources that they substitute for, packed as their publishers pack them. Here are
pre-training texts and vocabularies (a dump of Wikipedia, BookCorpus, BERT's ``vocab.txt``), and tasks of examples in the layouts
that :mod:`pretrieve.benchmarks.official` reads (STS benchmark, Wikipedia sections, GLUE, MIND): enough training examples for one
in a hundred to be held out.

Made checkpoints are BERT and T5 v1.1 in the layout of transformers, as deep as the published ones and very narrow, with weights
drawn from a seed. BERT's vocabulary is that of the made ``vocab.txt``; T5's is a small sentencepiece-like one (Unigram, ``▁`` at
the beginning of a word) in ``tokenizer.json``, for T5 1.0 and v1.1 share theirs.
"""

import bz2
import gzip
import random
import re
import string
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.base.files import whole_file, write_json, write_text
from pretrieve.models.config import BodyConfig
from pretrieve.operations.rehearsal import retrieval
from pretrieve.operations.rehearsal.world import BUILDINGS, SECTIONS, Building, paragraphs, sentence, to_lines, words
from pretrieve.workflow.rehearsal import OWNER, WIDTH

#: Records of a training file, and of any other.
TRAIN, OTHER = 600, 40


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def pairs(name: str, count: int) -> bytes:
    """``stsb-en-*.csv``: two sentences and a score from 0 to 5, separated by commas."""
    rng = random.Random(name)
    rows = []
    for number in range(count):
        first, second = sentence(rng), sentence(rng)
        score = number % 6
        rows.append((_quoted(first), _quoted(first if score == 5 else second), float(score)))
    return to_lines(rows, ",")


def triplets(name: str, count: int) -> bytes:
    """``train.csv`` and the like: pivot, positive of the same section, negative of another section of the page."""
    rng = random.Random(name)
    rows: list[Iterable[object]] = [("Sentence1", "Sentence2", "Sentence3")]
    for _ in range(count):
        page = rng.choice(BUILDINGS)
        same, other = rng.sample(SECTIONS, 2)
        first, second = rng.sample(_sentences(page, same), 2)
        rows.append([*map(_quoted, (first, second, rng.choice(_sentences(page, other))))])
    return to_lines(rows, ",")


def _sentences(page: Building, section: str) -> list[str]:
    return [one.strip() + "." for text in paragraphs(page, section) for one in text.split(".") if one.strip()]


def glue(task: str, name: str, count: int) -> bytes:
    """A labelled file of GLUE, with the columns of its header."""
    rng = random.Random(f"{task} {name}")
    header, labels = {
        "sst-2": ("sentence label", "0 1"),
        "qqp": ("id qid1 qid2 question1 question2 is_duplicate", "0 1"),
        "qnli": ("index question sentence label", "entailment not_entailment"),
        "mnli": (
            "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse "
            "sentence1 sentence2 label1 gold_label",
            "entailment neutral contradiction",
        ),
    }[task]
    columns, classes = header.split(), labels.split()
    rows: list[Iterable[object]] = [columns]
    for number in range(count):
        label = classes[number % len(classes)]
        fields = {column: str(number) for column in columns}
        fields |= {column: sentence(rng) for column in columns if column.rstrip("12") in ("sentence", "question")}
        fields |= {"label": label, "label1": label, "gold_label": label, "is_duplicate": label}
        rows.append([fields[column] for column in columns])
    return to_lines(rows)


def news() -> bytes:
    """``news.tsv``: an article for each building."""
    return to_lines(
        (f"N{b.number}", "news", "towns", f"The {b.title} opens", b.sentences[0], b.url, "[]", "[]") for b in BUILDINGS
    )


def behaviors(name: str, count: int) -> bytes:
    """``behaviors.tsv``: what a user clicked before, and which of four articles then."""
    rng = random.Random(f"mind {name}")
    rows = []
    for number in range(count):
        seen = rng.sample(range(len(BUILDINGS)), 8)
        shown = [f"N{article}-{int(place == number % 4)}" for place, article in enumerate(seen[4:])]
        history = " ".join(f"N{article}" for article in seen[:4])
        rows.append((number + 1, f"U{name}{number}", "11/15/2019 8:55:22 AM", history, " ".join(shown)))
    return to_lines(rows)


#: What the log of every made file and checkpoint says.
NOTICE = "made up for a rehearsal, not the publisher's: its checksum is not asked for, and scores on it mean nothing"
#: BERT's special tokens at BERT's places would need 100 unused entries; what counts is that they are there.
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def dump() -> bytes:
    """A MediaWiki export: a page for each building, with sections and links to other pages."""
    pages = []
    for building in BUILDINGS:
        rng, text = random.Random(f"links {building.number}"), []
        for section in SECTIONS:
            text += [f"== {section} =="] if section else []
            for paragraph in paragraphs(building, section):
                linked = rng.sample([other.title for other in BUILDINGS if other is not building], 2)
                text += [f"{paragraph} It stands near [[{linked[0]}]] and [[{linked[1]}]] in the north.", ""]
        number = building.number + 1
        pages.append(
            f"<page><title>{escape(building.title)}</title><ns>0</ns><id>{number}</id><revision><id>{number}</id>"
            f'<text xml:space="preserve">{escape(chr(10).join(text))}</text></revision></page>'
        )
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">'
    return "\n".join([head, *pages, "</mediawiki>\n"]).encode()


def book(number: int) -> bytes:
    """One of BookCorpus's two files: a sentence a line, in lower case."""
    rng = random.Random(f"book {number}")
    return "".join(f"{sentence(rng).lower()}\n" for _ in range(600)).encode()


def vocabulary() -> list[str]:
    """BERT's special tokens, letters and digits alone and within words, and every word of the made texts."""
    letters = string.ascii_lowercase + string.digits
    marks = [*".,?!'-:;()=/\"_"]
    entries = [*SPECIAL, *letters, *marks, *(f"##{letter}" for letter in letters), *words()]
    return list(dict.fromkeys(entries))


def vocabulary_file() -> bytes:
    """``vocab.txt``: an entry a line."""
    return "".join(f"{entry}\n" for entry in vocabulary()).encode()


#: Name of a source → what makes its content.
FORMS: dict[str, Callable[[], bytes]] = {
    "enwiki-20181220": dump,
    "bookcorpus-1": lambda: book(1),
    "bookcorpus-2": lambda: book(2),
    "bert-vocabulary": vocabulary_file,
    **retrieval.FORMS,
    "mind-large-train-news": news,
    "mind-large-dev-news": news,
    "mind-large-train-behaviors": lambda: behaviors("train", TRAIN),
    "mind-large-dev-behaviors": lambda: behaviors("dev", OTHER),
}
for _split, _count in (("train", TRAIN), ("dev", OTHER), ("test", OTHER)):
    FORMS[f"stsb-{_split}"] = lambda split=_split, count=_count: pairs(f"sts {split}", count)
for _split, _count in (("train", TRAIN), ("validation", OTHER), ("test", OTHER)):
    FORMS[f"wiki-sections-{_split}"] = lambda split=_split, count=_count: triplets(f"sections {split}", count)
for _name, _task, _dev in (
    ("sst2", "sst-2", "dev"),
    ("qqp", "qqp", "dev"),
    ("qnli", "qnli", "dev"),
    ("mnli", "mnli", "dev-matched"),
    ("mnli", "mnli", "dev-mismatched"),
):
    FORMS[f"glue-{_name}-train"] = lambda task=_task: glue(task, "train", TRAIN)
    FORMS[f"glue-{_name}-{_dev}"] = lambda task=_task, dev=_dev: glue(task, dev, OTHER)


def make(name: str, out: Path) -> int:
    """Write the made file of a source, packed by the ending of ``out``; returns its size in bytes. Equal calls write equal files.
    Raises ConfigError for a source without a made substitute."""
    if name not in FORMS:
        raise ConfigError(
            f"source {name!r}: a rehearsal makes no substitute for it{nearest(name, FORMS)}; rehearse a scale whose data sets "
            f"have one (src/pretrieve/operations/rehearsal), or write its layout there. There are {len(FORMS)}."
        )
    content = FORMS[name]()
    if out.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif out.suffix == ".bz2":
        content = bz2.compress(content)
    with whole_file(out) as stream:
        stream.write(content)
    return len(content)


#: Part of a checkpoint's name → its layers; T5 v1.1 small, base, large, and BERT's.
T5_LAYERS = {"small": 8, "base": 12, "large": 24}
BERT_LAYERS = {"bert-base": 12, "minilm-l6": 6}


def make_checkpoint(start: str, out: Path) -> str:
    """Write the made checkpoint ``hub:rehearsal/NAME`` into the folder of ``out``, and ``out``, which says what it is; returns
    the family. Raises ConfigError for a start that is not a rehearsal's, or of a family that is not made."""
    name = start.removeprefix(f"hub:{OWNER}/").lower()
    if name == start.lower():
        raise ConfigError(f"start {start!r}: not one of a rehearsal; expected hub:{OWNER}/NAME.")
    folder = out.parent
    folder.mkdir(parents=True, exist_ok=True)
    t5 = re.search(r"t5[-_.0-9a-z]*?-(small|base|large)", name)
    bert = next((layers for part, layers in BERT_LAYERS.items() if part in name and "roberta" not in name), 0)
    if t5:
        _t5(folder, T5_LAYERS[t5[1]])
    elif bert:
        _bert(folder, bert)
    else:
        raise ConfigError(
            f"start {start!r}: no checkpoint of this family is made in a rehearsal; there are BERT-base, MiniLM-L6 and T5."
        )
    write_text(out, f"{start}: {NOTICE}\n")
    return "T5 v1.1" if t5 else "BERT"


def _bert(folder: Path, layers: int) -> None:
    """As bert-base-uncased has it: the body under ``bert.``, and the word head."""
    import torch

    entries = vocabulary()
    config, body = _body(vocabulary_size=len(entries), layers=layers)
    head = {
        "bias": torch.zeros(len(entries)),
        "transform.dense.weight": torch.eye(WIDTH),
        "transform.dense.bias": torch.zeros(WIDTH),
        "transform.LayerNorm.weight": torch.ones(WIDTH),
        "transform.LayerNorm.bias": torch.zeros(WIDTH),
    }
    saved = {f"bert.{name}": tensor for name, tensor in body.items()}
    _write(folder, config, saved | {f"cls.predictions.{name}": tensor for name, tensor in head.items()})
    (folder / "vocab.txt").write_bytes(vocabulary_file())


def _t5(folder: Path, layers: int) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = [*string.ascii_letters, *string.digits, *".,?!'-:;()/\""]
    pieces = ["<pad>", "</s>", "<unk>", "▁", *(f"▁{word}" for word in words()), *letters]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(place > 3)) for place, piece in enumerate(pieces)], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    _write(folder, *_body(kind="t5", vocabulary_size=tokenizer.get_vocab_size(), layers=layers, head_size=WIDTH // 2))
    tokenizer.save(str(folder / "tokenizer.json"))


def _body(**shape: Any) -> tuple[BodyConfig, dict[str, Any]]:
    """A narrow body, and its weights of seed 1 by the names in a checkpoint."""
    from pretrieve.models.encoder import Encoder
    from pretrieve.models.hf_format import to_saved_names

    config = BodyConfig(hidden=WIDTH, heads=2, feed_forward=WIDTH, **shape)
    return config, to_saved_names(Encoder(config, WIDTH, "mean", 1, "dot", "none").body.state_dict(), config)


def _write(folder: Path, config: BodyConfig, tensors: dict[str, Any]) -> None:
    from pretrieve.models.hf_format import shown_config, write_tensors

    write_json(folder / "config.json", shown_config(config))
    write_tensors(tensors, folder / "model.safetensors")
