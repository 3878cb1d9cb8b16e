"""C3: encode 5,000 passages with a 4-layer, 256-d encoder, against ``transformers.BertModel`` on padded batches of 32.

Passages of the demo's corpus, cut to 128 tokens; tokenised before, for all. Ours is ``pretrieve.retrieval.embed.encode``:
packed by token budget, the last layer for [CLS] only. Peers: batches in the given order, padded to the longest (what a loop over
passages does), and sorted by length first (what sentence-transformers does). One fifth of the passages makes a round.
First, equality: all vectors agree to 1e-4. fp32; where the CPU has AMX, bf16 too.

    PYTHONPATH=src python benchmarks/c3_encode.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import statistics

import numpy as np
import torch
from torch.nn import functional
from transformers import BertConfig, BertModel

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import _bert_config, to_bert_names
from pretrieve.retrieval.embed import encode
from pretrieve.text.packing import pack_passages, passage_spans
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device, choose_device

PASSAGES, LENGTH, BATCH, DIM = 5000, 128, 32, 128
TARGETS = {"HF, given order": 6.0, "HF, sorted": 1.8}  # of the fp32 default and of the best tuned peer


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    choose_device("fp32", 1)
    amx = torch.cpu._is_amx_tile_supported()
    store = TokenStore(common.demo_corpus() / "tokens")
    rows = np.random.default_rng(0).permutation(store.n_passages)[:PASSAGES]
    rows = rows[passage_spans(store, rows)[1] > 0]
    config = BodyConfig(
        vocabulary_size=store.vocabulary_size, hidden=256, layers=4, heads=4, feed_forward=1024, max_positions=LENGTH
    )
    encoder = Encoder(config, DIM, "cls", 1).eval()
    settings = {name: value for name, value in _bert_config(config).items() if name != "architectures"}
    model = BertModel(BertConfig(**settings), add_pooling_layer=False).eval()
    missing, extra = model.load_state_dict(to_bert_names(encoder.body.state_dict()), strict=False)
    if extra or any("position_ids" not in name and "token_type_ids" not in name for name in missing):
        raise SystemExit(f"weights do not fit: missing {missing}, extra {extra}")

    def ids(row: int) -> np.ndarray:
        (start,), (length,) = passage_spans(store, np.array([row]))
        body = np.asarray(store.tokens[start : start + min(length, LENGTH - 2)], dtype=np.int64)
        return np.concatenate([[store.special.cls], body, [store.special.sep]])

    texts = {int(row): torch.from_numpy(ids(int(row))) for row in rows}

    def peer(part: np.ndarray, by_length: bool, bf16: bool = False) -> np.ndarray:
        lengths = np.array([len(texts[int(row)]) for row in part])
        order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(part))
        vectors = np.empty((len(part), DIM), dtype=np.float32)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            for begin in range(0, len(part), BATCH):
                chosen = order[begin : begin + BATCH]
                batch = [texts[int(part[i])] for i in chosen]
                tokens = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
                mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(t) for t in batch], batch_first=True)
                states = model(input_ids=tokens, attention_mask=mask).last_hidden_state[:, 0]
                vectors[chosen] = functional.normalize(encoder.projection(states).float(), dim=-1).numpy()
        return vectors

    def ours(part: np.ndarray, bf16: bool = False) -> np.ndarray:
        device = Device(torch.device("cpu"), bf16)
        return encode(encoder, lambda chosen: pack_passages(store, chosen, LENGTH), part, device)

    parts = np.array_split(rows, args.rounds)
    vectors: dict[str, list[np.ndarray]] = {}

    def variant(name: str, function, *options):
        def call(index: int) -> None:
            vectors.setdefault(name, []).append(function(parts[index], *options))

        return call

    variants = {
        "ours": variant("ours", ours),
        "HF, given order": variant("HF, given order", peer, False),
        "HF, sorted": variant("HF, sorted", peer, True),
    }
    if amx:
        variants["ours, bf16"] = variant("ours, bf16", ours, True)
        variants["HF, sorted, bf16"] = variant("HF, sorted, bf16", peer, True, True)
    first = parts[0][:200]
    difference = max(float(np.abs(ours(first) - peer(first, by_length)).max()) for by_length in (False, True))
    if not difference <= 1e-4:
        raise SystemExit(f"vectors differ by {difference}; expected at most 1e-4.")
    times = common.interleave(variants, args.rounds, warm_up=False)
    # All of them, now that they are there.
    difference = max(
        float(np.abs(np.concatenate(vectors["ours"]) - np.concatenate(vectors[name])).max())
        for name in ("HF, given order", "HF, sorted")
    )
    if not difference <= 1e-4:
        raise SystemExit(f"vectors differ by {difference}; expected at most 1e-4.")
    lengths = np.array([len(text) for text in texts.values()])
    padded = sum(int(lengths[i : i + BATCH].max()) * len(lengths[i : i + BATCH]) for i in range(0, len(lengths), BATCH))
    fill = float(lengths.sum() / padded)
    best = "ours, bf16" if amx else "ours"
    ratio = common.ratios(times, best)
    per_round = len(rows) / args.rounds
    common.table(
        f"C3: {len(rows):,} passages, mean {lengths.mean():.0f} tokens, fill {fill:.2f} in the given order; "
        f"largest difference {difference:.1e}",
        ["variant", "passages/CPU-s", f"{best} is faster by", "target"],
        [
            [
                name,
                per_round / statistics.median(values),
                ratio.get(name, {}).get("median", ""),
                common.verdict(ratio[name]["median"], TARGETS[name]) if name in ratio and name in TARGETS else "",
            ]
            for name, values in times.items()
        ],
    )
    common.write(
        "c3_encode",
        args,
        ("torch", "transformers", "numpy"),
        amx=amx,
        passages=len(rows),
        mean_tokens=round(float(lengths.mean()), 2),
        fill=round(fill, 4),
        largest_difference=difference,
        cpu_s_per_round=common.medians(times),
        ours=best,
        ratio=ratio,
        targets=TARGETS,
    )


if __name__ == "__main__":
    main()
