"""A small data set in BEIR's layout, made of the demo's questions and corpus: to try a comparison on one's own corpus."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from pretrieve.base.arguments import required
from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import ConfigError
from pretrieve.benchmarks.official.squad_json import squad_paragraphs
from pretrieve.corpora.beir_documents import Document, text_id, write_documents, write_questions
from pretrieve.corpora.tables import read_rows
from pretrieve.tasks.collection_tables import SPLITS


def passages(corpus: Path) -> Iterator[Document]:
    """The passages of a corpus of the workflow, with the titles of their articles."""
    titles = [title for (title,) in read_rows(corpus / "articles.parquet", ["title"])]
    for article, text in read_rows(corpus / "passages.parquet", ["article_id", "text"]):
        yield Document(text_id(text), titles[article], text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    questions = code_file("resources/questions")
    parser.add_argument("--questions", type=Path, default=questions, help="train, dev and test.json")
    parser.add_argument(
        "--corpus", type=Path, help="directory of a corpus: further documents, which answer no question"
    )
    parser.add_argument("--documents", type=int, default=5000, help="at most this many (default 5000)")
    parser.add_argument("--without-train", action="store_true", help="omit the train split")
    required(parser, Path, out="")


def main(args: argparse.Namespace) -> None:
    if args.documents < 1:
        raise ConfigError(f"--documents is {args.documents}; expected 1 or more.")
    documents: dict[str, Document] = {}
    questions: dict[str, dict[str, str]] = {}
    judgements: dict[str, list[tuple[str, str]]] = {}
    for split in SPLITS:
        questions[split], judgements[split] = {}, []
        for paragraph in squad_paragraphs(args.questions / f"{split}.json"):
            document = Document(text_id(paragraph.context), paragraph.article, paragraph.context)
            documents[document.doc_id] = document
            for question in paragraph.questions:
                questions[split][question.id] = question.text
                judgements[split].append((question.id, document.doc_id))
    if args.documents < len(documents):
        raise ConfigError(
            f"--documents is {args.documents}; the questions are about {len(documents)}; expected at least that."
        )
    for document in passages(args.corpus) if args.corpus else ():
        if len(documents) == args.documents:
            break
        documents.setdefault(document.doc_id, document)
    if args.without_train:
        del questions["train"], judgements["train"]
        (args.out / "qrels/train.tsv").unlink(missing_ok=True)
    # In the order of their ids, which are hashes: nothing can be learned from where an answer stands.
    count = write_documents(args.out / "corpus.jsonl", (documents[key] for key in sorted(documents)))
    write_questions(args.out, questions, judgements)
    counts = ", ".join(f"{len(texts):,} {split}" for split, texts in questions.items())
    print(f"{args.out}: {count:,} documents, questions: {counts}")
