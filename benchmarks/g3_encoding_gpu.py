"""G3: encoding on a GPU in bf16 against sentence-transformers in bf16, and exact search there against plain torch.

**encode.** Bodies of 12 x 768 (BERT-base) and 6 x 384, random weights, V = 30,522; 20,000 texts of random tokens with the lengths
of web passages, at most 128; the vector is the state of [CLS]. Ours is ``pretrieve.retrieval.embed.encode``: from a token store
to float32 vectors on the CPU, packed by token budget, in autocast. Peers, with weights in bf16, on the same token ids:

* sentence-transformers: the modules of a ``SentenceTransformer`` (Transformer, Pooling), called batch by batch as its ``encode``
  does, each batch's vectors moved to the CPU. Its tokenising is left out: it is done on the CPU and would hide the GPU;
* ``BertModel`` with torch's fused attention, nothing but the body.

Both get texts sorted by length and padded to the longest of a batch, ready-made as tensors; what is timed is moving them and the
forward pass, while ours also lays out its batches. Each peer has the batch size of 32 (the default), 256 and 1,024 that is the
fastest for it. First, equality: cosines to BertModel in fp32 are at least 0.999, and each vector is nearest to its own text's.

Share of the rate: operations that [CLS] vectors need of real tokens (the last layer's keys and values are for all tokens, the
rest of that layer for [CLS]), over the rate of an 8192³ product in bf16, measured in the same run.

**search.** The 100 best of 1 million random unit vectors of 768 dimensions, for 32 and 1,000 queries, all float32 in the memory
of the CPU, results too. *search* is all that the project does, and *again* the same for a store whose longest vector is
known from the search before; *top_k* is its first pass alone, in torch, also where faiss is installed. The peer moves the vectors
to the GPU part by part, multiplies, and merges the best of the parts; *there* has the vectors on the GPU. First, equality: scores
agree to 1e-5.

Elapsed seconds, interleaved, the GPU waited for. Each part writes its result when it is done: ``g3_encoding_gpu.json`` and
``g3_search_gpu.json``. There is no result of either yet.

    PYTHONPATH=src python benchmarks/g3_encoding_gpu.py [--only encode|search]
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import steps
import torch
from g1_pretraining_gpu import interleave, product_rate, synchronise, with_cudnn
from plain_hf import as_bert_model, as_sentence_transformer, made_up_vocabulary
from transformers import BertModel

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.retrieval import products
from pretrieve.retrieval.embed import encode
from pretrieve.retrieval.in_memory import MatrixReader
from pretrieve.retrieval.search import search
from pretrieve.text.packing import Packed, pack_passages
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import from_vocab_file, vocabulary_sha256
from pretrieve.training.device import Device, choose_device

PARTS = ("encode", "search")
BODIES = {"12x768": (12, 768, 12), "6x384": (6, 384, 12)}  # layers, hidden, heads
SMALL_BODIES = {"3x64": (3, 64, 4)}
VOCABULARY, LENGTH, SIZES, SAMPLE, SEED = 30522, 128, (32, 256, 1024), 200, 1
TARGETS = {"passages_per_s": 36_000, "sentence-transformers": 2.0}
COUNTS, DEPTH = (32, 1000), 100
#: Vectors whose scores the peer holds at a time: with 1,000 queries half a gigabyte.
CHUNK = 131_072
Batches = list[tuple[torch.Tensor, torch.Tensor]]
Run = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def padded(packed: Packed, size: int) -> Batches:
    """Ids and mask (texts, longest) int64 of ``size`` texts each, in packed order, which is that of length."""
    rows = steps.rows_of(packed.tokens, packed.lengths)
    batches = []
    for first in range(0, len(rows), size):
        ids = steps.padded(rows[first : first + size], 0)
        lengths = torch.from_numpy(packed.lengths[first : first + size])
        batches.append((ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()))
    return batches


def in_batches(run: Run, batches: Batches, device: torch.device) -> np.ndarray:
    """(texts, hidden) float32 in packed order, from a function of ids and mask."""
    with torch.inference_mode():
        found = [run(ids.to(device), mask.to(device)).float().cpu() for ids, mask in batches]
    return torch.cat(found).numpy()


def first_states(model: BertModel) -> Run:
    return lambda ids, mask: model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]


def sentence_transformer(encoder: Encoder, device: torch.device) -> Run | None:
    """The encoder in sentence-transformers, in bf16, with a vocabulary of made-up words; None where that is not installed."""
    with tempfile.TemporaryDirectory() as name:
        vocabulary = made_up_vocabulary(Path(name), encoder.config.vocabulary_size)
        sha256, settings = vocabulary_sha256(from_vocab_file(vocabulary)), {"model_kwargs": {"dtype": torch.bfloat16}}
        model = as_sentence_transformer(encoder, vocabulary, sha256, LENGTH, device=str(device), **settings)
    if model is None:
        return None
    kinds = {parameter.dtype for parameter in model.eval().parameters()}
    if kinds != {torch.bfloat16}:
        raise SystemExit(f"sentence-transformers has weights of {kinds}; expected bf16.")
    return lambda ids, mask: model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]


def check(name: str, vectors: np.ndarray, exact: np.ndarray) -> float:
    """The least cosine of vectors (n, hidden) to those of fp32, which are as many; SystemExit when they are not the same."""
    one, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (vectors, exact))
    cosines = one @ other.T
    least, own = float(np.diag(cosines).min()), int((cosines.argmax(axis=1) == np.arange(len(one))).sum())
    if not least >= 0.999 or own < len(one):
        raise SystemExit(
            f"{name}: cosines to fp32 are as low as {least:.6f}, expected at least 0.999; "
            f"{own} of {len(one)} vectors are nearest to their own text's, expected all."
        )
    return round(least, 6)


def operations(config: BodyConfig, lengths: np.ndarray) -> float:
    """Of the [CLS] vectors of texts (n,): products of all layers but the last for every token, of that one as said above."""
    tokens, squares, n = int(lengths.sum()), int((lengths**2).sum()), len(lengths)
    d, inner = config.hidden, config.feed_forward
    full = (config.layers - 1) * (2 * (4 * d * d + 2 * d * inner) * tokens + 4 * d * squares)
    return full + 4 * d * d * tokens + 2 * (2 * d * d + 2 * d * inner) * n + 4 * d * tokens


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Elapsed seconds."""
    synchronise(device)
    begun = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - begun


