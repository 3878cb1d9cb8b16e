"""Retrievers in memory: directories made here, exported ones, and those of transformers give the same vectors.

Seen to fail when: the mean is taken for the first state, also where nothing says which; a projection is left out; vectors are not
normalised; queries are cut as passages are; a tokenizer of another vocabulary is taken; T5's texts begin with [CLS]; one text is
encoded as a list of its letters; the cosine of a directory is taken for the inner product; a length that is given is cut to that
of the directory, or T5's to 512; settings of an old version's file are passed over; an id of the tokenizer
is behind the body's last; complex numbers lose their imaginary part; the lengths of a recipe are passed over; a cross-encoder is
taken for an old encoder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, normalizers
from transformers import BertConfig, BertModel

import pretrieve
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.retriever_files import save_cross_encoder, save_retriever
from pretrieve.models.sentence_modules import Reading
from pretrieve.retrieval import in_memory
from pretrieve.retrieval.export import export
from pretrieve.text.packing import pack_sentences
from pretrieve.text.token_store import PassageText, write_token_store
from pretrieve.text.vocabulary import vocabulary_sha256

TEXTS = [
    "A boat.",
    "An anchor holds the boat to the bed of the sea, where many animals live; it is dark there!",
    "Café",
    "",
]
SHAPE = {"hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 24, "std": 0.3, "word_std": 0.5}
QUERY_LENGTH, PASSAGE_LENGTH = 7, 15


def save(directory: Path, words: Tokenizer, sharing: str, kind: str, pooling: str, similarity: str, head: str):
    body = BodyConfig(kind=kind, vocabulary_size=words.get_vocab_size(), dropout=0.1, **SHAPE)
    encoder = Encoder(body, 16 if head == "none" else 8, pooling, 1, similarity, head)
    dual = dual_encoder(encoder, sharing, seed=1)
    save_retriever(directory, dual, about={"vocabulary_sha256": vocabulary_sha256(words)})
    return dual.eval()


def exported(folder: Path, wordpiece: Path, *shape: str) -> None:
    """A retriever in ``own``, and its model of sentence-transformers in ``out``."""
    save(folder / "own", Tokenizer.from_file(str(wordpiece)), *shape)
    export(folder / "own", wordpiece, folder / "out", Reading(20, 20))


@pytest.mark.parametrize(
    ("sharing", "kind", "pooling", "similarity", "head"),
    [
        ("sde", "transformer", "cls", "dot", "none"),
        ("sde", "transformer", "mean", "cosine", "linear"),
        ("sde", "t5", "mean", "dot", "linear-no-bias"),
        ("ade", "transformer", "cls", "cosine", "linear"),
        ("sde", "transformer", "mean", "dot", "linear-norm"),
        ("ade-spl", "transformer", "mean", "cosine", "orqa"),
    ],
)
def test_vectors(
    tmp_path: Path, wordpiece: Path, sharing: str, kind: str, pooling: str, similarity: str, head: str
) -> None:
    words = Tokenizer.from_file(str(wordpiece))
    dual = save(tmp_path / "own", words, sharing, kind, pooling, similarity, head)
    own = pretrieve.load(tmp_path / "own", wordpiece, query_length=QUERY_LENGTH, passage_length=PASSAGE_LENGTH)
    store = write_token_store(tmp_path / "texts", words, [PassageText([text], n, n) for n, text in enumerate(TEXTS)])
    sides = (("query", QUERY_LENGTH, own.encode_queries), ("document", PASSAGE_LENGTH, own.encode_passages))
    found = {}
    for side, length, encode in sides:
        packed = pack_sentences(store.read_by(kind), np.arange(len(TEXTS)), length)
        with torch.no_grad():
            wanted = getattr(dual, side)(Batch.of(packed)).numpy()
        found[side] = encode(TEXTS)
        np.testing.assert_allclose(found[side], wanted, atol=1e-5)
    assert own.width == wanted.shape[1] and own.encode_queries([]).shape == (0, own.width)
    export(tmp_path / "own", wordpiece, tmp_path / "out", Reading(QUERY_LENGTH, PASSAGE_LENGTH))
    exported = pretrieve.load(tmp_path / "out")  # lengths and tokenizer are the directory's
    np.testing.assert_allclose(exported.encode_queries(TEXTS), found["query"], atol=1e-5)
    np.testing.assert_allclose(exported.encode_passages(TEXTS), found["document"], atol=1e-5)


def test_an_encoder_of_transformers(tmp_path: Path, wordpiece: Path) -> None:
    words = Tokenizer.from_file(str(wordpiece))
    names = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(1)
    model = BertModel(BertConfig(vocab_size=words.get_vocab_size(), initializer_range=0.3, **names)).eval()
    model.save_pretrained(tmp_path)
    with pytest.raises(DataError, match="has no tokenizer; give the one"):
        pretrieve.load(tmp_path, pooling="cls")
    words.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(DataError, match=r"nothing in it says how .* become one vector; expected modules.json .*'mean'"):
        pretrieve.load(tmp_path)
    with pytest.raises(ConfigError, match="pooling 'max' is not allowed"):
        pretrieve.load(tmp_path, pooling="max")
    first, mean = (pretrieve.load(tmp_path, pooling=pooling).encode_passages(TEXTS) for pooling in ("cls", "mean"))
    for number, text in enumerate(TEXTS):
        with torch.no_grad():
            states = model(torch.tensor([words.encode(text).ids])).last_hidden_state
        np.testing.assert_allclose(first[number], states[0, 0].numpy(), atol=1e-5)
        np.testing.assert_allclose(mean[number], states[0].mean(0).numpy(), atol=1e-5)


def test_a_retriever_made_here_is_read_as_it_was_measured(tmp_path: Path, wordpiece: Path) -> None:
    """Its recipe says how many tokens; vectors of more are not those behind its scores. Without a recipe: all positions."""
    words = Tokenizer.from_file(str(wordpiece))
    save(tmp_path, words, "sde", "transformer", "cls", "dot", "none")
    assert pretrieve.load(tmp_path, wordpiece).reading == Reading(24, 24)
    about = json.loads((tmp_path / "pretrieve.json").read_text())
    about["finetuning"] = {"query_length": QUERY_LENGTH, "passage_length": PASSAGE_LENGTH}
    (tmp_path / "pretrieve.json").write_text(json.dumps(about))
    loaded = pretrieve.load(tmp_path, wordpiece)
    assert loaded.reading == Reading(QUERY_LENGTH, PASSAGE_LENGTH)
    long = " ".join([TEXTS[1]] * 3)
    cut = words.decode(words.encode(long, add_special_tokens=False).ids[: PASSAGE_LENGTH - 2])
    np.testing.assert_allclose(*loaded.encode_passages([long, cut]), atol=1e-5)
    assert pretrieve.load(tmp_path, wordpiece, passage_length=20).reading == Reading(QUERY_LENGTH, 20)
    about["finetuning"] = {"query_length": "x"}
    (tmp_path / "pretrieve.json").write_text(json.dumps(about))
    with pytest.raises(ConfigError, match="pretrieve.json: finetuning.query_length='x'; expected 1 or more"):
        pretrieve.load(tmp_path, wordpiece)


def test_a_cross_encoder_is_no_retriever(tmp_path: Path, wordpiece: Path) -> None:
    """Nobody is told to delete a whole one."""
    config = BodyConfig(vocabulary_size=Tokenizer.from_file(str(wordpiece)).get_vocab_size(), **SHAPE)
    save_cross_encoder(tmp_path, CrossEncoder(config, 1))
    for read in (
        lambda: pretrieve.load(tmp_path, wordpiece),
        lambda: export(tmp_path, wordpiece, tmp_path / "out", Reading(9, 9)),
    ):
        with pytest.raises(
            DataError, match="has no dim, .* or is a cross-encoder's, which makes no vectors. If it is an old"
        ):
            read()


def test_a_pooling_that_a_directory_says_is_not_said_again(tmp_path: Path, wordpiece: Path) -> None:
    exported(tmp_path, wordpiece, "sde", "transformer", "mean", "dot", "none")
    for name in ("own", "out"):
        with pytest.raises(ConfigError, match="says the pooling .*itself; leave pooling='cls' out"):
            pretrieve.load(tmp_path / name, wordpiece, pooling="cls")
    modules = json.loads((tmp_path / "out/modules.json").read_text())
    (tmp_path / "out/modules.json").write_text(json.dumps(modules[:1]))
    with pytest.raises(DataError, match="nothing in it says how"):
        pretrieve.load(tmp_path / "out")


def test_what_is_no_list_of_texts_is_not_encoded(tmp_path: Path, wordpiece: Path) -> None:
    save(tmp_path, Tokenizer.from_file(str(wordpiece)), "sde", "transformer", "cls", "dot", "none")
    retriever = pretrieve.load(tmp_path, wordpiece)
    for length in (0, -5, 2.5):
        with pytest.raises(ConfigError, match=f"passage_length={length}; expected a number of tokens, 1 or more"):
            pretrieve.load(tmp_path, wordpiece, passage_length=length)
    for encode in (retriever.encode_passages, retriever.encode_queries):
        with pytest.raises(ConfigError, match="one text, 'hello'; expected a list of texts"):
            encode("hello")
        for table in ({"a": "hello"}, np.array([["hello"]]), np.array("hello"), None):
            with pytest.raises(ConfigError, match=f"texts: found {type(table).__name__}; expected a list of texts"):
                encode(table)
        with pytest.raises(DataError, match=r"texts\[1\]: None is NoneType; expected a text"):
            encode(["hello", None])


def test_older_settings_and_prompts(tmp_path: Path, wordpiece: Path) -> None:
    words = Tokenizer.from_file(str(wordpiece))
    save(tmp_path / "own", words, "sde", "transformer", "mean", "dot", "none")
    export(tmp_path / "own", wordpiece, tmp_path / "out", Reading(20, 20, "A boat: "))
    pooling = tmp_path / "out/1_Pooling/config.json"
    pooling.write_text(
        '{"word_embedding_dimension": 16, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}'
    )
    loaded = pretrieve.load(tmp_path / "out")
    np.testing.assert_array_equal(loaded.encode_queries(["sea"]), loaded.encode_passages(["A boat: sea"]))
    own = pretrieve.load(tmp_path / "own", wordpiece)
    np.testing.assert_allclose(loaded.encode_passages(["sea"]), own.encode_passages(["sea"]), atol=1e-5)
    pooling.write_text(json.dumps({"pooling_mode": "max"}))
    with pytest.raises(DataError, match="found the pooling 'max'; expected cls"):
        pretrieve.load(tmp_path / "out")
    pooling.write_text(json.dumps({"pooling_mode": "mean", "include_prompt": False}))
    with pytest.raises(DataError, match=r"1_Pooling/config.json: include_prompt is false"):
        pretrieve.load(tmp_path / "out")


def test_where_the_cosine_compares_inner_products_of_the_vectors_are_cosines(tmp_path: Path, wordpiece: Path) -> None:
    exported(tmp_path, wordpiece, "sde", "transformer", "mean", "dot", "linear")
    path = tmp_path / "out/config_sentence_transformers.json"
    settings, plain = json.loads(path.read_text()), pretrieve.load(tmp_path / "out").encode_passages(TEXTS)
    for similarity in ("cosine", None):  # None: the default of sentence-transformers
        path.write_text(json.dumps(settings | {"similarity_fn_name": similarity}))
        model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
        wanted = model.similarity(model.encode_query(TEXTS), model.encode_document(TEXTS)).numpy()
        loaded = pretrieve.load(tmp_path / "out")
        found = loaded.encode_queries(TEXTS) @ loaded.encode_passages(TEXTS).T
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        assert np.abs(found - plain @ plain.T).max() > 0.1
    path.write_text(json.dumps(settings | {"similarity_fn_name": "euclidean"}))
    with pytest.raises(DataError, match="similarity_fn_name is 'euclidean'; expected one of cosine, dot"):
        pretrieve.load(tmp_path / "out")


def test_texts_are_cut_where_sentence_transformers_6_cuts_them(tmp_path: Path, wordpiece: Path) -> None:
    exported(tmp_path, wordpiece, "sde", "transformer", "mean", "dot", "none")
    (tmp_path / "out/sentence_bert_config.json").write_text("{}")
    settings = tmp_path / "out/tokenizer_config.json"
    for said, read in ((9, 9), (int(1e30), SHAPE["max_positions"])):
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model_max_length": said}))
        assert pretrieve.load(tmp_path / "out").reading == Reading(read, read)


def test_lengths_that_are_given_are_read(tmp_path: Path, wordpiece: Path) -> None:
    words, texts = Tokenizer.from_file(str(wordpiece)), ["the boat and the sea " * 150]
    exported(tmp_path, wordpiece, "sde", "transformer", "mean", "dot", "none")
    settings = tmp_path / "out/sentence_bert_config.json"
    settings.unlink()
    # The name of an old version; sentence-transformers reads a query of 15 tokens, whatever else is said.
    settings.with_name("sentence_roberta_config.json").write_text('{"max_seq_length": 9, "query_length": 15}')
    loaded, model = pretrieve.load(tmp_path / "out"), SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert loaded.reading == Reading(15, 9)
    np.testing.assert_allclose(loaded.encode_queries(texts), model.encode_query(texts), atol=1e-5)
    np.testing.assert_allclose(loaded.encode_passages(texts), model.encode_document(texts), atol=1e-5)
    assert pretrieve.load(tmp_path / "out", query_length=7, passage_length=np.int64(24)).reading == Reading(7, 24)
    with pytest.raises(ConfigError, match="passage_length=25, but the body of .*out has 24 positions"):
        pretrieve.load(tmp_path / "out", passage_length=25)
    save(tmp_path / "t5", words, "sde", "t5", "mean", "dot", "none")
    export(tmp_path / "t5", wordpiece, tmp_path / "long", Reading(20, 600))
    loaded, model = pretrieve.load(tmp_path / "long"), SentenceTransformer(str(tmp_path / "long"), device="cpu")
    assert loaded.reading == Reading(20, 600)
    np.testing.assert_allclose(loaded.encode_passages(texts), model.encode_document(texts), atol=1e-5)


def test_other_tokens_around_a_text_are_refused(tmp_path: Path, wordpiece: Path) -> None:
    words = Tokenizer.from_file(str(wordpiece))
    for kind, expected in (("transformer", ["[CLS]", "[SEP]"]), ("t5", ["[SEP]"])):
        save(tmp_path / "own", words, "sde", kind, "mean", "dot", "none")
        export(tmp_path / "own", wordpiece, tmp_path / kind, Reading(20, 20))
        path = tmp_path / kind / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
        said = f"tokenizer.json: an empty text is read as []; expected {expected}: other tokens"
        with pytest.raises(DataError, match=re.escape(said)):
            pretrieve.load(tmp_path / kind)
        settings = path.with_name("tokenizer_config.json")  # BERT's own class makes its tokens, whatever the file says
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"tokenizer_class": "BertTokenizer"}))
    loaded = pretrieve.load(tmp_path / "transformer")
    model = SentenceTransformer(str(tmp_path / "transformer"), device="cpu")
    np.testing.assert_allclose(loaded.encode_passages(["a boat"]), model.encode_document(["a boat"]), atol=1e-5)
    with pytest.raises(DataError, match="tokenizer_class is BertTokenizer, and the body is T5"):
        pretrieve.load(tmp_path / "t5")


def test_modules_that_are_not_read(tmp_path: Path, wordpiece: Path) -> None:
    exported(tmp_path, wordpiece, "sde", "transformer", "cls", "dot", "linear")
    settings = tmp_path / "out/2_Dense/config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"activation_function": "torch.nn.Tanh"}))
    with pytest.raises(
        DataError, match="found the module Dense in place 2; expected Transformer, Pooling, at most one Dense"
    ):
        pretrieve.load(tmp_path / "out")
    exported(tmp_path / "orqa", wordpiece, "sde", "transformer", "cls", "dot", "orqa")
    listed = tmp_path / "orqa/out/modules.json"
    modules = json.loads(listed.read_text())
    listed.write_text(json.dumps([modules[0], modules[2], modules[1], *modules[3:]]))
    with pytest.raises(DataError, match="found the module Dense in place 1"):
        pretrieve.load(tmp_path / "orqa/out")
    listed.write_text(json.dumps(modules))
    save_file({"norm.bias": torch.zeros(2)}, tmp_path / "orqa/out/4_LayerNorm/model.safetensors")
    with pytest.raises(DataError, match="4_LayerNorm/model.safetensors: has bias; expected the weight of the module"):
        pretrieve.load(tmp_path / "orqa/out")


def test_settings_that_would_change_the_vectors_are_refused(tmp_path: Path, wordpiece: Path) -> None:
    words = Tokenizer.from_file(str(wordpiece))
    save(tmp_path / "own", words, "sde", "transformer", "cls", "dot", "linear")
    for name, value, file in (
        ("truncate_dim", 4, "config_sentence_transformers.json"),
        ("truncation_side", "left", "tokenizer_config.json"),
        ("use_residual", True, "2_Dense/config.json"),
    ):
        export(tmp_path / "own", wordpiece, tmp_path / name, Reading(20, 20))
        path = tmp_path / name / file
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
        with pytest.raises(DataError, match=f"{file}: {name} is '?{value}'?, which changes the vectors; only "):
            pretrieve.load(tmp_path / name)
    export(tmp_path / "own", wordpiece, tmp_path / "beside", Reading(20, 20))
    path = tmp_path / "beside/sentence_bert_config.json"
    before = json.loads(path.read_text())
    for name, value in (
        ("config_kwargs", {"num_hidden_layers": 1}),
        ("tokenizer_args", {"model_max_length": 9, "use_fast": True}),
        ("processing_kwargs", {"text": {"max_length": 6}}),
        ("query_expansion", {"length": 12}),
    ):
        path.write_text(json.dumps(before | {name: value}))
        with pytest.raises(DataError, match=f"sentence_bert_config.json: {name} may change the vectors"):
            pretrieve.load(tmp_path / "beside")
    path.write_text(json.dumps(before | {"tokenizer_args": {"use_fast": True}, "config_args": {}}))
    pretrieve.load(tmp_path / "beside")
    export(tmp_path / "own", wordpiece, tmp_path / "small", Reading(20, 20))
    path = tmp_path / "small/sentence_bert_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"do_lower_case": True}))
    pretrieve.load(tmp_path / "small")  # its tokenizer does so itself
    words.normalizer = normalizers.BertNormalizer(lowercase=False)
    words.save(str(tmp_path / "small/tokenizer.json"))
    with pytest.raises(DataError, match=r"do_lower_case is true, but tokenizer.json keeps capitals"):
        pretrieve.load(tmp_path / "small")


def test_a_tokenizer_of_another_vocabulary(tmp_path: Path, wordpiece: Path) -> None:
    words = Tokenizer.from_file(str(wordpiece))
    save(tmp_path / "own", words, "sde", "transformer", "cls", "dot", "none")
    other = pretrieve.train_wordpiece(["another text"], 40, min_frequency=1)
    with pytest.raises(DataError, match="was made with another vocabulary"):
        pretrieve.load(tmp_path / "own", other)


def test_a_tokenizer_whose_ids_have_gaps(tmp_path: Path, wordpiece: Path) -> None:
    """Its last entry would be behind the body's last."""
    exported(tmp_path, wordpiece, "sde", "transformer", "cls", "dot", "none")
    file = tmp_path / "out/tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    entries = content["model"]["vocab"]
    entries[max(entries, key=entries.get)] += 3
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=f"the tokenizer has {len(entries) + 3} entries, the body {len(entries)}"):
        pretrieve.load(tmp_path / "out")


