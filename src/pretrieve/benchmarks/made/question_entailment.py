"""Does a sentence answer a question? QNLI's construction, on any question set in SQuAD's format.

Wang et al. 2019 (*GLUE*, §2.3) turn SQuAD into sentence pairs: a question with each sentence of its paragraph, without
the pairs of little lexical overlap; the label says whether the sentence holds the answer, and the set is balanced. Here
each question gives two pairs: the sentence with its (first) answer, and of the paragraph's other sentences the one that
shares most content words with the question, the earlier one when several do. A content word is a token of letters or digits that
is not a stop word (gensim's list of 337), compared by its Porter stem. A sentence in which an answer's words stand too is not a
negative. A question without a negative is omitted and counted.

The files' own split is kept; a tenth of the training file's articles (by examples) validates.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

from gensim.parsing.porter import PorterStemmer
from gensim.parsing.preprocessing import STOPWORDS

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.squad_json import Question, squad_paragraphs
from pretrieve.corpora.sentences import sentence_of, sentence_spans
from pretrieve.tasks.example_splits import hold_out
from pretrieve.tasks.example_task import Example, ExampleContents
from pretrieve.tasks.splits import Target

#: In the order of GLUE's labels.
CLASSES = ("entailment", "not_entailment")
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_stemmer = PorterStemmer()


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Porter stem of the lower-cased word without a possessive ending."""
    return _stemmer.stem(re.sub(r"['’]s?$", "", word.lower()))


def content_words(text: str) -> set[str]:
    """Stems of the words that are not stop words."""
    return {stem(word) for word in WORD.findall(text) if word.lower() not in STOPWORDS and len(word) > 1}


def hardest_other(question: Question, sentences: list[str], answered: set[int]) -> int | None:
    """Number of the sentence that is most like the question and holds no answer; None when there is none."""
    answers = [answer.text.casefold() for answer in question.answers]
    others = [
        number
        for number, text in enumerate(sentences)
        if number not in answered and not any(answer in text.casefold() for answer in answers)
    ]
    words = content_words(question.text)
    return max(others, key=lambda number: (len(words & content_words(sentences[number])), -number), default=None)


def build_question_entailment(train: Path, test: Path, dev: Path | None, target: Target) -> dict[str, Any]:
    """Write the task and return its statistics. Ids are ``{question id}-{class}``. Raises DataError when a file is not SQuAD
    v1.1, or an article or question id is in two files, and ConfigError when a size cannot be drawn."""
    made = ExampleContents()
    article_of: dict[str, str] = {}
    home: dict[str, Path] = {}
    contexts: dict[str, int] = {}
    left_out = 0
    for part, path in (("train", train), ("test", test), ("dev", dev)):
        for paragraph in squad_paragraphs(path) if path else ():
            if home.setdefault(paragraph.article, path) != path:
                raise DataError(
                    f"{path}: article '{paragraph.article}' is in {home[paragraph.article]} too; "
                    "each belongs to one file."
                )
            spans = sentence_spans(paragraph.context)
            sentences = [paragraph.context[start:end] for start, end in spans]
            context = contexts.setdefault(paragraph.context, len(contexts))
            for question in paragraph.questions:
                answered = {sentence_of(spans, answer.start) for answer in question.answers}
                negative = hardest_other(question, sentences, answered)
                if negative is None:
                    left_out += 1
                    continue
                row = made.row(f"q{question.id}", question.text)
                positive = sentence_of(spans, question.answers[0].start)
                for name, number in zip(CLASSES, (positive, negative), strict=True):
                    example_id = f"{question.id}-{name}"
                    sentence = made.row(f"s{context}-{number}", sentences[number])
                    made.add(Example(example_id, [row, sentence], [CLASSES.index(name)]), part)
                    article_of[example_id] = paragraph.article
    trains = [example_id for example_id, part in made.part_of.items() if part == "train"]
    held = hold_out(Counter(article_of[example_id] for example_id in trains), target.seed)
    made.part_of |= {example_id: held[article_of[example_id]] for example_id in trains}
    about = {"task": "question entailment (QNLI's construction)", "questions_left_out": left_out, "seed": target.seed}
    return made.write("classification", target, about, classes=CLASSES)
