"""Pre-train one encoder with one seed (needs torch, numpy, pyarrow, tokenizers, safetensors; no faiss, Java, ranx).

On several GPUs: torchrun --nproc-per-node N workflow_scripts/pretrain.py ...; the result is that of one process.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from pretrieve.base.arguments import add_training, json_object, required
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.loop import RunSettings
from pretrieve.training.processes import Processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, store="")
    required(parser, json_object, options="JSON of EncoderOptions")
    parser.add_argument("--start", type=Path, help="directory of the encoder or checkpoint to start from")
    add_training(parser)
    parser.add_argument("--token-budget", type=int, help="tokens of a micro-batch: bounds memory, changes no result")
    required(parser, Path, out="")
    parser.add_argument("--snapshots", nargs="*", type=Path, default=[], help="directories for intermediate weights")
    parser.add_argument("--at", nargs="*", type=float, default=[], help="share of the steps before each snapshot")


def main(arguments: argparse.Namespace, stop: Callable[[], bool] | None = None) -> None:
    """stop: see :class:`~pretrieve.training.loop.RunSettings`."""
    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    with Cost("pretrain", arguments.threads) as cost:
        cost.gpus = processes.world
        outcome = pretrain(
            EncoderOptions.from_dict(arguments.options),
            arguments.store,
            arguments.out,
            RunSettings(
                device,
                arguments.seed,
                arguments.checkpoint_seconds,
                processes,
                stop,
                token_budget=arguments.token_budget,
            ),
            arguments.checkpoints,
            arguments.start,
            dict(zip(arguments.snapshots, arguments.at, strict=True)),
        )
        cost.tokens, cost.earlier = outcome.tokens, outcome.earlier
    if processes.first:
        before = arguments.start and arguments.start / "cost.json"  # a published checkpoint has none
        cost.write_with_parts(arguments.out, arguments.snapshots, [str(before)] if before and before.is_file() else [])
    processes.leave()