def test_a_device_that_torch_does_not_have(tmp_path: Path, wordpiece: Path) -> None:
    for device in ("gpu", "cuda:99", 1.5):
        with pytest.raises(
            ConfigError, match=f"device='{device}': .*; expected one that torch has here, such as 'cpu'"
        ):
            pretrieve.load(tmp_path, wordpiece, device=device)


def test_no_directory_is_said() -> None:
    with pytest.raises(ConfigError, match="directory=None; expected the path of a retriever's directory"):
        pretrieve.load(None)


def test_settings_of_bm25_that_are_no_numbers_are_said() -> None:
    for values, said in (({"k1": "1"}, "k1='1'"), ({"b": None}, "b=None")):
        with pytest.raises(ConfigError, match=f"bm25: {said}; expected a number"):
            pretrieve.bm25({"a": "an anchor"}, {"q": "anchor"}, **values)


def test_towers_with_different_vocabularies_are_refused(tmp_path: Path, wordpiece: Path) -> None:
    exported(tmp_path, wordpiece, "ade", "transformer", "cls", "dot", "none")
    (own,) = (tmp_path / "out").glob("document*/tokenizer.json")
    pretrieve.train_wordpiece(["another text"], 40, min_frequency=1).save(str(own))
    with pytest.raises(DataError, match="queries and documents have different vocabularies"):
        pretrieve.load(tmp_path / "out")


