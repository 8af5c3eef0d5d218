"""The residual stream: the blocks that it runs through, and what each of them was given and made.

A block is the largest module that holds one attention layer of its own (and the cross-attention beside it, where
there is one), is held in a list of its like, and makes of the stream a stream of the same shape. It is found by
running the model, and not by names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import BaseTorchFunctionMode

from headwise.hub.anatomy import Layer
from headwise.hub.load import Model
from headwise.names import LayerId, ModelError

__all__ = ["Block", "BlockRun", "PartCall", "around", "blocks_of", "listed", "watched_blocks"]

_LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


@dataclass(frozen=True, eq=False)
class Block:
    """One block: where it is, and the attention in it.

    Attributes:
        id: of its attention layer, in its first run.
        path: of the module in the model.
        attention: paths of its own attention and, in an encoder-decoder's decoder, of the cross-attention.
    """

    id: LayerId
    path: str
    module: nn.Module
    attention: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PartCall:
    """One call of a part of a block, with what it was given and made, both of the stream's shape."""

    path: str
    module: nn.Module
    given: Tensor | None
    made: Tensor


@dataclass(frozen=True, eq=False)
class BlockRun:
    """One run of a block.

    Attributes:
        id: of the layer; a block that runs again in one pass (ALBERT's) takes the next free number.
        before: the stream that it was given.
        after: the stream that it made.
        calls: of its parts, in order; empty where they were not asked for.
    """

    id: LayerId
    block: Block
    before: Float[Tensor, "*batch position d_model"]
    after: Float[Tensor, "*batch position d_model"]
    calls: tuple[PartCall, ...]


See = Callable[[BlockRun], None]


def blocks_of(model: Model, inputs: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of a model, in the order in which they run, found by running it once.

    Raises:
        ModelError: none is found: no module that holds an attention layer makes of a stream another.
    """
    own = [layer for layer in model.anatomy.layers if layer.id.stream != "cross"]
    candidates = {path: layer for layer in own for path in around(layer, own)}
    ran: list[str] = []
    with ExitStack() as stack:
        for path in candidates:
            module = model.module.get_submodule(path)
            hook = module.register_forward_hook(partial(_note, ran, path), with_kwargs=True)
            stack.callback(hook.remove)
        if _is_torch(model):
            stack.enter_context(BaseTorchFunctionMode())
        model.run(inputs)
    chosen = _chosen(model.module, candidates, ran)
    if not chosen:
        raise ModelError(
            f"{model.name} has no blocks that can be told apart: no module around one attention layer makes of a "
            "stream [batch, position, d_model] another of its shape"
        )
    every = [layer.path for layer in model.anatomy.layers]
    return tuple(
        Block(candidates[path].id, path, model.module.get_submodule(path), _inside(path, every))
        for path in sorted(chosen, key=ran.index)
    )


@contextmanager
def watched_blocks(
    model: Model, blocks: tuple[Block, ...], see: See, *, parts: bool = False
) -> Iterator[None]:
    """Show every run of a block within the `with`: see(run). What is shown may not be changed.

    Args:
        model: which runs, once within the `with`.
        blocks: from `blocks_of`.
        see: what is called.
        parts: whether the calls of the parts of a block are kept until it is shown.
    """
    done: set[LayerId] = set()
    with ExitStack() as stack:
        for block in blocks:
            watch = _Watch(block, see, done)
            for module, hook in watch.hooks(parts):
                handle = module.register_forward_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
        if _is_torch(model):
            stack.enter_context(BaseTorchFunctionMode())  # torch's fused path is not taken within
        yield


@dataclass(eq=False)
class _Watch:
    """What runs in one block."""

    block: Block
    see: See
    done: set[LayerId]
    calls: list[PartCall] = field(default_factory=list)

    def hooks(self, parts: bool) -> Iterator[tuple[nn.Module, Callable[..., None]]]:
        """The hooks of its parts, then its own."""
        for name, module in self.block.module.named_modules() if parts else ():
            if name:
                yield module, partial(self._part, f"{self.block.path}.{name}".lstrip("."))
        yield self.block.module, self._whole

    def _part(self, path: str, module: nn.Module, given: Any, named: Any, out: Any) -> None:
        made = _first(out)
        if made is not None:
            self.calls.append(PartCall(path, module, _given(given, named, made), made.detach()))

    def _whole(self, module: nn.Module, given: Any, named: Any, out: Any) -> None:
        after = _first(out)
        before = None if after is None else _given(given, named, after)
        calls, self.calls = self.calls, []
        if after is None or before is None:
            return
        id = self.block.id.free(self.done)
        self.done.add(id)
        self.see(BlockRun(id, self.block, before, after.detach(), tuple(calls)))


def around(layer: Layer, own: list[Layer]) -> Iterator[str]:
    """Paths of the modules that hold this attention layer and no other of its kind, the largest first."""
    words = layer.path.split(".")
    for end in range(len(words)):
        path = ".".join(words[:end])
        if len(_inside(path, [one.path for one in own])) == 1:
            yield path


def _chosen(model: nn.Module, candidates: Mapping[str, Layer], ran: list[str]) -> set[str]:
    """For each attention layer the largest module around it that ran on a stream, one of a list if there is any."""
    by_layer: dict[LayerId, list[str]] = defaultdict(list)
    for path, layer in candidates.items():
        if path in ran:
            by_layer[layer.id].append(path)
    return {
        next((path for path in paths if listed(model, path)), paths[0])
        for paths in by_layer.values()
    }


def listed(model: nn.Module, path: str) -> bool:
    """Whether a module is one of a list."""
    outer, _, name = path.rpartition(".")
    return bool(name) and isinstance(model.get_submodule(outer), _LISTS)


def _inside(path: str, paths: list[str]) -> tuple[str, ...]:
    return tuple(one for one in paths if not path or one.startswith(f"{path}."))


def _note(ran: list[str], path: str, module: nn.Module, given: Any, named: Any, out: Any) -> None:
    made = _first(out)
    if made is not None and _given(given, named, made) is not None and path not in ran:
        ran.append(path)


def _first(out: Any) -> Tensor | None:
    """The first tensor of what a module made that may be a stream, [..., position, channel]."""
    found = out if isinstance(out, tuple | list) else (out,)
    if hasattr(out, "to_tuple"):
        found = out.to_tuple()
    return next((x for x in found if _is_stream(x)), None)


def _given(given: tuple[Any, ...], named: Mapping[str, Any], made: Tensor) -> Tensor | None:
    """The first tensor a module was given of the shape that it made."""
    every = (*given, *named.values())
    return next((x.detach() for x in every if _is_stream(x) and x.shape == made.shape), None)


def _is_stream(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point() and x.dim() in (2, 3)


def _is_torch(model: Model) -> bool:
    return any(isinstance(part, nn.TransformerEncoder) for part in model.module.modules())
