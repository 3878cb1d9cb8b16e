"""C10: a Wikipedia dump → sections, paragraphs and links, against a full parse with wikitextparser.

Same pages for all: 40 articles of the dump fragment. Peers: ``full`` gives what ours gives (plain text, links, sections);
``tuned`` leaves out wikitextparser's section tree, its slowest part (headings could be found in the plain text). "With
the dump" adds reading the compressed XML, which costs both sides the same. First, quality: the words of our paragraphs and our
links must be found in the full parse. Last, memory: peak resident size for a dump and for one ten times as long.

    PYTHONPATH=src python benchmarks/c10_wiki.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import wikitextparser

from pretrieve.corpora.mediawiki import read_pages
from pretrieve.corpora.wikitext import Section, link_target, parse_page
from pretrieve.raw.raw_bytes import open_raw

PAGES = 40
WORDS_FOUND = 0.97
TARGET = 5.0
_WORD = re.compile(r"\w+")

_CHILD = """
import sys
from pathlib import Path
from pretrieve.corpora.mediawiki import read_pages
from pretrieve.corpora.wikitext import parse_page
pages = paragraphs = 0
for page in read_pages(Path(sys.argv[1])):
    pages += 1
    if page.redirect is None:
        paragraphs += sum(len(section.paragraphs) for section in parse_page(page.text))
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(pages, paragraphs, peak)
"""


def full_parse(text: str) -> tuple[str, list[str], list[tuple[str, int]]]:
    """Plain text, link targets, and (title, level) of sections, with wikitextparser as its manual shows."""
    parsed = wikitextparser.parse(text)
    links = [link.title for link in parsed.wikilinks]
    sections = [((section.title or "").strip(), section.level) for section in parsed.sections]
    return parsed.plain_text(), links, sections


def tuned_parse(text: str) -> tuple[str, list[str]]:
    """The same without the section tree."""
    parsed = wikitextparser.parse(text)
    return parsed.plain_text(), [link.title for link in parsed.wikilinks]


def quality(texts: list[str], ours: list[list[Section]]) -> dict[str, float]:
    """Shares of our words, links and headings that the full parse has too, counted with repetitions, page by page."""
    found, total = Counter(), Counter()
    for text, sections in zip(texts, ours, strict=True):
        plain, links, headings = full_parse(text)
        mine = {
            "words": Counter(w for s in sections for p in s.paragraphs for w in _WORD.findall(p.text)),
            "links": Counter(link.target for s in sections for p in s.paragraphs for link in p.links),
            "headings": Counter((" ".join(s.heading.split()), s.level) for s in sections[1:]),
        }
        theirs = {
            "words": Counter(_WORD.findall(plain)),
            "links": Counter(link_target(title) for title in links),
            "headings": Counter(
                (" ".join(wikitextparser.remove_markup(title).split()), level) for title, level in headings
            ),
        }
        for name in mine:
            found[name] += (mine[name] & theirs[name]).total()
            total[name] += mine[name].total()
    return {name: round(found[name] / total[name], 5) for name in total} | {"words_counted": total["words"]}


def peak_memory(dump: Path, times: int, directory: Path) -> dict[str, int]:
    """Pages, paragraphs and peak resident kB of a process that reads and parses the dump's pages ``times`` over."""
    with open_raw(dump) as stream:
        raw = stream.read()
    begin, end = raw.index(b"<page>"), raw.rindex(b"</page>") + len(b"</page>")
    path = directory / f"dump-{times}.xml"
    with open(path, "wb") as stream:
        stream.write(raw[:begin])
        for _ in range(times):
            stream.write(raw[begin:end] + b"\n")
        stream.write(raw[end:])
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True)
    pages, paragraphs, peak = map(int, done.stdout.split())
    return {"pages": pages, "megabytes": path.stat().st_size // 1_000_000, "paragraphs": paragraphs, "peak_kb": peak}


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    dump = common.source("enwiki-fragment")
    articles = [page for page in read_pages(dump) if page.redirect is None]
    texts = [page.text for page in random.Random(0).sample(articles, PAGES)]
    found = quality(texts, [parse_page(text) for text in texts])
    print(f"our words / links / headings in the full parse: {found}")
    if found["words"] < WORDS_FOUND:
        raise SystemExit(f"only {found['words']:.1%} of our words are in the full parse; expected {WORDS_FOUND:.0%}.")

    times = common.interleave(
        {
            "ours": lambda _: [parse_page(text) for text in texts],
            "wikitextparser, full": lambda _: [full_parse(text) for text in texts],
            "wikitextparser, tuned": lambda _: [tuned_parse(text) for text in texts],
            "read the dump": lambda _: sum(1 for _ in read_pages(dump)),
        },
        args.rounds,
        warm_up=False,
    )
    reading = [seconds * PAGES / len(articles) for seconds in times.pop("read the dump")]
    with_dump = {name: [a + b for a, b in zip(v, reading, strict=True)] for name, v in times.items()}
    parse, whole = common.ratios(times, "ours"), common.ratios(with_dump, "ours")
    rows = []
    for name, values in times.items():
        rate, rate_whole = PAGES / statistics.median(values), PAGES / statistics.median(with_dump[name])
        if name == "ours":
            rows.append([name, rate, "", rate_whole, "", ""])
        else:
            target = common.verdict(parse[name]["median"], TARGET)
            rows.append([name, rate, parse[name]["median"], rate_whole, whole[name]["median"], target])
    common.table(
        f"C10: {PAGES} articles, {sum(map(len, texts)) / 1e6:.1f} M characters",
        ["variant", "pages/s parsed", "ours is faster by", "pages/s with the dump", "by", "target"],
        rows,
    )

    with tempfile.TemporaryDirectory() as directory:
        memory = {f"x{n}": peak_memory(dump, n, Path(directory)) for n in (1, 10)}
    growth = memory["x10"]["peak_kb"] / memory["x1"]["peak_kb"]
    flat = common.verdict(-growth, -1.1).replace(">= -1.1", "<= 1.1")
    print(f"\npeak memory: {memory['x1']} → {memory['x10']}: x{growth:.3f}, {flat}")
    common.write(
        "c10_wiki",
        args,
        ("wikitextparser",),
        pages=PAGES,
        quality=found,
        cpu_s=common.medians(times),
        reading_cpu_s=round(statistics.median(reading), 5),
        ratio_parse=parse,
        ratio_with_dump=whole,
        target=TARGET,
        memory=memory,
        memory_growth=round(growth, 4),
    )


if __name__ == "__main__":
    main()
