"""C14: encoding beside the engines that a user of a CPU would pick, and how much of the processor each of them uses.

Bodies of 6 layers x 384 and 12 x 768, random weights, [CLS], passages of the demo's corpus cut to 128 tokens, given as token ids.
Peers: ``BertModel``; ONNX Runtime with the model that its own optimiser fuses, in fp32 and with dynamic int8 weights and
activations; OpenVINO, in int8 with the model that ONNX Runtime quantises by scales found on a quarter of the passages. All get
batches sorted by length, each the batch size of 4, 16 and 64 that is fastest for it. One thread, CPU time, interleaved. First,
equality: the least cosine of vectors in fp32 is 1 to 1e-6.

The share of the peak counts the products of the linear layers that a variant really does, padding and all; attention is left out.
The peak is the fastest of torch's and NumPy's products at the shapes of the feed-forward layers, in fp32 and bf16, measured
in the same rounds; the share is that of each round, and above 1 where an engine's products are faster than both.
Where the CPU multiplies bf16, ours, BertModel and OpenVINO are measured in bf16, too; ours also with int8 (``pretrieve index``).

The result is ``c14_engines_amx.json`` on a CPU with AMX, ``c14_engines.json`` on another that multiplies bf16, else
``c14_engines_vnni.json`` where it adds products of int8 (AVX512-VNNI), else ``c14_engines_fp32.json``.

    PRETRIEVE_PEERS=DIR PYTHONPATH=src python benchmarks/c14_engines.py

``DIR`` has the peers: ``pip install --target DIR onnx onnxscript onnxruntime openvino``.
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import steps
import torch
from plain_hf import as_bert_model
from transformers import BertModel

from pretrieve.models.encoder import Encoder
from pretrieve.models.int8 import in_int8
from pretrieve.retrieval.embed import encode
from pretrieve.text.packing import Part, pack, passage_spans
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device, choose_device, cpu_multiplies_bf16

BODIES = {"6x384": (6, 384, 12, 1000), "12x768": (12, 768, 12, 250)}  # layers, hidden, heads, passages
LENGTH, SIZES, TARGET, TARGET_PEAK = 128, (4, 16, 64), 1.8, 0.8
Texts = list[np.ndarray]


def padded(texts: Texts, size: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of token ids sorted by length: numbers of the texts, ids and mask (texts, longest) int64."""
    order = np.argsort([-len(text) for text in texts], kind="stable")
    batches = []
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        ids = np.zeros((len(chosen), len(texts[chosen[0]])), np.int64)
        mask = np.zeros_like(ids)
        for row, number in enumerate(chosen):
            ids[row, : len(texts[number])], mask[row, : len(texts[number])] = texts[number], 1
        batches.append((chosen, ids, mask))
    return batches


def in_batches(run: Callable[[np.ndarray, np.ndarray], np.ndarray], texts: Texts, size: int) -> np.ndarray:
    """(texts, hidden) float32 [CLS] states from a function of ids and mask."""
    results = [(chosen, run(ids, mask)) for chosen, ids, mask in padded(texts, size)]
    vectors = np.empty((len(texts), results[0][1].shape[1]), np.float32)
    for chosen, found in results:
        vectors[chosen] = found
    return vectors


