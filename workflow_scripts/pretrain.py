"""Pre-train one encoder with one seed (needs torch, numpy, pyarrow, tokenizers, safetensors; no faiss, Java, ranx).

On several GPUs: torchrun --nproc-per-node N workflow_scripts/pretrain.py ...; the result is that of one process.
"""

import argparse
import json
import os
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes
from pretrieve.training.run_settings import RunSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--options", type=json.loads, required=True, help="JSON of EncoderOptions")
    parser.add_argument("--start", type=Path, help="directory of the encoder or checkpoint to go on from")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=os.environ.get("PRETRIEVE_CHECKPOINT_SECONDS", "60")
    )
    parser.add_argument("--token-budget", type=int, help="tokens of a micro-batch: bounds memory, changes no result")
    parser.add_argument(
        "--compile", action="store_true", help="torch.compile for the layers (a GPU's gain; slow to start)"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    with Cost("pretrain", arguments.threads) as cost:
        cost.gpus = processes.world
        outcome = pretrain(
            EncoderOptions.from_dict(arguments.options),
            arguments.store,
            arguments.out,
            RunSettings(
                device, arguments.seed, arguments.checkpoint_seconds, processes, token_budget=arguments.token_budget
            ),
            arguments.checkpoints,
            arguments.start,
            arguments.compile,
        )
        cost.tokens = outcome.tokens
    if processes.first:
        cost.write(arguments.out / "cost.json")
    processes.leave()


if __name__ == "__main__":
    run_program(main)