def fastest(run: Run, packed: Packed, device: torch.device) -> tuple[Batches, dict[int, float]]:
    """The batches of the size that takes least time, and the seconds by size, each the less of two calls."""
    batches = {size: padded(packed, size) for size in SIZES}
    seconds = {}
    for size, mine in batches.items():
        calls = [timed(lambda mine=mine: with_cudnn(in_batches)(run, mine, device), device) for _ in range(2)]
        seconds[size] = round(min(calls), 4)
    return batches[min(seconds, key=seconds.__getitem__)], seconds


def encode_one(config: BodyConfig, store: TokenStore, rounds: int, device: torch.device) -> dict[str, Any]:
    """Check and measure one body."""
    encoder = Encoder(config, config.hidden, "cls", SEED, "dot", "none").eval()
    exact = as_bert_model(encoder.body, attn_implementation="sdpa").to(device)
    runs = {"BertModel": first_states(copy.deepcopy(exact).to(torch.bfloat16))}
    library = sentence_transformer(encoder, device)
    if library is not None:
        runs["sentence-transformers"] = library
    encoder.to(device)
    rows = np.arange(store.n_passages)
    layouts: list[float] = []

    def pack(chosen: np.ndarray) -> Packed:
        begun = time.perf_counter()
        packed = pack_passages(store, chosen, LENGTH)
        layouts.append(time.perf_counter() - begun)
        return packed

    def ours(chosen: np.ndarray = rows) -> np.ndarray:
        return encode(encoder, pack, chosen, Device(device, True))

    packed = pack_passages(store, rows, LENGTH)
    sample = pack_passages(store, rows[:SAMPLE], LENGTH)
    reference = in_batches(first_states(exact), padded(sample, 32), device)
    least = {"ours": check("ours", ours(rows[:SAMPLE])[sample.order], reference)}
    least |= {name: check(name, in_batches(run, padded(sample, 32), device), reference) for name, run in runs.items()}
    del exact
    ours()
    best = {name: fastest(run, packed, device) for name, run in runs.items()}
    variants: dict[str, Callable[[int], object]] = {"ours": lambda _: ours()}
    for name, run in runs.items():
        variants[name] = lambda _, run=run, batches=best[name][0]: with_cudnn(in_batches)(run, batches, device)
    layouts.clear()
    times = interleave(variants, rounds, device, untimed=0)  # all have been called
    medians = {name: statistics.median(values) for name, values in times.items()}
    work = operations(config, packed.lengths)
    return {
        "least_cosine": least,
        "seconds_by_batch_size": {name: seconds for name, (_, seconds) in best.items()},
        "seconds": times,
        "laying_out_s": round(sum(layouts) / rounds, 4),
        "passages_per_s": {name: round(len(rows) / value, 1) for name, value in medians.items()},
        "tokens_per_s": {name: round(len(packed.tokens) / value) for name, value in medians.items()},
        "operations_per_s": {name: round(work / value) for name, value in medians.items()},
        "ratio": common.ratios(times, "ours"),
    }


