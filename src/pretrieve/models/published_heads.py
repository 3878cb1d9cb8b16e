"""What stands beside the encoder in published files: word heads, Condenser's head, decoders; under our names.

Output matrices are not kept, for they are the word embeddings. Where a file has one that is *not*, our head would
compute something else, so that head is omitted, and pre-training begins with a fresh one.
"""

from __future__ import annotations

import re

import torch

from pretrieve.models.checkpoint_names import BERT_LAYERS, FAIRSEQ_DECODER
from pretrieve.models.config import BodyConfig

#: Beginning of a published name → beginning of ours.
WORD_HEADS = {
    "cls.predictions.transform.dense.": "mlm.transform.",
    "cls.predictions.transform.LayerNorm.": "mlm.norm.",
    "cls.predictions.bias": "mlm.bias",
    "cls.predictions.decoder.bias": "mlm.bias",
    "lm_head.dense.": "mlm.transform.",
    "lm_head.layer_norm.": "mlm.norm.",
    "lm_head.bias": "mlm.bias",
    "lm_head.decoder.bias": "mlm.bias",
}
#: Matrices that are to be the word embeddings → the head that they belong to.
TIED = {
    "cls.predictions.decoder.weight": "mlm",
    "lm_head.weight": "mlm",
    "lm_head.decoder.weight": "mlm",
    "decoder.embed_tokens.weight": "decoder",
    "decoder.output_projection.weight": "decoder",
}
NOT_WANTED = (
    "pooler.",
    "cls.seq_relationship.",
    "discriminator_predictions.",
    "generator_predictions.",
    "generator_lm_head.",
    "decoder_embeddings.",  # FlagEmbedding's second name for the encoder's embeddings
    "co_target",
    "decoder.version",
)
FINE_TUNED = ("classifier.", "qa_outputs.", "classification_heads.", "embeddingHead.", "norm.")


def sort_heads(
    rest: dict[str, torch.Tensor], words: torch.Tensor, config: BodyConfig
) -> tuple[dict[str, torch.Tensor], list[str], list[str]]:
    """Tensors of the heads as ``{head}.{our name}``; what is omitted and worth telling; and names that are not known.

    rest: published names without the encoder's; words (V, d): its word embeddings.
    """
    heads: dict[str, torch.Tensor] = {}
    left_out: list[str] = []
    condenser, enhanced, decoder = (dict[str, torch.Tensor]() for _ in range(3))
    unknown: list[str] = []
    untied: set[str] = set()
    for name, tensor in rest.items():
        begin = next((begin for begin in WORD_HEADS if name.startswith(begin)), None)
        if begin is not None:
            heads[WORD_HEADS[begin] + name.removeprefix(begin)] = tensor
        elif name in TIED:
            if not torch.equal(tensor, words):
                untied.add(TIED[name])
                left_out.append(f"the {TIED[name]} head, for {name} is not the word embeddings")
        elif re.match(r"c_head\.\d+\.", name):
            condenser[name.removeprefix("c_head.")] = tensor
        elif name.startswith("c_head."):
            enhanced[f"0.{name.removeprefix('c_head.')}"] = tensor
        elif name.startswith(NOT_WANTED) or name.endswith(("position_ids", "token_type_ids")):
            continue
        elif name.startswith(FINE_TUNED):
            left_out.append(name)
        elif name.startswith("decoder."):
            decoder[name.removeprefix("decoder.")] = tensor
        else:
            unknown.append(name)
    for published, names, theirs, begin in (
        (condenser, BERT_LAYERS, "c_head.", "condenser."),
        (enhanced, BERT_LAYERS, "c_head.", "decoder."),
        (decoder, FAIRSEQ_DECODER, "decoder.", "decoder."),
    ):
        ours, strange = names.ours(published)
        unknown += [theirs + name for name in strange]
        heads |= {f"{begin}{name}": tensor for name, tensor in ours.items()}
    if config.position_offset and "decoder.positions.weight" in heads:
        # Our decoder's table begins with the first position.
        heads["decoder.positions.weight"] = heads["decoder.positions.weight"][config.position_offset :].contiguous()
    return {n: t for n, t in heads.items() if n.split(".")[0] not in untied}, left_out, unknown
