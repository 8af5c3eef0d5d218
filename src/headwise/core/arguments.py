"""The arguments of `attend`, checked: each refusal says what was wrong, what came and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from headwise.core.masks import Mask
from headwise.names import ConfigError, MaskError, ShapeError

__all__ = ["check", "check_extras", "fits", "require_tensor"]


def check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse tensors that are no queries, keys and values of one call.

    Raises:
        ShapeError: their shapes or dtypes do not fit.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        require_tensor(name, x)
    if not q.dtype == k.dtype == v.dtype:
        raise ShapeError(f"q, k and v must have one dtype, came {q.dtype}, {k.dtype}, {v.dtype}")
    came = f"came {list(q.shape)}, {list(k.shape)}, {list(v.shape)}"
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ShapeError(f"q, k and v must be [batch, heads, length, head_dim], {came}")
    if q.shape[0] != k.shape[0] or q.shape[-1] != k.shape[-1] or k.shape[:-1] != v.shape[:-1]:
        raise ShapeError(
            f"q, k and v must share the batch, q and k the head_dim, k and v heads and keys, {came}"
        )
    heads, kv_heads = q.shape[1], k.shape[1]
    if kv_heads == 0 or heads % kv_heads:
        raise ShapeError(f"num_heads={heads} is not a multiple of num_kv_heads={kv_heads}; {came}")


def check_extras(
    q: Tensor,
    k: Tensor,
    mask: Mask | None,
    bias: Tensor | None,
    softcap: float | None,
    sink: Tensor | None,
    dropout: float,
) -> None:
    """Refuse a mask, bias, softcap, sink or dropout that does not go with queries and keys.

    Raises:
        MaskError, ShapeError, ConfigError: as `attend` does.
    """
    shape = (*q.shape[:3], k.shape[2])
    if mask is not None:
        _check_mask(mask, q)
    if bias is not None:
        require_tensor("bias", bias)
        if not bias.is_floating_point():
            raise MaskError(
                f"bias is added to the scores and must be floating point, came {bias.dtype}; "
                "who may attend is a mask: masks.tensor(bool tensor)"
            )
    if bias is not None and not (fits(bias, shape) and bias.shape[-1] == shape[-1]):
        raise ShapeError(
            f"bias must be [batch, head, query, key] = {list(shape)}, with 1 for batch, head or query "
            f"where it is the same for all, came {list(bias.shape)}"
        )
    if softcap is not None and not softcap > 0:
        raise ConfigError(f"softcap must be above 0, came {softcap}; for none pass None")
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError(f"dropout must be from 0 to 1, came {dropout}")
    if sink is None:
        return
    require_tensor("sink", sink)
    if sink.shape != shape[1:2]:
        raise ShapeError(f"sink must be one logit per head, [{shape[1]}], came {list(sink.shape)}")


def require_tensor(name: str, x: object) -> None:
    """Refuse what is no tensor."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} must be a torch tensor, came {type(x).__name__}")


def _check_mask(mask: Mask, q: Tensor) -> None:
    if not isinstance(mask, Mask):
        raise MaskError(
            f"mask must be a headwise mask or None, came {type(mask).__name__}; "
            "use masks.causal(), masks.padding(...) or masks.tensor(bool tensor)"
        )
    batch, heads = mask.extent()
    if batch not in (1, q.shape[0]) or heads not in (1, q.shape[1]):
        raise MaskError(
            f"{mask} is for batch={batch}, head={heads}, q has batch={q.shape[0]}, "
            f"head={q.shape[1]}; make the mask for this batch, or with 1 = the same for all"
        )


def fits(x: Tensor, shape: Sequence[int]) -> bool:
    """Whether each axis of x is 1 or that of shape."""
    return x.dim() == len(shape) and all(a in (1, b) for a, b in zip(x.shape, shape, strict=True))