def engine(name: str, path: str, parts: list[Texts]) -> dict[str, Callable]:
    """A peer in a process of its own: one function for each batch size."""
    if name.startswith("ONNX"):
        runtime = common.peer("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    else:
        core = common.peer("openvino").Core()
        precision = "bf16" if "bf16" in name else "f32"
        settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
        request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()

        def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return request.infer({"input_ids": ids, "attention_mask": mask})[0].copy()

    return {str(size): lambda number, size=size: in_batches(run, parts[number], size) for size in SIZES}


def export(model: BertModel, folder: Path, texts: Texts) -> dict[str, Path]:
    """ONNX files of the [CLS] state: as torch writes it, fused by ONNX Runtime's optimiser, that with int8 whose scales are
    found for each batch, and the first with int8 whose scales were found on ``texts``."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.transformers import optimizer

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter([{"input_ids": ids, "attention_mask": mask} for _, ids, mask in padded(texts, 16)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.batches, None)

    class Cls(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = model  # so that its weights are the module's

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state[:, 0]

    files = {name: folder / f"{name}.onnx" for name in ("plain", "fused", "int8", "static")}
    names = ["input_ids", "attention_mask"]
    example = torch.ones(2, 16, dtype=torch.long)
    with torch.inference_mode():
        axes = {name: {0: "batch", 1: "length"} for name in names} | {"cls": {0: "batch"}}
        options = {"input_names": names, "output_names": ["cls"], "dynamic_axes": axes}
        torch.onnx.export(Cls(), (example, example), str(files["plain"]), dynamo=False, opset_version=17, **options)
    heads, hidden = model.config.num_attention_heads, model.config.hidden_size
    fused = optimizer.optimize_model(str(files["plain"]), "bert", heads, hidden, opt_level=0, use_gpu=False)
    fused.save_model_to_file(str(files["fused"]))
    # reduce_range: 7 bits, without which int8 overflows where the CPU has no VNNI.
    more = {"DefaultTensorType": 1}
    quantize_dynamic(files["fused"], files["int8"], None, True, True, QuantType.QInt8, extra_options=more)
    # Only products with weights: with those of attention as well, the loss is larger. Linear layers are MatMul here.
    more |= {"MatMulConstBOnly": True}
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "op_types_to_quantize": ["MatMul"]}
    quantize_static(
        files["plain"], files["static"], Reader(), per_channel=True, reduce_range=True, extra_options=more, **kinds
    )
    return files


def make(layers: int, hidden: int, heads: int, vocabulary: int) -> tuple[Encoder, BertModel, BertModel]:
    """One body with the same random weights: ours, transformers', and that with the attention that can be exported."""
    encoder = Encoder(steps.body(vocabulary, 0.1, layers, hidden, heads), hidden, "cls", 1, head="none").eval()
    return encoder, *(as_bert_model(encoder.body, attn_implementation=attention) for attention in ("sdpa", "eager"))


def passages(number: int) -> tuple[Texts, int]:
    """Token ids with [CLS] and [SEP], and the vocabulary's size."""
    store = TokenStore(common.demo_corpus() / "tokens")
    rows = np.random.default_rng(0).permutation(store.n_passages)[:number]
    starts, lengths = passage_spans(store, rows)
    cls, sep = [store.special.cls], [store.special.sep]
    texts = [
        np.concatenate([cls, store.tokens[start : start + min(length, LENGTH - 2)], sep]).astype(np.int32)
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    return texts, store.vocabulary_size


def products(hidden: int, bf16: bool) -> dict[str, Callable[[int], None]]:
    """Twenty products of the feed-forward layers' shapes, by two libraries; by torch in bf16, too."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(s, dtype=np.float32) for s in ((2048, hidden), (hidden, 4 * hidden)))
    pair = torch.from_numpy(left), torch.from_numpy(right)
    low = [matrix.bfloat16() for matrix in pair]
    found = {
        "peak, torch": lambda _: [pair[0] @ pair[1] for _ in range(20)] and None,
        "peak, NumPy": lambda _: [left @ right for _ in range(20)] and None,
    }
    return found | (
        {f"peak, torch{common.BF16}": lambda _: [low[0] @ low[1] for _ in range(20)] and None} if bf16 else {}
    )


def encode_all(encoder: Encoder, texts: Texts, low: bool) -> np.ndarray:
    """As the project encodes them."""
    lengths = np.array([len(text) for text in texts])
    flat, starts = np.concatenate(texts), np.cumsum(lengths) - lengths
    packed = lambda chosen: pack([Part(flat, starts[chosen], lengths[chosen])], LENGTH)
    return encode(encoder, packed, np.arange(len(lengths)), Device(torch.device("cpu"), low))


def measure(body: str, rounds: int) -> dict:
    layers, hidden, heads, number = BODIES[body]
    texts, vocabulary = passages(number)
    parts = [texts[i::rounds] for i in range(rounds)]
    encoder, model, exported = make(layers, hidden, heads, vocabulary)
    bf16 = cpu_multiplies_bf16()

    def ours(index: int, low: bool = False, encoder: Encoder = encoder) -> np.ndarray:
        return encode_all(encoder, parts[index], low)

    def bert(index: int, size: int, low: bool = False) -> np.ndarray:
        def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
            states = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state
            return states[:, 0].float().numpy()

        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=low):
            return in_batches(run, parts[index], size)

    with tempfile.TemporaryDirectory() as directory:
        files = export(exported, Path(directory), texts[::4])
        candidates: dict[str, dict[int, Callable]] = {}
        for low in {False, bf16}:
            words = common.BF16 * low
            candidates[f"BertModel{words}"] = {
                size: lambda index, size=size, low=low: bert(index, size, low) for size in SIZES
            }
        engines = {"ONNX Runtime": files["fused"], "ONNX Runtime, int8": files["int8"], "OpenVINO": files["plain"]}
        engines |= {"OpenVINO, int8": files["static"]}
        engines |= {f"OpenVINO{common.BF16}": files["plain"]} if bf16 else {}
        vectors = {}
        for name, path in engines.items():
            worker = common.Worker(engine, name, str(path), parts)
            candidates[name] = {size: worker.variant(str(size)) for size in SIZES}
            vectors[name] = worker.variant("16", returns=True)(0).result
        small = in_int8(encoder)
        variants: dict[str, Callable] = {"ours": ours, **products(hidden, bf16)}
        variants["ours, int8"] = lambda index: ours(index, encoder=small)
        variants |= {f"ours{common.BF16}": lambda index: ours(index, True)} if bf16 else {}
        sizes = {}
        for name, by_size in candidates.items():
            sizes[name] = min(SIZES, key=lambda size, by_size=by_size: seconds(by_size[size]))
            variants[name] = by_size[sizes[name]]
        cosine = {name: least_cosine(ours(0), found) for name, found in vectors.items()}
        cosine["BertModel"] = least_cosine(ours(0), bert(0, 16))
        cosine["ours, int8"] = least_cosine(ours(0), variants["ours, int8"](0))
        if any(value < 1 - 1e-6 for name, value in cosine.items() if name in ("BertModel", "ONNX Runtime", "OpenVINO")):
            raise SystemExit(f"vectors differ: least cosines {cosine}; expected 1 to 1e-6 in fp32.")
        times = common.interleave(variants, rounds, warm_up=False)
    done = {name: products_done(parts, layers, hidden, sizes.get(name)) for name in variants if "peak" not in name}
    rates = {name: flops / 1e9 / statistics.median(times[name]) for name, flops in done.items()}
    peaks = {
        low: [
            max(20 * 2 * 2048 * 4 * hidden**2 / 1e9 / times[name][number] for name in of_peak)
            for number in range(rounds)
        ]
        for low in sorted({False, bf16})
        if (of_peak := [name for name in times if "peak" in name and (common.BF16 in name) == low])
    }
    best = f"ours{common.BF16 * bf16}"
    return {
        "passages": number,
        "mean_tokens": round(float(np.mean([len(text) for text in texts])), 1),
        "peak_gflop_per_s": {
            "bf16" if low else "fp32": [round(peak, 1) for peak in values] for low, values in peaks.items()
        },
        "passages_per_cpu_s": {name: round(number / rounds / statistics.median(times[name]), 2) for name in done},
        "gflop_per_cpu_s": {name: round(value, 1) for name, value in rates.items()},
        # int8 has a peak of its own, which is not measured.
        "share_of_peak": {
            name: shares(flops, times[name], peaks[common.BF16 in name])
            for name, flops in done.items()
            if "int8" not in name
        },
        "batch": sizes,
        "least_cosine": {name: round(value, 6) for name, value in cosine.items()},
        "ours": best,
        "ratio": {n: v for n, v in common.ratios(times, best).items() if n in done},
        "ratio_int8": {n: v for n, v in common.ratios(times, "ours, int8").items() if n in done},
    }


def shares(flops: float, times: list[float], peaks: list[float]) -> dict[str, float]:
    """Share of the peak, round by round: median, least and greatest."""
    return common.spread([flops / 1e9 / took / peak for took, peak in zip(times, peaks, strict=True)], 2)


def seconds(function: Callable[[int], object]) -> float:
    """CPU seconds of one call."""
    begun = time.process_time()
    result = function(0)
    return result.seconds if isinstance(result, common.Spent) else time.process_time() - begun


def least_cosine(left: np.ndarray, right: np.ndarray) -> float:
    left, right = (
        v.astype(np.float64) / np.linalg.norm(v.astype(np.float64), axis=1, keepdims=True) for v in (left, right)
    )
    return float((left * right).sum(axis=1).min())


def products_done(parts: list[Texts], layers: int, hidden: int, size: int | None) -> float:
    """Floating-point operations of the linear layers for a median round; ``size`` None: ours, which has no padding, and in the
    last layer computes keys and values of all tokens and the rest of [CLS] alone."""
    if size is None:
        each = [(24 * (layers - 1) + 4) * sum(map(len, part)) + 20 * len(part) for part in parts]
    else:
        each = [24 * layers * sum(ids.size for _, ids, _ in padded(part, size)) for part in parts]
    return statistics.median(each) * hidden**2


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    choose_device("fp32", 1)
    if any(common.peer(name) is None for name in ("onnx", "onnxruntime", "openvino")):
        raise SystemExit(1)
    results = {body: measure(body, args.rounds) for body in BODIES}
    for body, found in results.items():
        rows = [
            [
                name,
                rate,
                found["gflop_per_cpu_s"][name],
                shown(found["share_of_peak"], name),
                shown(found["ratio"], name),
            ]
            for name, rate in found["passages_per_cpu_s"].items()
        ]
        peaks = [f"{statistics.median(values)} in {low}" for low, values in found["peak_gflop_per_s"].items()]
        about = f"{found['passages']} passages of {found['mean_tokens']} tokens, peak {', '.join(peaks)} GFLOP/s"
        common.table(
            f"C14: {body}, {about}",
            ["variant", "passages/CPU-s", "GFLOP/CPU-s", "of the peak", "ours is faster by"],
            rows,
        )
    names = {"amx_bf16": "_amx", "avx512_bf16": "", "avx512_vnni": "_vnni"}
    common.write(
        "c14_engines" + next((name for one, name in names.items() if one in common.machine()["features"]), "_fp32"),
        args,
        ("torch", "transformers", "numpy", "onnxruntime", "openvino"),
        multiplies_bf16=cpu_multiplies_bf16(),
        results=results,
        targets={"best peer": TARGET, "share of the peak": TARGET_PEAK},
    )


def shown(values: dict[str, dict[str, float]], name: str) -> str:
    return (
        f"{values[name]['median']:.2f} [{values[name]['min']:.2f}, {values[name]['max']:.2f}]" if name in values else ""
    )


if __name__ == "__main__":
    main()
