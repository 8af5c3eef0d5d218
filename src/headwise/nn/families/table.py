"""The form of a family's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwise.nn.config import TransformerConfig

__all__ = [
    "HARMLESS",
    "REQUIRED",
    "Derived",
    "Family",
    "Field",
    "Weight",
    "as_is",
    "join",
    "join_heads",
    "transpose",
]

REQUIRED = object()
"""The default of a field that a checkpoint must state."""

Transform = Callable[[Sequence[Tensor]], Tensor]
"""Their weights -> ours."""

Inverse = Callable[[Tensor, Sequence[int]], Sequence[Tensor]]
"""Our weight, and how many rows of it are queries, keys and values -> theirs."""


@dataclass(frozen=True)
class Field:
    """Where a field of ours comes from.

    Args:
        names: their names for it; a dot reaches into a nested table. Several must agree.
        default: what their code takes when none is there (REQUIRED: an error).
        values: their value -> ours, where they differ; a value that is not here is an error.
        null: null is a value of its own, None, and not the default.
    """

    names: tuple[str, ...]
    default: Any = REQUIRED
    values: Mapping[Any, Any] | None = None
    null: bool = False


@dataclass(frozen=True)
class Derived:
    """A field of ours that several of theirs say together.

    Args:
        names: the fields it reads; a dot reaches into a nested table.
        read: all of their fields, by such names -> ours; ConfigError where we compute no such thing.
        write: our configuration -> their fields that say it.
    """

    names: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], Any]
    write: Callable[[TransformerConfig], Mapping[str, Any]]


@dataclass(frozen=True)
class Weight:
    """Where a weight of ours comes from: their names, `{i}` for the layer, what joins them and what parts them.

    An `optional` one is 0 where a checkpoint does not have it.
    """

    names: tuple[str, ...]
    transform: Transform
    inverse: Inverse
    optional: bool = False


@dataclass(frozen=True)
class Family:
    """One family of checkpoints.

    Args:
        model_type: what config.json calls it.
        model: our class for it.
        fields: our config field -> where it comes from.
        fixed: our config fields that are the same in the whole family.
        allowed: their fields that must have one of the given values: we compute nothing else.
        harmless: their fields that change nothing we compute (beside HARMLESS).
        weights: our weight -> where it comes from.
        unused: patterns (fnmatch) of their weights that we leave out on purpose.
        prefix: what some of their classes put before every name.
        bare: their class that puts nothing before the names.
        written: their fields, that no field of ours says, as a new config.json has them.
        refuses: why their class refuses a configuration that fits the table; "" where it does not.
        copies: our weight -> patterns of their weights that a model with it has no use for: copies.
        old_endings: endings of weight names that were renamed over time.
        variants: their field -> its value -> weights that come from elsewhere with it.
        twins: our weight -> names under which a checkpoint may hold the same once more.
        output: their output matrix, where its being there says that it is not tied, whatever
            config.json says; "" where config.json says it.
        tokenizer: what tokenizer_config.json must say beside, that transformers takes the tokenizer in the folder.
    """

    model_type: str
    model: type[nn.Module]
    fields: Mapping[str, Field | Derived]
    fixed: Mapping[str, Any]
    allowed: Mapping[str, tuple[Any, ...]]
    harmless: frozenset[str]
    weights: Mapping[str, Weight]
    unused: tuple[str, ...]
    prefix: str
    bare: str
    written: Mapping[str, Any]
    refuses: Callable[[TransformerConfig], str] = lambda config: ""
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    old_endings: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, Mapping[Any, Mapping[str, Weight]]] = field(default_factory=dict)
    twins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: str = ""
    tokenizer: Mapping[str, Any] = field(default_factory=dict)


def as_is(*names: str) -> Weight:
    """One weight, as it is."""
    return Weight(names, lambda found: found[0], lambda ours, rows: [ours])


def join(*names: str) -> Weight:
    """Weights of one size, one above the other."""
    return Weight(
        names, lambda found: torch.cat(tuple(found)), lambda ours, rows: ours.chunk(len(names))
    )


def join_heads(queries: str, keys: str, values: str) -> Weight:
    """The weights of queries, keys and values, one above the other; there may be fewer keys than queries."""
    return Weight(
        (queries, keys, values),
        lambda found: torch.cat(tuple(found)),
        lambda ours, rows: ours.split_with_sizes(list(rows)),
    )


def transpose(*names: str) -> Weight:
    """A weight stored [in, out] (GPT-2's Conv1D)."""
    return Weight(
        names, lambda found: found[0].t().contiguous(), lambda ours, rows: [ours.t().contiguous()]
    )


HARMLESS = frozenset(
    {
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_name_or_path",
        "architectures",
        "attn_implementation",
        "auto_map",
        "bad_words_ids",
        "begin_suppress_tokens",
        "unk_token_id",
        "cls_token_id",
        "mask_token_id",
        "bos_token_id",
        "chunk_size_feed_forward",
        "classifier_dropout",
        "cross_attention_hidden_size",
        "decoder_start_token_id",
        "diversity_penalty",
        "do_sample",
        "dtype",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "eos_token_id",
        "exponential_decay_length_penalty",
        "finetuning_task",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "gradient_checkpointing",
        "id2label",
        "initializer_range",
        "label2id",
        "length_penalty",
        "max_length",
        "min_length",
        "model_type",
        "name_or_path",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_labels",
        "num_return_sequences",
        "output_attentions",
        "output_hidden_states",
        "output_scores",
        "pad_token_id",
        "prefix",
        "problem_type",
        "remove_invalid_values",
        "repetition_penalty",
        "return_dict",
        "return_dict_in_generate",
        "sep_token_id",
        "suppress_tokens",
        "task_specific_params",
        "temperature",
        "tf_legacy_loss",
        "tie_encoder_decoder",
        "tokenizer_class",
        "top_k",
        "top_p",
        "torch_dtype",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "typical_p",
        "use_bfloat16",
        "use_cache",
        "use_return_dict",
    }
)
"""Fields of any family that change nothing in a forward pass of ours."""