def measure_encoding(args: argparse.Namespace, device: torch.device) -> None:
    """All bodies, each with its table; written at the end."""
    rate = product_rate(device, 256 if args.small else 8192)
    vocabulary, rng, results = 512 if args.small else VOCABULARY, np.random.default_rng(SEED), {}
    lengths = steps.web_lengths(args.passages, rng)
    with tempfile.TemporaryDirectory() as directory:
        store = steps.random_store(Path(directory), vocabulary, lengths - 2, rng)
        for name, (layers, hidden, heads) in (SMALL_BODIES if args.small else BODIES).items():
            shape = {"layers": layers, "hidden": hidden, "heads": heads, "feed_forward": 4 * hidden}
            # Wider than BERT's initial weights, with which all texts have nearly the same vector.
            config = BodyConfig(vocabulary_size=vocabulary, std=hidden**-0.5, word_std=hidden**-0.5, **shape)
            found = results[name] = encode_one(config, store, args.rounds, device)
            found["share"] = {n: round(value / rate, 4) for n, value in found["operations_per_s"].items()}
            ratio = {n: value["median"] for n, value in found["ratio"].items()}
            columns = [found["passages_per_s"], found["tokens_per_s"], found["share"], ratio]
            common.table(
                f"G3: {name}, {args.passages:,} texts, mean {lengths.mean():.0f} tokens; laying out ours takes "
                f"{found['laying_out_s']} s of {statistics.median(found['seconds']['ours']):.4f}",
                ["variant", "passages/s", "tokens/s", "share of the rate", "ours is faster by"],
                [[n, *(column.get(n, "") for column in columns)] for n in found["seconds"]],
            )
            print(f"  seconds by batch size: {found['seconds_by_batch_size']}; least cosines: {found['least_cosine']}")
            if "sentence-transformers" in ratio:
                verdict = common.verdict(ratio["sentence-transformers"], TARGETS["sentence-transformers"])
                print(f"  sentence-transformers: {verdict}")
            if name == "12x768":
                verdict = common.verdict(found["passages_per_s"]["ours"], TARGETS["passages_per_s"])
                print(f"  passages/s: {verdict}")
    if not args.small:
        gpu = torch.cuda.get_device_name(device)
        packages = ("torch", "transformers", "numpy")
        about = {"gpu": gpu, "rate": rate, "passages": args.passages, "mean_tokens": round(float(lengths.mean()), 2)}
        common.write("g3_encoding_gpu", args, packages, **about, targets=TARGETS, results=results)