def test_search_in_memory_is_exact() -> None:
    rng = np.random.default_rng(1)
    passages, queries = rng.integers(-3, 4, (300, 4)).astype(np.float32), rng.integers(-3, 4, (9, 4)).astype(np.float32)
    ids = [f"d{number:03}" for number in rng.permutation(300)]
    run = pretrieve.search(queries, passages, ids, depth=np.int64(20), threads=np.int64(1))
    for query, found, scores in zip(queries, run.doc_ids, run.scores, strict=True):
        products = passages @ query
        best = sorted(range(300), key=lambda row: (-products[row], ids[row]))[:20]
        assert found == [ids[row] for row in best] and scores.tolist() == [products[row] for row in best]
    with pytest.raises(DataError, match=r"passages of shape \(4,\), expected \(passages, dim\)"):
        pretrieve.search(queries, passages[0])
    with pytest.raises(ConfigError, match="depth=2.0; expected 1 or more, a whole number"):
        pretrieve.search(queries, passages, ids, depth=2.0)
    # A number is no id of a judgement, and of equal ids a metric would count one.
    with pytest.raises(DataError, match=r"passage_ids\[0\]: 0 is int; expected a text"):
        pretrieve.search(queries, passages, range(300))
    with pytest.raises(DataError, match=r"query_ids\[0\]: 0 is int; expected a text"):
        pretrieve.search(queries, passages, ids, query_ids=range(9))
    with pytest.raises(DataError, match="passage_ids: 'd5' occurs twice; give every passage its own id"):
        pretrieve.search(queries, passages, ["d5", *ids[2:], "d5"], depth=1)
    # NumPy makes 0 of 1j, and its other errors do not say which argument is wrong.
    for wrong in (queries * 1j, [[1, 2, 3, 4], [5]], [["a", "b", "c", "d"]], torch.ones((1, 4), requires_grad=True)):
        with pytest.raises(DataError, match=r"dense search: queries: .*; expected a matrix \(queries, dim\) of real"):
            pretrieve.search(wrong, passages)
        with pytest.raises(DataError, match="dense search: passages: .*; expected a matrix"):
            pretrieve.search(queries, wrong)
    assert np.shares_memory(in_memory._numbers(passages, "passages"), passages), "a map of a large file is not copied"
