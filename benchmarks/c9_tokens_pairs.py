"""C9: tokenise a corpus into a token store and draw pre-training pairs from it, against ``datasets`` and a fast
tokenizer.

About 15,000 passages of the demo's corpus, distinct texts (a repeated text would flatter a cache). Peers: ``default``
is ``dataset.map(lambda e: tokenizer(e["text"]))``; ``tuned`` is batched, drops other columns, returns ids only;
``tuned, sentences`` gives sentence boundaries too, as the store does. Everything on one thread, nothing cached
between rounds. Pairs are index triples; "packed" also lays out their token ids (4,096 pairs at a time). First,
equality: the store's ids are the sentence peer's, exactly; against the passage peers (which see a passage as one
text) the share of equal passages is reported.

    PYTHONPATH=src python benchmarks/c9_tokens_pairs.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import statistics
import tempfile
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet as pq
from transformers import PreTrainedTokenizerFast

from pretrieve.pretraining.pairs.pair import make_sampler, pack_pairs
from pretrieve.text.packing import passage_spans
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import load_tokenizer

TARGET, TARGET_PAIRS = 2.5, 1e6
PAIRS, PACKED = 1_000_000, 4096
QUERY_LENGTH, PASSAGE_LENGTH = 64, 288  # the paper's
SAMPLERS = {"ict": ["ict"], "bfs": ["bfs"], "wlp": ["wlp"], "mixture": ["ict", "bfs", "wlp"]}


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    datasets.disable_progress_bars()
    corpus = common.demo_corpus()
    columns = ["text", "sentence_starts", "sentence_ends", "section_id", "article_id"]
    rows = pq.read_table(corpus / "passages.parquet", columns=columns).to_pylist()
    passages = [
        PassageText(
            [r["text"][a:b] for a, b in zip(r["sentence_starts"], r["sentence_ends"], strict=True)],
            r["section_id"],
            r["article_id"],
        )
        for r in rows
    ]
    tokenizer = load_tokenizer(corpus / "tokenizer.json")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    texts = datasets.Dataset.from_dict({"text": [r["text"] for r in rows]})
    sentences = datasets.Dataset.from_dict({"text": [s for p in passages for s in p.sentences]})

    def ids_only(batch: dict) -> dict:
        encoded = fast(
            batch["text"], add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
        )
        return {"input_ids": encoded["input_ids"]}

    with tempfile.TemporaryDirectory() as directory:
        fresh = iter(range(1_000_000))

        def ours(_: int) -> TokenStore:
            return write_token_store(Path(directory) / f"store-{next(fresh)}", tokenizer, passages, label="ours")

        def mapped(data: datasets.Dataset, function, **options) -> datasets.Dataset:
            number = next(fresh)  # a fingerprint of its own: never answered from a cache
            path = str(Path(directory) / f"map-{number}.arrow")
            return data.map(function, new_fingerprint=f"benchmark{number}", cache_file_name=path, **options)

        variants = {
            "ours": ours,
            "datasets.map, default": lambda _: mapped(texts, lambda e: fast(e["text"])),
            "datasets.map, tuned": lambda _: mapped(
                texts, ids_only, batched=True, batch_size=1000, remove_columns=["text"]
            ),
            "datasets.map, tuned, sentences": lambda _: mapped(
                sentences, ids_only, batched=True, batch_size=4000, remove_columns=["text"]
            ),
        }
        store = ours(0)
        by_sentence = variants["datasets.map, tuned, sentences"](0)
        theirs = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in by_sentence["input_ids"]])
        if not np.array_equal(theirs, store.tokens):
            raise SystemExit("the store's tokens are not those of the tokenizer.")
        starts, lengths = passage_spans(store, np.arange(store.n_passages))
        by_passage = variants["datasets.map, tuned"](0)["input_ids"]
        equal = np.mean(
            [np.array_equal(store.tokens[s : s + n], i) for s, n, i in zip(starts, lengths, by_passage, strict=True)]
        )
        print(f"token ids: equal to the sentence peer; {equal:.4%} of passages equal to the passage peer")
        times = common.interleave(variants, args.rounds, warm_up=False)

    found = common.ratios(times, "ours")
    million = len(store.tokens) / 1e6
    targets = {name: common.verdict(ratio["median"], TARGET) for name, ratio in found.items()}
    common.table(
        f"C9: {store.n_passages:,} passages, {million:.2f} M word pieces",
        ["variant", "M tokens/CPU-s", "ours is faster by", "target"],
        common.speeds(times, million, found, targets),
    )

    whole = TokenStore(corpus / "tokens")  # with titles and links
    rng = np.random.default_rng(0)
    samplers = {name: make_sampler(whole, tasks) for name, tasks in SAMPLERS.items()}
    drawn = common.interleave({n: lambda _, s=s: s.sample(rng, PAIRS) for n, s in samplers.items()}, args.rounds)
    rates = {name: round(PAIRS / statistics.median(values)) for name, values in drawn.items()}
    articles = whole.passage_article()
    packing = common.interleave(
        {
            "packed": lambda _: pack_pairs(
                whole, articles, samplers["mixture"].sample(rng, PACKED), QUERY_LENGTH, PASSAGE_LENGTH
            )
        },
        args.rounds,
    )
    packed_rate = round(PACKED / statistics.median(packing["packed"]))
    common.table(
        "C9: pairs drawn, 1,000,000 at a time",
        ["sampler", "M pairs/CPU-s", "target"],
        [[name, rate / 1e6, common.verdict(rate / 1e6, TARGET_PAIRS / 1e6)] for name, rate in rates.items()]
        + [["mixture, packed", packed_rate / 1e6, ""]],
    )
    common.write(
        "c9_tokens_pairs",
        args,
        ("tokenizers", "datasets", "transformers", "numpy"),
        passages=store.n_passages,
        word_pieces=len(store.tokens),
        passages_equal_to_passage_peer=round(float(equal), 6),
        cpu_s=common.medians(times),
        ratio=found,
        target=TARGET,
        pairs_per_cpu_s=rates,
        packed_pairs_per_cpu_s=packed_rate,
        target_pairs=TARGET_PAIRS,
    )


if __name__ == "__main__":
    main()
