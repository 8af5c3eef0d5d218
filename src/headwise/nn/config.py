"""One frozen configuration for every model in `headwise.nn`, checked when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Literal, get_args

from headwise.names import ConfigError
from headwise.nn.scaling import RopeScaling

__all__ = ["Activation", "Norm", "NormPosition", "Positions", "Sinusoids", "TransformerConfig"]

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"]
Norm = Literal["layer", "rms"]
NormPosition = Literal["pre", "post"]
Positions = Literal["none", "sinusoidal", "learned", "rope", "alibi", "relative"]
Sinusoids = Literal["interleaved", "halves"]

# None may be given and is never found: __post_init__ fills it in.
# A table of a TOML or JSON file may be given for the scaling, and is made one.
if TYPE_CHECKING:
    FilledIn = int
    FilledInFlag = bool
    Scaling = RopeScaling | None
else:
    FilledIn = int | None
    FilledInFlag = bool | None
    Scaling = RopeScaling | Mapping | None

_CHOICES = {
    "activation": get_args(Activation),
    "norm": get_args(Norm),
    "norm_position": get_args(NormPosition),
    "positions": get_args(Positions),
    "sinusoids": get_args(Sinusoids),
}
_COUNTS = ("vocab_size", "d_model", "num_layers", "num_heads", "max_length")
_RESOLVED_COUNTS = ("num_kv_heads", "head_dim", "d_ff", "num_decoder_layers", "encoder_max_length")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What an Encoder, a Decoder or an EncoderDecoder is made of.

    Fields given as None are filled in when the configuration is made, so a reader always finds a
    number: `num_kv_heads` (num_heads), `head_dim` (d_model // num_heads), `d_ff` (4 * d_model),
    `num_decoder_layers` (num_layers), `encoder_max_length` (max_length; these two are used by
    EncoderDecoder alone), `scale_embeddings` (True with sinusoidal positions).

    Lengths and windows are counted in tokens, a token's own key included. `token_types` is the
    size of BERT's segment table (0 = none), `embedding_norm` BERT's norm after the embeddings,
    `final_norm` the norm after the last block (customary with norm_position "pre").
    `attention_scale` is the factor on q k^T (None = 1 / sqrt(head_dim)). `scale_embeddings`
    multiplies token embeddings by sqrt(d_model), `scale_logits` what the output matrix reads by
    1 / sqrt(d_model), `output_bias` adds a bias to the logits.

    positions "relative" is T5's: a learned bias for each head and bucket of distances, made once
    for a whole stack; half of the buckets hold one distance each, the other half grow up to
    `relative_max_distance`. `sinusoids` says where the cosines stand: on every other channel, or
    after all sines. `position_offset` is the number of rows that a table of learned positions
    holds before the row of position 0.

    `features` makes an encoder read sound: so many channels (mel bins) of frames instead of token
    ids, which two convolutions bring to half as many positions. `share_embeddings` gives encoder
    and decoder one token embedding.

    `qk_norm` puts an RMSNorm over head_dim on queries and keys, before rope (Qwen3). `masked_head`
    gives an Encoder BERT's head for hidden words: a layer, its norm, a bias for each token.

    Raises:
        ConfigError: a field that cannot be, named with its value and what to use instead.
    """

    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    num_kv_heads: FilledIn = None  # type: ignore[assignment]
    head_dim: FilledIn = None  # type: ignore[assignment]
    d_ff: FilledIn = None  # type: ignore[assignment]
    num_decoder_layers: FilledIn = None  # type: ignore[assignment]

    activation: Activation = "gelu"
    attention_bias: bool = True
    attention_out_bias: bool = True
    qk_norm: bool = False
    ffn_bias: bool = True

    norm: Norm = "layer"
    norm_position: NormPosition = "pre"
    norm_eps: float | int = 1e-5
    final_norm: bool = True

    positions: Positions = "rope"
    max_length: int = 2048
    rope_theta: float | int = 10000.0
    rope_scaling: Scaling = None
    window: int | None = None
    attention_scale: float | int | None = None
    relative_buckets: int = 32
    relative_max_distance: int = 128
    sinusoids: Sinusoids = "interleaved"
    position_offset: int = 0
    encoder_max_length: FilledIn = None  # type: ignore[assignment]

    token_types: int = 0
    embedding_norm: bool = False
    masked_head: bool = False
    tie_embeddings: bool = True
    share_embeddings: bool = False
    scale_embeddings: FilledInFlag = None  # type: ignore[assignment]
    scale_logits: bool = False
    output_bias: bool = False
    features: int = 0

    dropout: float | int = 0.0
    attention_dropout: float | int = 0.0

    def __post_init__(self) -> None:
        self._check_kinds()
        for name in _COUNTS:
            _check_count(name, getattr(self, name))
        self._fill_in()
        for name in _RESOLVED_COUNTS:
            _check_count(name, getattr(self, name))
        self._check_heads()
        self._check_scaling()
        self._check_choices()
        self._check_numbers()

    def _check_kinds(self) -> None:
        """Values of another type than a field's default: a file may hold anything."""
        for field in fields(self):
            value = getattr(self, field.name)
            flag = isinstance(field.default, bool) or (
                field.name == "scale_embeddings" and value is not None
            )
            if flag and not isinstance(value, bool):
                raise ConfigError(f"{field.name}={value!r} is not true or false; write one of them")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            wanted = isinstance(field.default, float) or (
                field.name == "attention_scale" and value is not None
            )
            if wanted and not number:
                raise ConfigError(f"{field.name}={value!r} is not a number; give one")
            if wanted:  # transformers refuses some whole numbers
                object.__setattr__(self, field.name, float(value))

    def _fill_in(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ConfigError(
                f"d_model={self.d_model} is not a multiple of num_heads={self.num_heads}; "
                f"give head_dim (any size works), or a d_model of "
                f"{self.d_model - self.d_model % self.num_heads or self.num_heads}"
            )
        for name, value in (
            ("num_kv_heads", self.num_heads),
            ("head_dim", self.d_model // self.num_heads),
            ("d_ff", 4 * self.d_model),
            ("num_decoder_layers", self.num_layers),
            ("encoder_max_length", self.max_length),
            ("scale_embeddings", self.positions == "sinusoidal"),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _check_heads(self) -> None:
        check_groups(self.num_heads, self.num_kv_heads)
        if self.positions == "rope" and self.head_dim % 2:
            raise ConfigError(
                f"head_dim={self.head_dim} is odd and rope turns pairs; "
                f"use head_dim={self.head_dim + 1}, or positions='alibi'"
            )

    def _check_scaling(self) -> None:
        given: object = self.rope_scaling
        if isinstance(given, Mapping):
            known = [field.name for field in fields(RopeScaling)]
            check_names(given, known, "rope_scaling.")
            lacking = [name for name in ("kind", "factor") if name not in given]
            if lacking:
                raise ConfigError(f"rope_scaling lacks {lacking[0]}; give kind and factor")
            object.__setattr__(self, "rope_scaling", RopeScaling(**given))
        elif given is not None and not isinstance(given, RopeScaling):
            raise ConfigError(
                f"rope_scaling={given!r} is no table of fields; give one with kind and factor"
            )
        if self.rope_scaling is not None and self.positions != "rope":
            raise ConfigError(
                f"rope_scaling came with positions={self.positions!r}; use positions='rope', or leave it out"
            )
        if self.rope_scaling and self.rope_scaling.kind == "yarn" and self.rope_theta <= 1:
            raise ConfigError(
                f"rope_theta={self.rope_theta} must be greater than 1 for rope_scaling of kind 'yarn'"
            )

    def _check_choices(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(f"{name}={value!r} is not known; use one of {', '.join(known)}")

    def _check_numbers(self) -> None:
        if self.window is not None:
            _check_count("window", self.window)
        for name in ("token_types", "position_offset", "features"):
            _check_count(name, getattr(self, name), least=0)
        for name in ("token_types", "share_embeddings"):
            if self.features and getattr(self, name):
                raise ConfigError(
                    f"{name}={getattr(self, name)} came with features={self.features}, and an "
                    f"encoder that reads sound has no token embedding; leave {name} out"
                )
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ConfigError(f"{name}={value} is not a rate; use 0 <= {name} < 1")
        for name in ("norm_eps", "rope_theta", "attention_scale"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise ConfigError(f"{name}={value} must be greater than 0, and finite")
        self._check_relative()

    def _check_relative(self) -> None:
        buckets, furthest = self.relative_buckets, self.relative_max_distance
        _check_count("relative_buckets", buckets, least=4)
        _check_count("relative_max_distance", furthest)
        if furthest <= buckets // 2:
            raise ConfigError(
                f"relative_max_distance={furthest} must be greater than half of "
                f"relative_buckets={buckets}; use {4 * buckets}"
            )


def check_groups(num_heads: int, num_kv_heads: int) -> None:
    """Raise ConfigError unless the query heads share the KV heads evenly."""
    if num_heads % num_kv_heads:
        raise ConfigError(
            f"num_heads={num_heads} is not a multiple of num_kv_heads={num_kv_heads}; "
            f"use num_kv_heads={num_heads} for plain multi-head attention"
        )


def check_names(given: Iterable[str], known: Iterable[str], before: str = "") -> None:
    """Raise ConfigError at the first name that is not known, with the nearest one that is.

    Args:
        given: names that came.
        known: names there are.
        before: what stands before every name in the message.
    """
    known = list(known)
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {before}{near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{before}{name} is not known; {hint}")


def _check_count(name: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value!r} is not a count; use a whole number of {least} or more")