def unit_vectors(count: int, dim: int, device: torch.device) -> torch.Tensor:
    """(count, dim) float32 random unit vectors on the device."""
    generator = torch.Generator(device).manual_seed(count)
    return torch.nn.functional.normalize(torch.randn(count, dim, generator=generator, device=device), dim=1)


def plain_search(queries: np.ndarray, vectors: torch.Tensor, k: int, device: torch.device) -> np.ndarray:
    """Scores (Q, k) float32 descending of the best of ``vectors`` (n, dim), which are moved to the device if they are not there;
    the peer finds their rows too."""
    asked = torch.from_numpy(queries).to(device)
    scores, rows = [], []
    for first in range(0, len(vectors), CHUNK):
        part = vectors[first : first + CHUNK].to(device)
        best, found = (asked @ part.T).topk(min(k, len(part)), dim=1)
        scores.append(best)
        rows.append(found + first)
    best, order = torch.cat(scores, dim=1).topk(k, dim=1)
    torch.cat(rows, dim=1).gather(1, order).cpu()
    return best.cpu().numpy()


def measure_search(args: argparse.Namespace, device: torch.device) -> None:
    """Both numbers of queries; written at the end."""
    products.has_faiss = lambda: False  # faiss-cpu, where it is installed, would search on the CPU
    there = unit_vectors(args.documents, 64 if args.small else 768, device)
    vectors = there.cpu().numpy()
    here, kept, ids, results = torch.from_numpy(vectors), MatrixReader(vectors), list(map(str, range(len(vectors)))), {}
    for count in COUNTS:
        queries = unit_vectors(count, vectors.shape[1], device).cpu().numpy()

        def scores(reader: MatrixReader, queries: np.ndarray = queries) -> np.ndarray:
            return np.stack(search(reader, queries, ids, DEPTH).scores)

        variants: dict[str, Callable[[int], np.ndarray]] = {
            "ours, search": lambda _, scores=scores: scores(MatrixReader(vectors)),
            "ours, again": lambda _, scores=scores: scores(kept),
            "ours, top_k": lambda _, queries=queries: products.top_k(queries, vectors, DEPTH, 1)[0],
            "torch": lambda _, queries=queries: plain_search(queries, here, DEPTH, device),
            "torch, there": lambda _, queries=queries: plain_search(queries, there, DEPTH, device),
        }
        exact = variants["ours, again"](0)
        for name, variant in variants.items():
            difference = float(np.abs(variant(0) - exact).max())
            if not difference <= 1e-5:
                raise SystemExit(f"{name}, {count} queries: scores differ by {difference} from those of exact search.")
        times = interleave(variants, args.rounds, device, untimed=0)
        results[count] = {
            "seconds": times,
            "ratio_search": common.ratios(times, "ours, search"),
            "ratio_top_k": common.ratios(times, "ours, top_k"),
        }
        medians = common.medians(times)
        common.table(
            f"G3: the {DEPTH} best of {len(vectors):,} x {vectors.shape[1]} for {count} queries",
            ["variant", "s", "GB of vectors/s", "top_k is faster by"],
            [
                [n, value, vectors.nbytes / value / 1e9, common.middle(results[count]["ratio_top_k"], n)]
                for n, value in medians.items()
            ],
        )
    if not args.small:
        gpu = torch.cuda.get_device_name(device)
        about = {"gpu": gpu, "documents": len(vectors), "dim": vectors.shape[1], "depth": DEPTH}
        common.write("g3_search_gpu", args, ("torch", "numpy"), **about, results=results)


def main() -> None:
    parser = common.parser(__doc__, rounds=5, passages=20_000, documents=1_000_000)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--small", action="store_true", help="a check of this script on any machine; smaller sizes")
    args = parser.parse_args()
    if not args.small and not torch.cuda.is_available():
        raise SystemExit("G3 measures a GPU and there is none here: nothing was measured (--small checks the script).")
    if args.small:
        args.passages, args.documents = min(args.passages, 80), min(args.documents, 5000)
    device = choose_device().device
    measures = {"encode": measure_encoding, "search": measure_search}
    for name in args.only:
        measures[name](args, device)


if __name__ == "__main__":
    main()
