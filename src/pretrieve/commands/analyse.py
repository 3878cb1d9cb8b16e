"""One analysis of trained encoders and retrievers: a CSV file of numbers, from which a figure is drawn.

attention_entropy: paper condenser, figure 2; pair_similarity: paper seed_encoder, figures 1b and 5; decoder_states:
paper seed_encoder, figure 4; cls_use: an own control. Every model sees the same texts.
"""

import argparse
from pathlib import Path

from pretrieve.analysis import attention_entropy, cls_use, decoder_states, pair_similarity
from pretrieve.base.arguments import add_threads, json_object, required, required_lists
from pretrieve.base.program import one_each
from pretrieve.base.progress import Progress
from pretrieve.text.token_store import TokenStore
from pretrieve.training.csv_rows import write_rows
from pretrieve.training.device import choose_device

ANALYSES = {
    "attention_entropy": attention_entropy.measure,
    "pair_similarity": pair_similarity.measure,
    "decoder_states": decoder_states.measure,
    "cls_use": cls_use.measure,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("analysis", choices=ANALYSES)
    required(parser, Path, store="token store that texts are drawn from")
    required(parser, json_object, options="JSON: lengths, numbers of texts, their seed")
    required_lists(parser, Path, directories="encoders and retrievers")
    required_lists(parser, str, encoders="name of each directory's encoder")
    required_lists(parser, int, seeds="seed of each")
    required_lists(parser, str, stages="of each: pretrained, or how it was fine-tuned")
    add_threads(parser)
    required(parser, Path, out="")


def main(arguments: argparse.Namespace) -> None:
    columns = {name: getattr(arguments, name) for name in ("encoders", "seeds", "stages", "directories")}
    one_each(**columns)

    # Entropies and cosines are differences of near numbers: no bf16, whatever the machine has.
    device = choose_device("fp32", arguments.threads)
    store, rows = TokenStore(arguments.store), []
    with Progress(arguments.analysis, total=len(arguments.directories), unit="models") as progress:
        for encoder, seed, stage, directory in zip(*columns.values(), strict=True):
            measured = ANALYSES[arguments.analysis](directory, store, device.device, **arguments.options)
            rows += [{"encoder": encoder, "seed": seed, "stage": stage, **row} for row in measured]
            progress.advance(1, f"{encoder} {stage}")
    write_rows(arguments.out, rows)
