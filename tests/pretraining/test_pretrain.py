"""Pre-training as a whole: cuts do not matter, kills do not matter, and what is written is an encoder.

Seen to fail when: masks are drawn for each micro-batch; micro-batch means are averaged; optimiser moments are not restored;
a damaged checkpoint ends the run; the key is the same for every configuration; checkpoints stay behind; the first loss is not
compared with that of fresh weights, or the deviation of the logits is left out of it; the query tower is not written.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_body import SHAPE, small_options, trained

from pretrieve.base.errors import ConfigError
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import load_encoder
from pretrieve.models.transformer import seeded
from pretrieve.pretraining import pretrain as run_module
from pretrieve.pretraining.examples import MaskedPassages, Setting, TextForm
from pretrieve.pretraining.masking import Masking
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import OPTIONS, resolve
from pretrieve.pretraining.pretrain import first_losses
from pretrieve.text.blocks import build_blocks
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.device import choose_device
from pretrieve.training.loop import RunSettings, TrainingError, train
from pretrieve.training.objective import epoch_order
from pretrieve.training.optimiser import OptimiserConfig

ROOT = Path(__file__).parents[2]
MLM = {"name": "mlm", "length": 24} | resolve("mlm", None, {}, "test")
PAIRS = {"name": "pairs", "tasks": ["ict", "bfs", "wlp"], "query_length": 12, "passage_length": 24} | resolve(
    "pairs", None, {"similarity": "cosine", "temperature": 0.1, "ict_keep": 0.1}, "test"
)


def options(objective: dict, steps: int = 60, **changes) -> dict:
    """As configuration.encoder_options gives them."""
    chosen = objective | changes
    own = {"similarity": chosen.get("similarity", "cosine"), "head": chosen.get("head", "linear")}
    return small_options(chosen, 8, steps, **own)


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "model.safetensors") | load_file(directory / "heads.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def run(store, directory: Path, chosen: dict, seed: int = 1, seconds: float = 60.0, token_budget: int | None = None):
    out = directory / "encoder" / f"seed{seed}"
    of = RunSettings(choose_device("fp32"), seed, seconds, token_budget=token_budget)
    return trained(chosen, store, out, directory / "ckpt", of), out


def test_epochs() -> None:
    """Every epoch holds every item once, wherever a step begins."""
    whole = epoch_order(7, 3, 0, 21)
    assert [sorted(whole[i : i + 7]) for i in (0, 7, 14)] == [list(range(7))] * 3
    assert whole[:7].tolist() != whole[7:14].tolist()
    for position in range(12):
        assert epoch_order(7, 3, position, 9).tolist() == whole[position : position + 9].tolist()


def test_a_budget_in_epochs(store, body, tmp_path: Path) -> None:
    """Three epochs of the blocks that the store has, in batches of 4, and not of blocks that are full."""
    chosen = options(MLM, examples="blocks")
    limit = chosen["objective"]["length"] - 2
    blocks = build_blocks(store, limit)
    chosen["budget"] = {"batch": 4, "epochs": 3, "learning_rate": 1e-3}
    done, _ = run(store, tmp_path, chosen)
    assert done.curve[-1]["step"] + 1 == round(3 * len(blocks) / 4) > round(3 * len(store.tokens) / limit / 4)


def mlm(store, body, budget: int) -> MaskedLanguageModel:
    examples = MaskedPassages(store, 5, 8, TextForm(24), Masking("token"), budget)
    setting = Setting({}, 8, Encoder(body, 8, "cls", 0), store, 0, torch.device("cpu"))
    return MaskedLanguageModel(setting, examples)


def test_micro_batches_are_cuts_of_one_batch(store, body) -> None:
    whole, cut = mlm(store, body, 10**6), mlm(store, body, 40)
    for step in range(4):
        (one,), many = whole.micro_batches(step), cut.micro_batches(step)
        assert len(many) > 2
        assert all(batch.tokens <= 40 for batch in many)
        for part in (
            lambda m: m.corrupted.tokens,
            lambda m: m.original,
            lambda m: m.original[m.positions],
            lambda m: m.draws,
        ):
            joined = np.concatenate([part(batch.data) for batch in many])
            assert (joined == part(one.data)).all() and len(joined) == len(part(one.data)) > 0
        assert sum(batch.counts["mlm"] for batch in many) == one.counts["mlm"] == len(one.data.positions)
        assert np.concatenate([batch.ids for batch in many]).tolist() == one.ids.tolist()


def test_the_token_budget_does_not_change_the_weights(store, body, cpu) -> None:
    config = OptimiserConfig(6, 1e-2, eps=1e-3)
    runs = []
    for budget in (10**6, 40):
        objective = mlm(store, body, budget)
        start = objective.body.words.weight.detach().clone()
        train(objective, config, RunSettings(cpu, 2))
        assert float((objective.body.words.weight.detach() - start).abs().max()) > 1e-3
        runs.append(objective.module.state_dict())
    assert all(float((runs[0][name] - runs[1][name]).abs().max()) <= 1e-6 for name in runs[0])


def test_learns_and_writes_an_encoder(store, tmp_path: Path) -> None:
    outcome, out = run(store, tmp_path, options(MLM))
    losses = [row["loss"] for row in outcome.curve]
    assert losses[0] > losses[-1] + 0.5 and len(losses) == 60
    assert outcome.tokens == outcome.curve[-1]["tokens"] > 60 * 8 * 5
    lines = (out / "curve.csv").read_text().splitlines()
    assert lines[0] == "step,tokens,tokens_per_s,loss,mlm,learning_rate,gradient_norm" and len(lines) == 61
    encoder, about = load_encoder(out)
    assert about["token_store"] == store.key and about["trained_projection"] is False
    assert encoder.config.vocabulary_size == store.vocabulary_size
    assert any(name.startswith("mlm.") for name in load_file(out / "heads.safetensors"))
    assert not (tmp_path / "ckpt").exists()
    _, pairs = run(store, tmp_path / "pairs", options(PAIRS, steps=2))
    assert load_encoder(pairs)[1]["trained_projection"] is True


@pytest.mark.parametrize("objective", [MLM, PAIRS], ids=["mlm", "pairs"])
def test_from_scratch_twice(store, tmp_path: Path, objective: dict) -> None:
    first, again, other = (
        weights(run(store, tmp_path / name, options(objective, steps=8), seed)[1])
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert same(first, again) and not same(first, other)


def test_no_training_is_the_initialisation(store, tmp_path: Path) -> None:
    chosen = options({"name": "none"})
    with pytest.raises(
        ConfigError, match="objective 'none' with a budget; expected a budget for every objective except 'none'"
    ):
        run(store, tmp_path, chosen)
    del chosen["budget"]
    outcome, out = run(store, tmp_path, chosen)
    assert outcome.curve == [] and outcome.tokens == 0
    encoder, _ = load_encoder(out)
    assert same(encoder.body.state_dict(), Encoder(encoder.config, 8, "cls", 1).body.state_dict())
    with pytest.raises(ConfigError, match="'clm' is not allowed; choose from cocondenser, condenser, "):
        build_objective(Setting({"name": "clm"}, 8, encoder, store, 0, torch.device("cpu")))


#: So many that it is still busy when its third checkpoint is seen.
STEPS_OF_KILLED = 40


def killed(store, directory: Path, chosen: dict, *more: object) -> list[Path]:
    """Start workflow_scripts/pretrain.py, kill it after its third checkpoint; returns the checkpoints left, newest first."""
    checkpoints = directory / "ckpt"
    command = [
        sys.executable,
        "workflow_scripts/pretrain.py",
        "--store",
        store.directory,
        "--options",
        json.dumps(chosen),
    ]
    command += ["--seed", "1", "--checkpoints", checkpoints, "--checkpoint-seconds", "0", "--precision", "fp32"]
    command += ["--out", directory / "encoder" / "seed1", *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    try:
        for _ in range(80_000):
            files = sorted(checkpoints.glob("step-*.safetensors"), reverse=True)
            if process.poll() is not None or (len(files) == 2 and files[-1].name > "step-00000002"):
                break
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        stderr = process.communicate()[1].decode()
    assert process.returncode == -signal.SIGKILL, stderr
    assert not (directory / "encoder" / "seed1" / "model.safetensors").exists()
    files = sorted(checkpoints.glob("step-*.safetensors"), reverse=True)
    assert len(files) >= 2 and "step-00000000" < files[0].name < f"step-{STEPS_OF_KILLED:08}"
    return files


def test_a_killed_run_ends_with_the_same_bits(store, tmp_path: Path, capsys) -> None:
    """In two or three micro-batches, with dropout. Also when the newest checkpoint is damaged: then the one before it is used."""
    chosen = options(MLM, STEPS_OF_KILLED)
    straight, reference = run(store, tmp_path / "straight", chosen, token_budget=100)
    killed(store, tmp_path / "killed", chosen, "--token-budget", 100)
    shutil.copytree(tmp_path / "killed", tmp_path / "damaged")
    for name in ("killed", "damaged"):
        newest = max((tmp_path / name / "ckpt").glob("step-*.safetensors"))
        if name == "damaged":
            newest.write_bytes(newest.read_bytes()[:-100])
        capsys.readouterr()
        outcome, out = run(store, tmp_path / name, chosen, token_budget=100)
        assert same(weights(out), weights(reference))
        assert without_speed(outcome.curve) == without_speed(straight.curve) and outcome.tokens == straight.tokens
        assert (f"{newest}: damaged checkpoint" in capsys.readouterr().err) == (name == "damaged")
        assert not newest.parent.exists()


def without_speed(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "tokens_per_s"} for row in curve]


@pytest.mark.parametrize("body", ["transformer", "bow-mlp"])
def test_an_interrupted_run_of_pairs_goes_on(store, tmp_path: Path, cut_at, body: str) -> None:
    chosen = options(PAIRS, steps=12)
    chosen["body"] = SHAPE | {"kind": body}
    _, reference = run(store, tmp_path / "straight", chosen)
    steps = cut_at(7)
    with pytest.raises(KeyboardInterrupt):
        run(store, tmp_path / "x", chosen, seconds=0.0)
    _, out = run(store, tmp_path / "x", chosen)
    assert steps == [*range(8), *range(7, 12)]
    assert same(weights(out), weights(reference))


def test_a_checkpoint_of_another_configuration_is_not_resumed(store, tmp_path: Path, monkeypatch, capsys) -> None:
    """And its later steps do not push out the checkpoints of the new run."""
    chosen, other = options(MLM, steps=10), options(MLM, steps=10, rate=0.3)
    assert chosen["budget"] == other["budget"]
    _, reference = run(store, tmp_path / "reference", chosen)
    monkeypatch.setattr(Checkpoints, "clear", lambda self, keep=0: None)
    run(store, tmp_path / "x", other, seconds=0.0)
    names = sorted(path.name for path in (tmp_path / "x" / "ckpt").iterdir())
    assert names == ["step-00000008.safetensors", "step-00000009.safetensors"]
    left: list[list[str]] = []
    save = Checkpoints.save

    def watched(self, state):
        save(self, state)
        left.append(sorted(path.name for path in self.directory.iterdir()))

    monkeypatch.setattr(Checkpoints, "save", watched)
    capsys.readouterr()
    _, out = run(store, tmp_path / "x", chosen, seconds=0.0)
    assert same(weights(out), weights(reference))
    assert "belongs to another configuration or other code; not resumed" in capsys.readouterr().err
    assert left[0] == ["step-00000001.safetensors"] and left[-1] == names


def test_two_towers_are_written(store, tmp_path: Path) -> None:
    _, out = run(store, tmp_path, options(PAIRS, steps=3, towers="separate", head="orqa", similarity="dot"))
    document, about = load_encoder(out)
    query, of_query = load_encoder(out / "query")
    assert about["towers"] == "separate" and about["trained_projection"] and of_query["trained_projection"]
    assert (document.head, document.similarity) == (query.head, query.similarity) == ("orqa", "dot")
    for name, tensor in document.state_dict().items():
        other = query.state_dict()[name]
        assert not torch.equal(tensor, other) or "segments" in name or "norm" in name or "bias" in name, name
    _, shared = run(store, tmp_path, options(PAIRS, steps=1))
    assert shared == out and load_encoder(shared)[1]["towers"] == "shared"
    assert not (shared / "query").exists(), "fine-tuning would take the other encoder's query tower"


def setting(store, name: str, config: BodyConfig) -> Setting:
    """Any objective at the size of the tiny corpus."""
    small = {"skip_layer": 1, "head_layers": 1, "decoder_layers": 1, "span_length": 12}
    changes = {option: value for option, value in small.items() if option in OPTIONS[name]}
    chosen = {"name": name, "length": 24} | resolve(name, None, changes, "test")
    return Setting(chosen, 8, Encoder(config, 8, "cls", 0), store, 0, torch.device("cpu"))


WORD_OBJECTIVES = [name for name in OPTIONS if name not in ("none", "pairs")]


@pytest.mark.parametrize("name", WORD_OBJECTIVES)
@pytest.mark.parametrize("word_std", [0.02, 0.25])
def test_the_first_loss_is_that_of_fresh_weights(store, body, cpu, name: str, word_std: float) -> None:
    """Of every objective that predicts words; and a head or embeddings of another deviation are refused."""
    config = BodyConfig(**body.to_dict() | {"word_std": word_std})
    objective = build_objective(setting(store, name, config))
    expected = first_losses(objective, config)
    value = np.log(config.vocabulary_size) + 16 * word_std**2 / 2
    assert expected == dict.fromkeys(objective.word_terms, pytest.approx(value)) and expected
    once = OptimiserConfig(1, 1e-3)
    curve = train(objective, once, RunSettings(cpu, 0), expected_first=expected).curve
    assert all(abs(curve[0][term] - value) < 0.15 * value for term in expected)
    for wrong in ("words", "bias"):
        objective = build_objective(setting(store, name, config))
        with torch.no_grad():
            if wrong == "words":
                objective.module["body"].words.weight.mul_(1.5 / word_std)
            else:
                objective.head.bias.add_(4 * torch.randn(objective.head.bias.shape, generator=seeded(1)))
        with pytest.raises(TrainingError, match="begins at .* Look at body.std and body.word_std"):
            train(objective, once, RunSettings(cpu, 0), expected_first=expected)


def test_a_wrong_initialisation_ends_pre_training(store, tmp_path: Path, monkeypatch) -> None:
    """The check is made by the program itself, for fresh weights; nothing is written."""
    plain = run_module.make_encoder

    def wrong(*arguments):
        encoder = plain(*arguments)
        with torch.no_grad():
            encoder.body.words.weight.mul_(50)
        return encoder

    monkeypatch.setattr(run_module, "make_encoder", wrong)
    with pytest.raises(TrainingError, match="loss term mlm begins at"):
        run(store, tmp_path, options(MLM))
    assert not (tmp_path / "encoder").exists()
