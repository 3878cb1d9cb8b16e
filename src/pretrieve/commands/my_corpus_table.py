"""Compare all ways to search a corpus of one's own: a table, and three sentences that say what to deploy."""

import argparse

from pretrieve.base import paths
from pretrieve.base.arguments import add_outputs, json_object, required
from pretrieve.base.files import write_json, write_text
from pretrieve.reporting.tables.my_corpus_read import read_rows
from pretrieve.reporting.tables.my_corpus_table import answer, choice, make_page, to_csv, to_markdown
from pretrieve.reporting.tables.render import fill_template
from pretrieve.reporting.tables.results import ResultFiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus_rows.py: table_request")
    required(parser, str, weights="JSON of my_corpus_hybrids.py", speed="JSON of my_corpus_speed.py")
    add_outputs(parser, "csv", "md", "html", "choice")


def main(args: argparse.Namespace) -> None:
    request = args.request
    root, files = request["root"], ResultFiles()
    stats = {
        name: files.read(f"{paths.task_dir(root, request[key])}/stats.json")
        for name, key in (("tested", "dataset"), ("trained", "trained_on"))
    }
    stats["collection"] = files.read(f"{root}/collections/{request['dataset']}/stats.json")
    weights = files.read(args.weights)
    rows = read_rows(request, weights, files.read(args.speed))
    advice = answer(rows, stats["tested"]["candidates"])
    page = make_page(request, rows, stats, advice, weights)
    write_text(args.csv, to_csv(rows))
    write_text(args.md, to_markdown(page))
    write_text(args.html, fill_template("my_corpus.html.j2", page=page))
    write_json(args.choice, choice(advice, request))
    print("\n".join(advice.sentences))
