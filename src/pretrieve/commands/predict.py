"""Predict the test examples of a task without retrieval with fine-tuned models; write predictions and metrics."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_device, lengths, required, required_lists
from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.paths import cost_beside
from pretrieve.base.program import once_each, one_each
from pretrieve.evaluation.example_metrics import example_record
from pretrieve.evaluation.predictions import Prediction, write_predictions
from pretrieve.finetuning.predict import predict
from pretrieve.models.retriever_files import load_cross_encoder, load_retriever
from pretrieve.tasks.example_task import ExampleData
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, task="")
    required_lists(parser, Path, models="retrievers; cross-encoders for classification")
    required_lists(parser, str, sizes="training-set size of each model")
    required_lists(parser, Path, predictions="one .tsv.gz for each model", outputs="one metrics JSON for each model")
    required(parser, lengths, options="JSON with passage_length and query_length")
    parser.add_argument("--metrics", nargs="*", default=[], help="default: all of the task's kind")
    parser.add_argument("--split", default="test", choices=("test", "dev", "valid"))
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
    one_each(**{name: getattr(arguments, name) for name in ("models", "sizes", "predictions", "outputs")})
    once_each(predictions=arguments.predictions, outputs=arguments.outputs)

    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    processes.leave()
    if not processes.first:  # of those that trained the models
        return
    data = ExampleData(arguments.task)
    lists = (arguments.models, arguments.sizes, arguments.predictions, arguments.outputs)
    for directory, size, path, output in zip(*lists, strict=True):
        load = load_cross_encoder if data.kind == "classification" else load_retriever
        model, about = load(directory)
        data.check_vocabulary(about, directory)
        rows = data.split(size, arguments.split)
        if not len(rows):
            raise DataError(f"{arguments.task}/splits.parquet: size '{size}' has no {arguments.split} example.")
        with Cost("predict", arguments.threads) as cost:
            scores = predict(model.to(device.device), data.read_by(model.config.kind), rows, arguments.options, device)
        cost.write(cost_beside(path))
        labels = (data.candidates(row)[1] for row in rows)
        write_predictions(path, map(Prediction, scores, scores.values(), labels))
        write_json(output, example_record(path, data.kind, arguments.metrics))
