"""Exported retrievers against sentence-transformers itself: tokens equal, vectors to 1e-5, both sides.

Sentence-transformers loads each directory without network and without code of others, and is given texts; ours are tokenised and
packed as everywhere else here. Texts are longer than the lengths, the lengths of the sides differ, and weights are wide, so that
texts get different vectors.

Seen to fail when: queries are cut as documents are; the ε of a LayerNorm is left as it is; tanh is left out of the pooler; a
bias is left out; pooling is always of the first state; Normalize is left out; the query route has the document's body; the
similarity is always cosine; T5's texts begin with [CLS]; RoBERTa's pairs have two separators; token types are left out;
"[SEP]" in a text becomes the token; prompts are left out; a shared projection is written twice; RoBERTa's
positions are counted from another padding than the vocabulary's; BERT's AutoModel has a pooler; a retriever is written over.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from small_body import byte_level
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.base.program import make_parser
from pretrieve.commands import export as export_command
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import DualEncoder, core, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.joint import JointEncoder, JointShape
from pretrieve.models.retriever_files import save_retriever
from pretrieve.models.sentence_modules import Reading
from pretrieve.retrieval.export import export, projection_modules
from pretrieve.retrieval.model_card import CardFacts
from pretrieve.text.packing import Packed, pack_passages
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import given_tokenizer, vocabulary_sha256
from pretrieve.text.windows import PassageWindows

TEXTS = [
    "A boat.",
    "An anchor holds the boat to the bed of the sea, where many animals live; it is dark there!",
    "Iron came later, [SEP] with the [MASK] boats of the <mask> north. " * 4,
    "Café",
    "it is made of iron and it is smaller than a ship and steady at sea",
]
PAIRS = [("A ship.", TEXTS[1]), ("Iron.", TEXTS[2]), ("Café", "Café and a boat")]
QUERY_LENGTH, PASSAGE_LENGTH = 9, 21
TOLERANCE = 1e-5


def sentence_piece() -> Tokenizer:
    """T5's kind."""
    pieces = [(entry, 0.0) for entry in ("<pad>", "</s>", "<unk>")]
    pieces += [(f"▁{word}", -2.0) for word in ("the", "boat", "sea", "it", "is", "iron", "of", "dark", "anchor")]
    pieces += [(piece, -4.0) for piece in ("s", ".", "▁", "e", "a", "n", "i", "r", "o", "t")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return tokenizer


#: Body → (vocabulary, what its configuration adds)
BODIES = {
    "bert": ("wordpiece", {}),
    "roberta": ("bytes", {"family": "roberta", "segments": 1, "position_offset": 2}),
    "seed": ("wordpiece", {"family": "roberta", "segments": 0, "position_offset": 2}),
    "electra": ("wordpiece", {"family": "electra"}),
    "t5": ("pieces", {"kind": "t5", "head_size": 8, "layer_norm_eps": 1e-6}),
    "t5-wordpiece": ("wordpiece", {"kind": "t5", "head_size": 8, "layer_norm_eps": 1e-6}),
}


class Made:
    """A retriever of a body, its texts tokenised here, and what is exported of it."""

    def __init__(self, directory: Path, body: str, tokenizer: Path, make: Callable[[BodyConfig], DualEncoder]) -> None:
        self.directory, self.tokenizer, self.out = directory, tokenizer, directory / "exported"
        words = given_tokenizer(tokenizer)
        shape = {"hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 40, "dropout": 0.1}
        wide = {"std": 0.3, "word_std": 0.5}
        config = BodyConfig(vocabulary_size=words.get_vocab_size(), **{**shape, **wide, **BODIES[body][1]})
        self.dual = make(config)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for tower in {core(self.dual.query), core(self.dual.document)}:
                for parameter in tower.projection.parameters():
                    parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
            if self.dual.separate:
                core(self.dual.query).body.layers[0].load_state_dict(core(self.dual.query).body.layers[1].state_dict())
        about = {"vocabulary_sha256": vocabulary_sha256(words), "size": "10pct", "finetuning": {"recipe": "reqa"}}
        save_retriever(directory / "retriever", self.dual, about=about)
        self.dual.eval()
        texts = [PassageText([text], n, n) for n, text in enumerate(TEXTS)]
        pairs = [PassageText([text], n, n) for n, pair in enumerate(PAIRS) for text in [pair[1]]]
        firsts = [PassageText([pair[0]], len(pairs) + n, len(pairs) + n) for n, pair in enumerate(PAIRS)]
        kind = config.kind
        self.texts: TokenStore = write_token_store(directory / "texts", words, texts).read_by(kind)
        self.pairs: TokenStore = write_token_store(directory / "pairs", words, [*pairs, *firsts]).read_by(kind)

    def packed(self, length: int) -> Packed:
        return pack_passages(self.texts, np.arange(len(TEXTS)), length)

    def packed_pairs(self, length: int) -> Packed:
        n = len(PAIRS)
        return PassageWindows(self.pairs, np.arange(n, 2 * n), np.arange(n), length, 1).pack(np.arange(n))

    def vectors(self, side: str, packed: Packed) -> np.ndarray:
        tower = getattr(self.dual, side)
        with torch.no_grad():
            return tower(Batch.of(packed)).numpy()

    def export(self, prompt: str = "", facts: CardFacts | None = None, part: str = "") -> Path:
        reading = Reading(QUERY_LENGTH, PASSAGE_LENGTH, prompt)
        export(self.directory / "retriever", self.tokenizer, self.out, reading, facts, part)
        return self.out


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory, wordpiece: Path) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("vocabularies")
    paths = {"wordpiece": wordpiece}
    for name, tokenizer in (("bytes", byte_level()), ("pieces", sentence_piece())):
        paths[name] = directory / f"{name}.json"
        tokenizer.save(str(paths[name]))
    return paths


@pytest.fixture
def made(vocabularies, tmp_path: Path) -> Callable[..., Made]:
    def make(
        body: str = "bert", sharing: str = "sde", head: str = "linear", similarity: str = "cosine", **options
    ) -> Made:
        pooling = options.get("pooling", "mean" if body.startswith("t5") else "cls")

        def retriever(config: BodyConfig) -> DualEncoder:
            dim = config.hidden if head == "none" else 12
            return dual_encoder(Encoder(config, dim, pooling, 3, similarity, head), sharing, seed=5)

        return Made(tmp_path, body, vocabularies[BODIES[body][0]], retriever)

    return make


@pytest.fixture(scope="module")
def load():
    """sentence-transformers, without network."""
    library = pytest.importorskip("sentence_transformers")
    return lambda directory: library.SentenceTransformer(str(directory), device="cpu", local_files_only=True)


def spread(vectors: np.ndarray) -> float:
    """The least distance of two of the vectors."""
    distance = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    return float(distance[np.triu_indices(len(vectors), 1)].min())


def check_sides(made: Made, model) -> None:
    for side, length, encode in (
        ("query", QUERY_LENGTH, model.encode_query),
        ("document", PASSAGE_LENGTH, model.encode_document),
    ):
        ours = made.vectors(side, made.packed(length))
        assert np.abs(encode(TEXTS) - ours).max() <= TOLERANCE
        assert spread(ours) > 1e-2
    pairs = made.vectors("document", made.packed_pairs(PASSAGE_LENGTH))
    assert np.abs(model.encode_document(PAIRS) - pairs).max() <= TOLERANCE and spread(pairs) > 1e-2
    queries = made.vectors("query", made.packed(QUERY_LENGTH))
    documents = made.vectors("document", made.packed(PASSAGE_LENGTH))
    scores = model.similarity(model.encode_query(TEXTS), model.encode_document(TEXTS)).numpy()
    assert np.abs(scores - queries @ documents.T).max() <= 1e-4


@pytest.mark.parametrize("sharing", ["sde", "ade"])
@pytest.mark.parametrize("body", BODIES)
def test_bodies(made, load, body: str, sharing: str) -> None:
    retriever = made(body, sharing)
    model = load(retriever.export())
    check_sides(retriever, model)
    # AutoModel would give BERT a pooler with random weights.
    assert not [name for name, _ in model.named_parameters() if "pooler" in name]
    if sharing == "ade":
        packed = retriever.packed(QUERY_LENGTH)
        assert np.abs(retriever.vectors("query", packed) - retriever.vectors("document", packed)).max() > 0.1


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("head", ["none", "linear", "linear-norm", "linear-no-bias", "orqa"])
def test_heads(made, load, head: str, similarity: str) -> None:
    retriever = made(head=head, similarity=similarity, pooling="mean" if similarity == "dot" else "cls")
    model = load(retriever.export())
    check_sides(retriever, model)
    assert model.similarity_fn_name == similarity


@pytest.mark.parametrize("epsilon", [1e-12, 1e-5, 1e-3])
def test_the_eps_of_a_layer_norm(made, load, epsilon: float) -> None:
    """Where it matters: what is normed has a deviation of about 1e-3."""
    retriever = made(head="orqa", similarity="dot")
    projection = retriever.dual.document.projection
    with torch.no_grad():
        projection.dense.weight.mul_(1e-3)
        projection.dense.bias.mul_(1e-3)
    projection.norm.eps = epsilon
    pooler, dense, norm = projection_modules(projection)
    assert [module.kind for module in (pooler, dense, norm)] == ["Dense", "Dense", "LayerNorm"]
    linear, layer = nn.Linear(16, 12), nn.LayerNorm(12)
    linear.load_state_dict({name.removeprefix("linear."): t for name, t in dense.tensors.items()})
    layer.load_state_dict({name.removeprefix("norm."): t for name, t in norm.tensors.items()})
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = projection.eval()(x)
        pooled = torch.tanh(projection.pooler(x))
        assert (layer(linear(pooled)) - wanted).abs().max() <= TOLERANCE
        plain = layer(projection.dense(pooled))
    assert (plain - wanted).abs().max() > 1e-2 or epsilon == 1e-5


@pytest.mark.parametrize("sharing", ["ade-ste", "ade-fte", "ade-spl"])
def test_sharings(made, load, sharing: str) -> None:
    retriever = made(sharing=sharing, head="linear-norm")
    model = load(retriever.export())
    check_sides(retriever, model)
    structure = json.loads((retriever.out / "router_config.json").read_text())["structure"]
    shared = set(structure["query"]) & set(structure["document"])
    assert len(shared) == (2 if sharing == "ade-spl" else 0)  # Dense and LayerNorm


@pytest.mark.parametrize("body", BODIES)
def test_tokens(made, load, body: str) -> None:
    """Special tokens that stand in a text as well, as ours reads them; and pairs with their segments."""
    retriever = made(body)
    model = load(retriever.export())
    for packed, texts in ((retriever.packed(PASSAGE_LENGTH), TEXTS), (retriever.packed_pairs(PASSAGE_LENGTH), PAIRS)):
        theirs = model.preprocess(texts, task="document")
        for place, example in enumerate(packed.order):
            rows, kept = packed.rows(place, place + 1), theirs["attention_mask"][example].bool()
            assert theirs["input_ids"][example][kept].tolist() == packed.tokens[rows].tolist()
            if retriever.dual.config.kind == "transformer" and retriever.dual.config.segments > 1:
                assert theirs["token_type_ids"][example][kept].tolist() == packed.segments[rows].tolist()
        assert packed.lengths.max() == PASSAGE_LENGTH and ("token_type_ids" in theirs) == (body in ("bert", "electra"))


def test_prompts(made, load) -> None:
    retriever = made()
    model = load(retriever.export(prompt="A boat. "))
    prompted, plain = model.encode_query(["Café"]), model.encode_document(["Café", "A boat. Café"])
    assert np.abs(prompted[0] - plain[1]).max() <= TOLERANCE and np.abs(prompted[0] - plain[0]).max() > 1e-2
    assert "`A boat. ` in front of every query" in (retriever.out / "README.md").read_text()


def joint(directory: Path, tokenizer: Path, parts: str, sharing: str = "ade") -> Made:
    build = lambda config: dual_encoder(JointEncoder(config, JointShape(12, 5, parts), seed=4), sharing, seed=5)
    return Made(directory / f"{parts}-{sharing}", "bert", tokenizer, build)


def test_joint_is_its_cls_part_if_asked(vocabularies, load, tmp_path: Path) -> None:
    both = joint(tmp_path, vocabularies["wordpiece"], "both")
    model = load(both.export(part="cls"))
    for side, length, encode in (
        ("query", QUERY_LENGTH, model.encode_query),
        ("document", PASSAGE_LENGTH, model.encode_document),
    ):
        ours = both.vectors(side, both.packed(length))[:, :12]
        assert np.abs(encode(TEXTS) - ours).max() <= TOLERANCE and spread(ours) > 1e-2
    assert "the [CLS] part of a joint representation alone" in (both.out / "README.md").read_text()
    alone = joint(tmp_path, vocabularies["wordpiece"], "cls", "sde")
    check_sides(alone, load(alone.export()))


# What needs no other library ----------------------------------------------------------------------------------------


def test_a_joint_score_is_refused(vocabularies, tmp_path: Path) -> None:
    both, words = (joint(tmp_path, vocabularies["wordpiece"], parts) for parts in ("both", "ot"))
    with pytest.raises(ConfigError, match="half of its joint score is lexical.*--part cls"):
        both.export()
    for part in ("", "cls"):
        with pytest.raises(ConfigError, match="words alone"):
            words.export(part=part)
    assert not both.out.exists() and not words.out.exists()


def test_refused(made, vocabularies, tmp_path: Path) -> None:
    retriever = made()
    with pytest.raises(ConfigError, match="has no parts"):
        retriever.export(part="cls")
    with pytest.raises(ConfigError, match="part 'ot' is not allowed"):
        retriever.export(part="ot")
    with pytest.raises(ConfigError, match="length 99, but the body of .*retriever has 40 positions"):
        export(tmp_path / "retriever", retriever.tokenizer, retriever.out, Reading(9, 99))
    with pytest.raises(DataError, match="pieces.json: vocabulary .* was made with"):
        export(tmp_path / "retriever", vocabularies["pieces"], retriever.out, Reading(9, 9))
    with pytest.raises(DataError, match="none.json: no metrics file"):
        retriever.export(facts=CardFacts([tmp_path / "none.json"]))
    before = {path: path.read_bytes() for path in (tmp_path / "retriever").rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="retriever: is a retriever or an encoder, .* a directory of its own"):
        export(tmp_path / "retriever", retriever.tokenizer, tmp_path / "retriever", Reading(9, 9))
    assert before == {path: path.read_bytes() for path in (tmp_path / "retriever").rglob("*") if path.is_file()}
    build = lambda config: dual_encoder(
        Encoder(BodyConfig("bow-mlp", config.vocabulary_size, 16, feed_forward=16, heads=1), 12, "mean", 3), "sde", 5
    )
    with pytest.raises(ConfigError, match="cannot hold a BoW-MLP"):
        Made(tmp_path / "bow", "bert", vocabularies["wordpiece"], build).export()


def test_the_program_and_its_card(made, program, tmp_path: Path) -> None:
    retriever, scores = made(), tmp_path / "seed1.json"
    write_json(scores, {"run": "runs/x.gz", "n_queries": 1200, "n_candidates": 34, "metrics": {"mrr@10": 0.51239}})
    arguments = ["--retriever", tmp_path / "retriever", "--tokenizer", retriever.tokenizer, "--query-length", 9]
    arguments += ["--passage-length", 21, "--metrics", scores, "--licences", "questions: CC BY-SA 4.0"]
    done: subprocess.CompletedProcess = program("workflow_scripts/export.py", *arguments, "--out", retriever.out)
    assert done.returncode == 0, done.stderr
    card = (retriever.out / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: sentence-transformers\n") and "license: other" in card
    for line in (
        "| mrr@10 | 0.5124 |",
        "`runs/x.gz`: 1,200 queries, 34 candidates.",
        "| `recipe` | reqa |",
        "| `size` | 10pct |",
        "- **Licence of the data**: questions: CC BY-SA 4.0",
        "- **Base model**: none is recorded.",
        "Queries are cut to 9 tokens and documents to 21",
        "There are no prompts.",
    ):
        assert line in card, line
    first = {path.relative_to(retriever.out): path.read_bytes() for path in retriever.out.rglob("*") if path.is_file()}
    again = tmp_path / "again"
    export(
        tmp_path / "retriever",
        retriever.tokenizer,
        again,
        Reading(9, 21),
        CardFacts([scores], ["questions: CC BY-SA 4.0"]),
    )
    assert {path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()} == first
    for words, said in (
        (["--part", "cls"], ""),
        (["--query-length", 2], "--query-length=2; expected 3 or more, special tokens included"),
        (
            ["--prompts", '{"qery": "q: "}'],
            "--prompts: qery; expected no keys but query and document.",
        ),
        (["--prompts", '{"query": 5}'], "--prompts: query is 5; expected a text"),
    ):
        options = [*arguments, *words, "--out", retriever.out]
        with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
            export_command.main(make_parser(export_command).parse_args([*map(str, options)]))
