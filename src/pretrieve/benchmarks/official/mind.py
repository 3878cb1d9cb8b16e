"""MIND, the Microsoft News Dataset: which of the shown articles does a user click? (Wu et al. 2020, *MIND: A
Large-scale Dataset for News Recommendation*.)

The format is that of https://github.com/msnews/msnews.github.io/blob/master/assets/doc/introduction.md; nothing is
quoted and there is no header:

* ``behaviors.tsv``: impression id, user id, time, history, impressions. The history is what the user clicked before,
  ids in the order of the clicks, and may be empty. The impressions are ``N129416-0 N26703-1 …``: article and click.
* ``news.tsv``: news id, category, subcategory, title, abstract, URL, entities of the title, entities of the abstract.

Paper ``seed_encoder`` §4.4 describes a user by the titles that they clicked, and a candidate by "the concatenation of
their titles and snippets"; the snippet is the abstract, for MIND has no other. The released command (SEED-Encoder,
MIND/MIND.md) has ``--field title``: ``candidate: title``. The paper measures on the public dev set, so **dev tests**. Of the
training impressions those of a share of the *users* validate and those of as many are dev (``held_out_share``, 1 % each).

Memory holds article ids and rows. An impression in which everything or nothing was clicked has neither a loss nor a value of
AUC; it is omitted and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.example_reading import Job, held_out
from pretrieve.raw.raw_text import read_columns
from pretrieve.tasks.click_statistics import ClickStatistics
from pretrieve.tasks.example_task import Example, ExampleTask, Text, write_example_task
from pretrieve.tasks.splits import draw_key

NEWS = ("news id", "category", "subcategory", "title", "abstract", "url", "title entities", "abstract entities")
BEHAVIORS = ("impression id", "user id", "time", "history", "impressions")
#: Article without a title and an abstract.
NOTHING = -1


class Article(NamedTuple):
    """Rows of an article's texts, as a candidate and as a title in a history; :data:`NOTHING` for a blank one."""

    candidate: int
    title: int


class NewsTable:
    """The articles of all files: ``of[file][news id]`` → :class:`Article`. One whose words differ between files has a text for
    each, and is counted."""

    def __init__(self, job: Job, candidate: str, counted: ClickStatistics) -> None:
        self.of: dict[str, dict[str, Article]] = {}
        self._job, self._candidate, self._counted, self._rows = job, candidate, counted, 0
        self._known: dict[str, tuple[int, Article]] = {}

    def texts(self, name: str, path: Path) -> Iterator[Text]:
        """The texts of one file in its order: of each article as a candidate, and its title where that is another text.

        Raises DataError when an id appears twice, a line has another number of fields, or their number is not the publisher's.
        """
        own = self.of[name] = {}
        for line, fields in read_columns(path, NEWS, warnings=self._job.warnings):
            news_id, title, abstract = fields[0], fields[3].strip(), fields[4].strip()
            if news_id in own:
                raise DataError(
                    f"{path}: line {line}: news id {news_id!r} appears twice; expected one line for each article."
                )
            if len(news_id.split()) != 1:
                raise DataError(f"{path}: line {line}: news id {news_id!r}; expected an id without blanks.")
            self._counted.article(name, title)
            key = draw_key(0, f"{title}\t{abstract}")
            known = self._known.get(news_id)
            if known is not None and known[0] == key:
                own[news_id] = known[1]
                continue
            text = title if self._candidate == "title" else f"{title} {abstract}".strip()
            text_id = news_id
            if known is not None:
                self._job.warnings.add("article with other words in another file", f"{path}, line {line}, {news_id}")
                text_id = f"{name}:{news_id}"
            if not title:
                self._job.warnings.add("article without a title", f"{path}, line {line}, {news_id}")
            candidate = heading = NOTHING
            if text:
                candidate, self._rows = self._rows, self._rows + 1
                yield Text(text_id, text)
            if title == text:
                heading = candidate
            elif title:
                heading, self._rows = self._rows, self._rows + 1
                yield Text(f"{text_id}/title", title)
            own[news_id] = Article(candidate, heading)
            self._known.setdefault(news_id, (key, own[news_id]))
        self._job.check_count(f"{name}_news", path, len(own), "articles")


def _clicked(path: Path, line: int, impressions: str) -> list[tuple[str, int]]:
    """(news id, 1 or 0) of each candidate."""
    found = []
    for shown in impressions.split():
        news_id, _, label = shown.rpartition("-")
        if label not in ("0", "1") or not news_id:
            raise DataError(
                f"{path}: line {line}: impression {shown!r}; expected a news id that ends in -1 (clicked) or -0. "
                "Without them this is MIND's test set, which has no labels: give the dev set instead."
            )
        found.append((news_id, int(label)))
    return found


def read_impressions(
    path: Path, articles: Mapping[str, Article], job: Job, name: str, counted: ClickStatistics
) -> Iterator[tuple[int, str, Example]]:
    """Line, user id and example of each impression of a file; ids are ``{name}-{impression id}``.

    Raises DataError for a line with another number of fields or without labels, an article that is not in ``articles``, or
    another number of impressions than the publisher's.
    """
    count = 0
    for line, (impression_id, user, _, history, impressions) in read_columns(path, BEHAVIORS, warnings=job.warnings):
        count += 1
        shown = _clicked(path, line, impressions)
        try:
            rows = [(articles[news_id].candidate, label) for news_id, label in shown]
            past = [articles[news_id].title for news_id in history.split()]
        except KeyError as error:
            raise DataError(
                f"{path}: line {line}: article {error.args[0]!r} is not in the news file '{name}_news'; expected "
                "behaviours and news of one folder of MIND."
            ) from None
        counted.impression(name, user, sum(label for _, label in shown), len(shown), len(past))
        rows = [(row, label) for row, label in rows if row != NOTHING]
        if len({label for _, label in rows}) < 2:
            kind = "impression left out, all or none of it was clicked"
            job.warnings.add(kind, f"{path}, line {line}")
            continue
        past = [row for row in past if row != NOTHING]
        example = Example(f"{name}-{impression_id}", [row for row, _ in rows], [label for _, label in rows], past)
        yield line, user, example
    job.check_count(name, path, count, "impressions")


def build_mind(
    files: Mapping[str, Path], job: Job, candidate: str = "title and abstract", held_out_share: float = 0.01
) -> dict[str, Any]:
    """Write the task from ``train``, ``train_news``, ``dev`` and ``dev_news``, and return its statistics.

    Raises DataError as :meth:`NewsTable.texts` and :func:`read_impressions`, or when an impression id appears twice in a file,
    and ConfigError for a size that cannot be drawn.
    """
    counted = ClickStatistics(job.tokenizer)
    news = NewsTable(job, candidate, counted)
    user_split = held_out(job.seed, held_out_share, ("valid", "dev"))
    split_of: dict[str, str] = {}

    def texts() -> Iterator[Text]:
        for name in ("train", "dev"):
            yield from news.texts(name, files[f"{name}_news"])

    def examples() -> Iterator[Example]:
        for name in ("train", "dev"):
            for line, user, example in read_impressions(files[name], news.of[name], job, name, counted):
                if example.example_id in split_of:
                    raise DataError(
                        f"{files[name]}: line {line}: impression id {example.example_id.removeprefix(f'{name}-')!r} "
                        "appears twice; expected one line for each impression."
                    )
                split_of[example.example_id] = user_split(user) if name == "train" else "test"
                yield example

    job.about |= {"candidate": candidate, "left_out": job.warnings.counts}
    task = ExampleTask("clicks", texts(), examples(), split_of, about=job.about, counted=counted.summary)
    return write_example_task(job, task)
