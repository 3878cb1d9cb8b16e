"""One analysis of trained encoders and retrievers: a CSV file of numbers, from which a figure is drawn.

attention_entropy: paper condenser, figure 2; pair_similarity: paper seed_encoder, figures 1b and 5; decoder_states:
paper seed_encoder, figure 4. Every model sees the same texts.
"""

import argparse
import json
from pathlib import Path

from pretrieve.analysis import attention_entropy, decoder_states, pair_similarity
from pretrieve.analysis.measures import write_rows
from pretrieve.base.program import one_each, run_program
from pretrieve.base.progress import Progress
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import choose_device

ANALYSES = {
    "attention_entropy": attention_entropy.measure,
    "pair_similarity": pair_similarity.measure,
    "decoder_states": decoder_states.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("analysis", choices=ANALYSES)
    parser.add_argument("--store", type=Path, required=True, help="token store that texts are drawn from")
    parser.add_argument("--options", type=json.loads, required=True, help="JSON: lengths, numbers of texts, their seed")
    parser.add_argument("--directories", nargs="+", type=Path, required=True, help="encoders and retrievers")
    parser.add_argument("--encoders", nargs="+", required=True, help="name of each directory's encoder")
    parser.add_argument("--seeds", nargs="+", type=int, required=True, help="seed of each")
    parser.add_argument("--stages", nargs="+", required=True, help="of each: pretrained, or how it was fine-tuned")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, metavar="CSV")
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    run_program(main)
