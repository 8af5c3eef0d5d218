"""Origins: which tensors of a pass are activations of linear maps, told by following every function called.

A tensor is MAPPED where a linear module made it (and all since was reshaping, scaling or a norm), and ACTIVATED
once it went through something elementwise that is not linear, or was multiplied by another such tensor. What mixes
positions, or comes together with anything else (a residual stream, attention), has no origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = ["Kind", "Origin", "Origins"]


class Kind(IntEnum):
    """What was done since the linear map; SCALE is a number reduced from it, as a norm's."""

    CONSTANT = 0
    SCALE = 1
    MAPPED = 2
    ACTIVATED = 3


@dataclass(frozen=True)
class Origin:
    """The linear modules (paths) a tensor comes from, and what it has become since."""

    kind: Kind
    roots: frozenset[str] = frozenset()


_CONSTANT = Origin(Kind.CONSTANT)

_SHAPES = {
    *("__get__", "__getitem__", "view", "reshape", "transpose", "permute", "contiguous", "chunk"),
    *("split", "tensor_split", "split_with_sizes", "unbind", "flatten", "unflatten", "squeeze"),
    *("unsqueeze", "to", "float", "half", "bfloat16", "type", "type_as", "clone", "detach", "t"),
    *("swapaxes", "swapdims", "narrow", "expand", "expand_as", "view_as", "reshape_as", "dropout"),
    *("alpha_dropout", "layer_norm", "rms_norm", "neg", "__neg__", "movedim", "select", "double"),
}
"""Functions that change a tensor's form or length, and leave it what it is."""

_SUMS = {"add", "sub", "rsub", "__add__", "__radd__", "__sub__", "__rsub__", "__iadd__", "__isub__"}
_PRODUCTS = {
    *("mul", "multiply", "div", "true_divide", "__mul__", "__rmul__", "__imul__"),
    *("__truediv__", "__itruediv__", "__div__"),
}
_REDUCTIONS = {"mean", "sum", "norm", "vector_norm", "var", "std", "amax", "amin", "max", "min"}

_MIXES = {
    *("softmax", "log_softmax", "matmul", "__matmul__", "__rmatmul__", "bmm", "baddbmm", "mm"),
    *("addmm", "einsum", "linear", "bilinear", "scaled_dot_product_attention", "cumsum", "roll"),
    *("multi_head_attention_forward", "flip", "sort", "argsort", "topk", "gather", "index_select"),
    *("masked_scatter", "scatter", "conv1d", "conv2d", "conv_transpose1d", "cumprod", "cat"),
    *(
        "index_add",
        "embedding",
        "group_norm",
        "batch_norm",
        "pad",
        "interpolate",
        "repeat_interleave",
    ),
    *("stack", "__setitem__", "copy", "tril", "triu", "normalize", "unfold", "repeat"),
}
"""Functions after which a number no longer comes from one number of the map."""


class Origins(TorchFunctionMode):
    """Follows what is computed within the `with`, which should be a pass over a short input: all is kept."""

    def __init__(self, constants: Iterable[Tensor]) -> None:
        super().__init__()
        self._constants = {id(x): x for x in constants}
        self._known: dict[int, tuple[Tensor, Origin]] = {}

    def of(self, x: Tensor) -> Origin | None:
        """Where a tensor comes from; None where that is nothing we know."""
        held = self._known.get(id(x))
        if held is not None:
            return held[1]
        constant = id(x) in self._constants or isinstance(x, nn.Parameter)
        return _CONSTANT if constant else None

    def mapped(self, x: Tensor, root: str) -> None:
        """A linear module has made this."""
        self._set(x, Origin(Kind.MAPPED, frozenset([root])))

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the function, and say of its results where they come from."""
        kwargs = kwargs or {}
        given = [x for x in _tensors((args, kwargs)) if x.numel() != 1 or id(x) in self._known]
        origins = [self.of(x) for x in given]  # before: what is changed in place is given too
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        found = _origin(name if name.startswith("__") else name.rstrip("_"), origins)
        for x in _tensors(out):
            self._set(x, found)
        if name == "__setitem__":
            self._set(args[0], None)
        return out

    def _set(self, x: Tensor, origin: Origin | None) -> None:
        if origin is None:
            self._known.pop(id(x), None)
        else:
            self._known[id(x)] = (x, origin)  # kept, so that its id stays its own


def _origin(name: str, given: list[Origin | None]) -> Origin | None:
    """Where the results of a function come from, by its name and what it was given."""
    if name in _MIXES or not given:
        return None
    known = [origin for origin in given if origin is not None]
    if name == "__get__" or name in _SHAPES:
        return given[0] if len(known) == len(given) else None
    if len(known) < len(given):
        return None
    from_maps = [origin for origin in known if origin.kind is not Kind.CONSTANT]
    if not from_maps:
        return _CONSTANT
    roots = frozenset[str]().union(*(origin.roots for origin in from_maps))
    if name in _REDUCTIONS:
        return Origin(Kind.SCALE, roots)
    whole = [origin for origin in from_maps if origin.kind is not Kind.SCALE]
    if not whole:
        return from_maps[0]
    if any(not origin.roots <= _roots(whole) for origin in from_maps):
        return None
    alone = len(whole) == 1
    if name in _SUMS:
        same = len({origin.roots for origin in whole}) == 1
        return Origin(max(origin.kind for origin in whole), roots) if same else None
    if name in _PRODUCTS and alone:
        return whole[0]
    return Origin(Kind.ACTIVATED, roots)


def _roots(origins: Iterable[Origin]) -> frozenset[str]:
    return frozenset[str]().union(*(origin.roots for origin in origins))


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments or results."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
