"""C3: encode 5,000 passages with a 4-layer, 256-d encoder, against sentence-transformers and ``transformers.BertModel``.

Passages of the demo's corpus, cut to 128 tokens. Ours is ``pretrieve.retrieval.embed.encode``: packed by token budget, the last
layer for [CLS] only. Peers:

* ``SentenceTransformer(directory).encode_document(texts)`` as it is after loading: batches of 32, sorted by length. The
  directory is what ``pretrieve.retrieval.export`` writes. It is given texts, and so is *ours, from text*;
* BertModel on token ids: batches in the given order, padded to the longest (what a loop over passages does), and sorted by length
  first (nothing but the body). *ours* has its token ids too.

One fifth of the passages makes a round. First, equality: all vectors agree to 1e-4. fp32; where the CPU
multiplies bf16 (AMX or AVX512-BF16), ours is compared in bf16, and peers are there in bf16 too: in autocast, as ours, and with
their weights in bf16. The cosines of those vectors to ours in fp32 are at least 0.99. The best tuned peer is the fastest of
BertModel's, sorted.
sentence-transformers is measured where it is installed (``PRETRIEVE_PEERS``).

    PYTHONPATH=src python benchmarks/c3_encode.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import copy
import statistics
from collections.abc import Callable

import numpy as np
import steps
import torch
from plain_hf import as_bert_model, as_sentence_transformer
from torch.nn import functional
from transformers import BertModel

from pretrieve.corpora.tables import read_table
from pretrieve.models.encoder import Encoder
from pretrieve.retrieval.embed import encode
from pretrieve.text.encode_words import encode_texts
from pretrieve.text.packing import Part, constant, pack, pack_passages, passage_spans
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import load_tokenizer
from pretrieve.training.device import Device, choose_device, cpu_multiplies_bf16

LENGTH, BATCH, DIM = 128, 32, 128
TARGETS = {"sentence-transformers": 6.0, "best tuned": 1.8}


def check_equal(exact: np.ndarray, others: list[np.ndarray]) -> float:
    """Their largest difference."""
    difference = max(float(np.abs(exact - other).max()) for other in others)
    if not difference <= 1e-4:
        raise SystemExit(f"vectors differ by {difference}; expected at most 1e-4.")
    return difference


def main() -> None:
    args = common.arguments(__doc__, rounds=5, passages=5000)
    choose_device("fp32", 1)
    multiplies_bf16 = cpu_multiplies_bf16()
    corpus = common.demo_corpus()
    store, tokenizer = TokenStore(corpus / "tokens"), load_tokenizer(corpus / "tokenizer.json")
    rows = np.random.default_rng(0).permutation(store.n_passages)[: args.passages]
    rows = rows[passage_spans(store, rows)[1] > 0]
    encoder = Encoder(steps.body(store.vocabulary_size), DIM, "cls", 1).eval()
    model = as_bert_model(encoder.body)

    def ids(row: int) -> np.ndarray:
        (start,), (length,) = passage_spans(store, np.array([row]))
        body = np.asarray(store.tokens[start : start + min(length, LENGTH - 2)], dtype=np.int64)
        return np.concatenate([[store.special.cls], body, [store.special.sep]])

    texts = {int(row): torch.from_numpy(ids(int(row))) for row in rows}

    low = copy.deepcopy(model).to(torch.bfloat16)

    def peer(part: np.ndarray, by_length: bool, bf16: bool = False, body: BertModel = model) -> np.ndarray:
        lengths = np.array([len(texts[int(row)]) for row in part])
        order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(part))
        vectors = np.empty((len(part), DIM), dtype=np.float32)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            for begin in range(0, len(part), BATCH):
                chosen = order[begin : begin + BATCH]
                batch = [texts[int(part[i])] for i in chosen]
                tokens = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
                mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(t) for t in batch], batch_first=True)
                states = body(input_ids=tokens, attention_mask=mask).last_hidden_state[:, 0]
                vectors[chosen] = functional.normalize(encoder.projection(states).float(), dim=-1).numpy()
        return vectors

    def ours(part: np.ndarray, bf16: bool = False) -> np.ndarray:
        device = Device(torch.device("cpu"), bf16)
        return encode(encoder, lambda chosen: pack_passages(store, chosen, LENGTH), part, device)

    written = read_table(corpus / "passages.parquet", ["text"])["text"]

    def ours_from_text(part: np.ndarray, bf16: bool = False) -> np.ndarray:
        (ids, lengths), *_ = encode_texts(tokenizer, [written[int(row)].as_py() for row in part])
        starts = np.cumsum(lengths) - lengths

        def pack_texts(chosen: np.ndarray):
            cls, sep = (constant(token, len(chosen)) for token in (store.special.cls, store.special.sep))
            return pack([cls, Part(ids, starts[chosen], lengths[chosen]), sep], LENGTH)

        return encode(encoder, pack_texts, np.arange(len(part)), Device(torch.device("cpu"), bf16))

    def library(part: np.ndarray, bf16: bool = False) -> np.ndarray:
        model = models[bf16]
        texts = [written[int(row)].as_py() for row in part]
        return model.encode_document(texts, show_progress_bar=False, convert_to_numpy=True).astype(np.float32)

    precisions = {False, multiplies_bf16}
    exported = (encoder, corpus / "tokenizer.json", store.meta["vocabulary_sha256"], LENGTH)
    settings = {False: {}, True: {"model_kwargs": {"torch_dtype": torch.bfloat16}}}
    models = {bf16: as_sentence_transformer(*exported, device="cpu", **settings[bf16]) for bf16 in precisions}
    parts = np.array_split(rows, args.rounds)
    vectors: dict[str, list[np.ndarray]] = {}

    def of(name: str, function, *options) -> dict[str, Callable[[int], None]]:
        return {name: lambda index: vectors.setdefault(name, []).append(function(parts[index], *options))}

    variants = of("ours", ours) | of("HF, given order", peer, False) | of("HF, sorted", peer, True)
    if models[False] is not None:
        variants |= of("ours, from text", ours_from_text) | of("sentence-transformers", library)
    fp32 = [name for name in variants if name != "ours"]
    if multiplies_bf16:
        variants |= of("ours, bf16", ours, True) | of("HF, given order, bf16", peer, False, True)
        variants |= of("HF, sorted, bf16", peer, True, True) | of("HF, sorted, bf16 weights", peer, True, True, low)
        if models[True] is not None:
            variants |= of("ours, from text, bf16", ours_from_text, True)
            variants |= of("sentence-transformers, bf16", library, True)
    first = parts[0][:200]
    check_equal(ours(first), [peer(first, by_length) for by_length in (False, True)])
    times = common.interleave(variants, args.rounds, warm_up=False)
    found = {name: np.concatenate(some) for name, some in vectors.items()}
    exact = found["ours"]
    difference = check_equal(exact, [found[name] for name in fp32])
    least = {name: float((exact * found[name]).sum(1).min()) for name in variants if name not in {"ours", *fp32}}
    if any(cosine < 0.99 for cosine in least.values()):
        raise SystemExit(f"cosines of bf16 to fp32 are as low as {least}; expected at least 0.99.")
    lengths = np.array([len(text) for text in texts.values()])
    padded = sum(int(lengths[i : i + BATCH].max()) * len(lengths[i : i + BATCH]) for i in range(0, len(lengths), BATCH))
    fill = float(lengths.sum() / padded)
    suffix = common.BF16 * multiplies_bf16
    best = f"ours{suffix}"
    ratio = common.ratios(times, best)
    if "ours, from text" in times:  # who is given texts is compared with ours given texts
        given_text = common.ratios(times, f"ours, from text{suffix}")
        ratio |= {name: value for name, value in given_text.items() if name.startswith("sentence-transformers")}
    tuned = min((n for n in times if n.startswith("HF, sorted")), key=lambda name: statistics.median(times[name]))
    targets = {
        name: common.verdict(ratio[name]["median"], TARGETS["best tuned" if name == tuned else name])
        for name in (tuned, "sentence-transformers")
        if name in ratio
    }
    common.table(
        f"C3: {len(rows):,} passages, mean {lengths.mean():.0f} tokens, fill {fill:.2f} in the given order; "
        f"largest difference {difference:.1e}",
        ["variant", "passages/CPU-s", f"{best} is faster by", "target"],
        common.speeds(times, len(rows) / args.rounds, ratio, targets),
    )
    common.write(
        "c3_encode",
        args,
        ("torch", "transformers", "numpy"),
        multiplies_bf16=multiplies_bf16,
        passages=len(rows),
        mean_tokens=round(float(lengths.mean()), 2),
        fill=round(fill, 4),
        largest_difference=difference,
        least_cosine=least,
        cpu_s_per_round=common.medians(times),
        ours=best,
        best_tuned=tuned,
        ratio=ratio,
        targets=targets,
    )


if __name__ == "__main__":
    main()
