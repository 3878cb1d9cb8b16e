"""Settings of a published checkpoint that no model has: one sentence, before a tensor is made.

Fault 13 of the hostile tests of 6e898d5: tracebacks, and a hang at a thousand million layers.
"""

from __future__ import annotations

import pytest

from pretrieve.base.errors import DataError, PretrieveError
from pretrieve.models.published_configs import bert_shape, t5_shape

BERT = {"vocab_size": 90, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
BERT |= {"max_position_embeddings": 40}
T5 = {
    "vocab_size": 90,
    "d_model": 8,
    "num_layers": 2,
    "num_heads": 3,
    "d_ff": 16,
    "d_kv": 5,
    "feed_forward_proj": "gated-gelu",
}
NO_SIZES = (0, -1, None, "two", 2.0, True, [2], 10**12, float("nan"))


@pytest.mark.parametrize("value", NO_SIZES)
@pytest.mark.parametrize("name", [*BERT, "type_vocab_size"])
def test_sizes_of_bert(name: str, value: object) -> None:
    assert bert_shape(BERT).layers == 2
    if (name, value) == ("type_vocab_size", 0) and value is not False:
        return  # RoBERTa has none in some files
    with pytest.raises(DataError, match=f"config.json: {name} is "):
        bert_shape(BERT | {name: value})


@pytest.mark.parametrize("value", NO_SIZES)
@pytest.mark.parametrize(
    "name", [*[name for name in T5 if name != "feed_forward_proj"], "relative_attention_num_buckets"]
)
def test_sizes_of_t5(name: str, value: object) -> None:
    assert t5_shape(T5).heads == 3
    with pytest.raises(DataError, match=f"config.json: {name} is "):
        t5_shape(T5 | {name: value})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_attention_heads": 3}, "hidden=8 is not a multiple of heads=3"),
        ({"num_hidden_layers": 10**9}, "from 1 to 1,024"),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob is '0.1'; expected a number from 0 to 0.999"),
        ({"layer_norm_eps": -1}, "expected a number from 0 to 1"),
        ({"initializer_range": float("inf")}, "expected a number from 0 to 100"),
        ({"model_type": "roberta", "pad_token_id": "one"}, "pad_token_id is 'one'"),
        ({"model_type": "roberta", "pad_token_id": 99}, "max_position_embeddings is -60"),
    ],
)
def test_other_settings(change: dict[str, object], told: str) -> None:
    with pytest.raises(PretrieveError, match=told):
        bert_shape(BERT | change)
