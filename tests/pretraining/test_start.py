"""Starting from published checkpoints, from the files to the encoder's directory.

Seen to fail when: the body keeps the scale's shape, or fresh weights; the checkpoint's dropout wins over the scale's;
heads are not handed on; a vocabulary of the same size but other words goes through, or one of another size; padded
rows are refused; words are to be predicted by T5, or without a mask; T5 is pooled by its first token; a changed copy
from the hub is read; a bag of words starts from a transformer.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from small_body import trained
from tokenizers import Tokenizer, models, pre_tokenizers

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.hf_format import load_encoder, read_encoder
from pretrieve.pretraining import pretrain as run_module
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.raw.hub import fetch_checkpoint
from pretrieve.text.corpus_tokens import tokenise_corpus
from pretrieve.text.token_store import TokenStore

#: What a scale says of its own bodies; a start brings other sizes.
SCALE_BODY = {"kind": "transformer", "hidden": 32, "heads": 4, "feed_forward": 64, "max_positions": 30, "dropout": 0.0}


def options(name: str, pooling: str = "cls", body: dict | None = None, **changes) -> dict:
    objective = {"name": name} | resolve(name, None, changes, "test")
    if name == "pairs":
        objective |= {"tasks": ["ict", "bfs"], "query_length": 12, "passage_length": 24}
    elif name != "none":
        objective |= {"length": 24}
    chosen = {
        "body": body or SCALE_BODY,
        "pooling": pooling,
        "dim": 8,
        "similarity": "cosine",
        "head": "linear",
        "objective": objective,
        "start": "dir:somewhere",
    }
    return chosen | ({} if name == "none" else {"budget": {"batch": 8, "steps": 2, "learning_rate": 1e-3}})


def run(store: TokenStore, directory: Path, chosen: dict, start: Path) -> Path:
    trained(chosen, store, directory, directory.parent / "ckpt", start_dir=start)
    return directory


def condenser_files(directory: Path, size: int) -> transformers.BertForMaskedLM:
    """As Condenser's code saves: encoder and word head, and model.pt with the head's layers."""
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=40, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config).eval()
    model.save_pretrained(directory)
    layers = [transformers.models.bert.modeling_bert.BertLayer(config) for _ in range(2)]
    torch.save(
        {f"c_head.{i}.{n}": t for i, layer in enumerate(layers) for n, t in layer.state_dict().items()},
        directory / "model.pt",
    )
    return model


@pytest.fixture
def published(store: TokenStore, wordpiece: Path, tmp_path: Path) -> Path:
    condenser_files(tmp_path / "published", store.vocabulary_size)
    shutil.copy(wordpiece, tmp_path / "published/tokenizer.json")
    return tmp_path / "published"


def test_used_without_training(store: TokenStore, tmp_path: Path, published: Path) -> None:
    out = run(store, tmp_path / "out", options("none"), published)
    ids = torch.tensor([[2, 9, 11, 30, 3]])
    reference = transformers.AutoModel.from_pretrained(published).eval()
    ours = transformers.AutoModel.from_pretrained(out).eval()
    with torch.no_grad():
        assert torch.equal(ours(ids).last_hidden_state, reference(ids).last_hidden_state)
    encoder, about = load_encoder(out)
    assert (encoder.config.hidden, encoder.config.layers, encoder.config.dropout) == (16, 3, 0.0)
    assert about["start"] == "dir:somewhere" and about["tokens"] == 0
    # And from there by name, as any encoder of the configuration.
    again = run(store, tmp_path / "again", options("none"), out)
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    # Both keep its word head, which a joint representation reads.
    words = transformers.BertForMaskedLM.from_pretrained(published).cls.predictions
    assert torch.equal(read_encoder(again).head("mlm")["transform.weight"], words.transform.dense.weight)


def test_pre_training_goes_on_with_its_heads(
    store: TokenStore, tmp_path: Path, published: Path, monkeypatch, capsys
) -> None:
    model = transformers.BertForMaskedLM.from_pretrained(published)
    begun: dict[str, torch.Tensor] = {}
    plain = run_module.train

    def watched(objective, *arguments, **named):
        begun.update({name: tensor.clone() for name, tensor in objective.module.state_dict().items()})
        return plain(objective, *arguments, **named)

    monkeypatch.setattr(run_module, "train", watched)
    run(store, tmp_path / "out", options("condenser", skip_layer=1), published)
    head = torch.load(published / "model.pt", weights_only=True)
    assert torch.equal(begun["body.words.weight"], model.bert.embeddings.word_embeddings.weight)
    assert torch.equal(begun["mlm.transform.weight"], model.cls.predictions.transform.dense.weight)
    assert torch.equal(begun["condenser.layers.1.up.weight"], head["c_head.1.intermediate.dense.weight"])
    assert "fresh" not in capsys.readouterr().err
    # The decoder of another method begins fresh, and says so.
    run(store, tmp_path / "other", options("retromae"), published)
    assert "has no decoder head; it starts fresh" in capsys.readouterr().err
    trained = load_encoder(tmp_path / "other")[0]
    assert not torch.equal(trained.body.words.weight, model.bert.embeddings.word_embeddings.weight)


def test_the_vocabulary_has_to_be_the_same(store: TokenStore, wordpiece: Path, tmp_path: Path, published: Path) -> None:
    given = json.loads(wordpiece.read_text())
    words = given["model"]["vocab"]
    a, b = [word for word in words if word.isalpha()][:2]
    words[a], words[b] = words[b], words[a]
    (published / "tokenizer.json").write_text(json.dumps(given))
    with pytest.raises(DataError, match=r"published: made with a vocabulary .* another one .*Set vocabulary_file"):
        run(store, tmp_path / "out", options("none"), published)
    (published / "tokenizer.json").unlink()  # now there are only sizes to go by
    run(store, tmp_path / "out", options("none"), published)
    size = store.vocabulary_size
    for more, fits in ((127, True), (128, False), (-1, False)):
        condenser_files(tmp_path / f"{more}", size + more)
        if fits:
            encoder, _ = load_encoder(run(store, tmp_path / "padded", options("mlm"), tmp_path / f"{more}"))
            assert encoder.config.vocabulary_size == size + more
        else:
            with pytest.raises(DataError, match=rf"made with a vocabulary of {size + more:,} entries, .* of {size:,}"):
                run(store, tmp_path / "out", options("none"), tmp_path / f"{more}")


def test_a_changed_copy_from_the_hub_is_not_read(store: TokenStore, tmp_path: Path, published: Path) -> None:
    copy = tmp_path / "data/hub/Luyu--condenser"
    (tmp_path / "mirror/hub/Luyu").mkdir(parents=True)
    published.rename(tmp_path / "mirror/hub/Luyu/condenser")
    fetch_checkpoint("hub:Luyu/condenser", copy, tmp_path / "mirror")
    run(store, tmp_path / "out", options("none"), copy)
    other = transformers.BertForMaskedLM.from_pretrained(copy)
    torch.nn.init.zeros_(other.bert.embeddings.LayerNorm.bias)
    other.bert.embeddings.LayerNorm.bias.data += 1
    other.save_pretrained(copy)
    with pytest.raises(DataError, match=r"Luyu--condenser: .*model.safetensors missing or changed since first use"):
        run(store, tmp_path / "out", options("none"), copy)


def test_a_bag_of_words_has_no_such_start(store: TokenStore, tmp_path: Path, published: Path) -> None:
    bag = {"kind": "bow-mlp", "hidden": 16, "heads": 1, "feed_forward": 24}
    with pytest.raises(DataError, match="published: is a transformer; the encoder's body must be a bow-mlp"):
        run(store, tmp_path / "out", options("pairs", body=bag), published)


# T5 ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def t5(tiny_corpus: Path, tmp_path: Path) -> tuple[TokenStore, Path]:
    """The corpus in letters, with T5's special tokens, and a small T5 v1.1 with a few rows too many."""
    pieces = [
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("▁", -2.0),
        *((c, -2.0) for c in "abcdefghijklmnopqrstuvwxyz."),
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    directory = tmp_path / "t5"
    directory.mkdir()
    tokenizer.save(str(directory / "tokenizer.json"))
    store = tokenise_corpus(tiny_corpus, directory / "tokenizer.json", tmp_path / "letters")
    config = transformers.T5Config(
        vocab_size=store.vocabulary_size + 3, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        feed_forward_proj="gated-gelu",
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(directory)
    return store, directory


def test_t5_and_pairs(t5: tuple[TokenStore, Path], tmp_path: Path) -> None:
    store, start = t5
    out = run(store, tmp_path / "out", options("pairs", pooling="mean", temperature=0.05), start)
    encoder, about = load_encoder(out)
    assert encoder.config.kind == "t5" and encoder.config.dropout == 0.0 and about["tokens"] > 0
    before = transformers.T5EncoderModel.from_pretrained(start).state_dict()
    after = transformers.T5EncoderModel.from_pretrained(out).state_dict()
    assert before.keys() == after.keys()
    assert all(
        not torch.equal(before[name], after[name]) for name in ("shared.weight", "encoder.final_layer_norm.weight")
    )


@pytest.mark.parametrize("objective", ["mlm", "condenser", "retromae", "seed-encoder"])
def test_t5_predicts_no_masked_words(t5: tuple[TokenStore, Path], tmp_path: Path, objective: str) -> None:
    store, start = t5
    with pytest.raises(
        ConfigError, match=rf"^objective {objective}: predicts masked words, and the body is T5's encoder"
    ):
        run(store, tmp_path / "out", options(objective, pooling="mean"), start)


def test_t5_predicts_none_with_masks_either(store: TokenStore, tmp_path: Path) -> None:
    """Where a vocabulary has [MASK] and [CLS], it is the body that does not go with the objective."""
    config = transformers.T5Config(
        vocab_size=store.vocabulary_size, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2,
        feed_forward_proj="gated-gelu",
    )  # fmt: skip
    transformers.T5EncoderModel(config).save_pretrained(tmp_path / "t5")
    run(store, tmp_path / "out", options("none", pooling="mean"), tmp_path / "t5")
    with pytest.raises(ConfigError, match="predicts masked words, and the body is T5's encoder"):
        run(store, tmp_path / "out", options("mlm", pooling="mean"), tmp_path / "t5")


def test_t5_has_no_cls(t5: tuple[TokenStore, Path], tmp_path: Path, published: Path) -> None:
    store, start = t5
    with pytest.raises(ConfigError, match="pooling 'cls': .*set pooling: mean"):
        run(store, tmp_path / "out", options("none"), start)
    # Nor has any other body with T5's vocabulary.
    for name, told in (("pairs", "pooling 'cls'"), ("mlm", "the vocabulary has no cls and no mask token")):
        chosen = {key: value for key, value in options(name).items() if key != "start"}
        with pytest.raises(ConfigError, match=told):
            trained(chosen, store, tmp_path / "out", tmp_path / "ckpt")


@pytest.mark.parametrize(("n", "kept"), [(1, [0, 1, 2]), (2, [1]), (3, [2])])
def test_every_nth_layer_of_a_start(
    store: TokenStore, tmp_path: Path, published: Path, n: int, kept: list[int]
) -> None:
    chosen = options("none") | {"layers_of_start": n}
    out = run(store, tmp_path / "out", chosen, published)
    ours, theirs = (transformers.AutoModel.from_pretrained(place).eval() for place in (out, published))
    theirs.encoder.layer = torch.nn.ModuleList(theirs.encoder.layer[i] for i in kept)
    ids = torch.tensor([[2, 9, 11, 30, 3]])
    with torch.no_grad():
        assert torch.equal(ours(ids).last_hidden_state, theirs(ids).last_hidden_state)
    assert load_encoder(out)[1]["body"]["layers"] == len(kept)
    with pytest.raises(DataError, match="a transformer of 3 layers; expected a transformer with at least 4"):
        run(store, tmp_path / "none", chosen | {"layers_of_start": 4}, published)
    with pytest.raises(ConfigError, match="layers_of_start 2 without a start"):
        EncoderOptions.from_dict(
            {name: value for name, value in chosen.items() if name != "start"} | {"layers_of_start": 2}
        )


def test_where_weights_go_back_to(store: TokenStore, tmp_path: Path, published: Path) -> None:
    first = run(store, tmp_path / "first", options("mlm") | {"start": "hub:a/b"}, published)
    second = run(store, tmp_path / "second", options("none") | {"start": "first"}, first)
    assert load_encoder(second)[1]["origin"] == load_encoder(first)[1]["origin"] == "hub:a/b"
