"""What is audited: a model, a module or a function, with one way to run it on an input and read its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from headwise.check.measuring.nudge import Nudge
from headwise.check.reading.arguments import Signature, signature_of
from headwise.check.reading.beside import laid
from headwise.check.reading.given import Given
from headwise.check.reading.picking import picked
from headwise.check.running.calm import (
    NoDropout,
    copy_of,
    eager_experts,
    in_mode,
    quietly,
    seeded,
    widen,
    without_dropout,
)
from headwise.hub.calling import batch_axis
from headwise.hub.load import Model
from headwise.hub.spread import device_of
from headwise.names import ModelError

__all__ = ["IMPLEMENTATIONS", "Subject", "picked", "prepared", "subject_of"]

Output = Float[Tensor, "batch position channel"]

IMPLEMENTATIONS = ("eager", "sdpa")
"""Implementations of attention that any machine has."""

LARGE = 20_000_000
"""Parameters above which a model is looked at more briefly."""

_SMALL = 50_000_000
"""Parameters up to which a model's own weights are copied, so that one that writes to them changes ours."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited.

    Attributes:
        name: in reports.
        called: the module or function.
        signature: how it is called.
        dtype: of its weights and vectors.
        others: further named inputs, always the same.
        output: what picks the tensor [batch, position, ...] out of what is returned; None = it is found.
        seed: of every run.
        own: whether `called` is a copy of ours, which may be changed.
        live: the channels of the output that an input can move; None = all.
    """

    name: str
    called: Callable[..., Any]
    signature: Signature
    dtype: torch.dtype
    others: Mapping[str, Any] = field(default_factory=dict)
    output: Callable[[Any], Tensor] | None = None
    seed: int = 0
    own: bool = False
    live: Tensor | None = None

    @property
    def module(self) -> nn.Module | None:
        """The module, None for a function that is none."""
        return self.called if isinstance(self.called, nn.Module) else None

    @property
    def large(self) -> bool:
        """Whether it has so many parameters that it is looked at more briefly."""
        return self.size > LARGE

    @property
    def size(self) -> int:
        """How many parameters it has; 0 for a function."""
        return 0 if self.module is None else sum(p.numel() for p in self.module.parameters())

    @property
    def fine(self) -> float:
        """How its dtype rounds, relative."""
        return torch.finfo(self.dtype).eps

    @property
    def takes(self) -> frozenset[str]:
        """What it can be given beside the text."""
        return self.signature.takes

    @property
    def device(self) -> torch.device:
        """Where its inputs go."""
        return torch.device("cpu") if self.module is None else device_of(self.module)

    def fresh(self) -> Subject:
        """A copy with a state of its own: models keep caches, masks and counters from call to call."""
        if self.module is None:
            return self
        copy = copy_of(self.module)
        return self if copy is None else replace(self, called=copy, own=True)

    def run(
        self,
        given: Given,
        *,
        training: bool = False,
        weights: bool = False,
        attention: str | None = None,
        nudge: Nudge | None = None,
        fresh: bool = True,
    ) -> Output:
        """The output for an input, on a fresh copy, random numbers from one seed, in training without dropout.

        Args:
            given: the input.
            training: in train mode.
            weights: with the weights asked for; a model of transformers then runs eager attention.
            attention: the attention implementation, for models that let it be chosen.
            nudge: moves the embedded text, and lets gradients to it be read; without one no gradient is kept.
            fresh: on a fresh copy; else on this very one.

        Raises:
            ModelError: what it returns holds no output for each position.
        """
        subject = self.fresh() if fresh else self
        if weights and self.signature.foreign and attention is None and self.can_choose("eager"):
            attention = "eager"
        if attention is not None:
            subject.choose(attention)
        asked = subject.signature.weights(weights)
        return subject.call(given, asked, training=training, nudge=nudge)

    def call(
        self,
        given: Given,
        named: Mapping[str, Any] | None = None,
        *,
        training: bool = False,
        nudge: Nudge | None = None,
    ) -> Output:
        """As `run`, but on this very copy, and with further named arguments."""
        out = self.raw(given, named, training=training, nudge=nudge)
        return self.read(out, given)

    def raw(
        self,
        given: Given,
        named: Mapping[str, Any] | None = None,
        *,
        training: bool = False,
        nudge: Nudge | None = None,
    ) -> Any:
        """What is returned, as it is."""
        given = given.to(self.device, self.dtype)
        if nudge is not None:
            given = nudge.entering(given)
        arguments = laid(self.others, given, self.called) | self._laid(
            self.signature.arguments(given)
        )
        if self.signature.foreign and "use_cache" in self.signature.names:
            arguments["use_cache"] = False
        arguments |= dict(named or {})
        leading = self.signature.leading
        first = arguments.pop(self.signature.text, None) if leading else None
        with ExitStack() as stack:
            stack.enter_context(seeded(self.seed))
            stack.enter_context(torch.set_grad_enabled(nudge is not None and nudge.gradient))
            if self.module is not None:
                stack.enter_context(in_mode(self.module, training))
            if self.module is not None and self.own and training:
                without_dropout(self.module)
            if training:
                stack.enter_context(NoDropout())
            if nudge is not None:
                stack.enter_context(nudge)
            lead = () if first is None else (first,)
            return quietly(lambda: self.called(*lead, **arguments))

    def read(self, out: Any, given: Given) -> Output:
        """The output for each position, out of what was returned.

        Raises:
            ModelError: none is there.
        """
        found = self.output(out) if self.output is not None else picked(out, given)
        if not isinstance(found, Tensor):
            raise ModelError(
                f"{self.name}: output must pick a tensor [batch, position, ...], "
                f"picked {type(found).__name__}"
            )
        if found.is_complex():
            found = torch.view_as_real(found)
        found = self._batch_first(found)
        if found.dim() < 2 or tuple(found.shape[:2]) != (given.batch, given.length):
            raise ModelError(
                f"{self.name} returns {list(found.shape)} for {given.batch} x {given.length} positions; "
                "the audit needs one output for each position: pass output=, which picks it"
            )
        found = found.reshape(given.batch, given.length, -1).double()
        return found if self.live is None else found[..., self.live.to(found.device)]

    def lively(self, one: Given, other: Given) -> Subject:
        """The same without the channels that are alike for two inputs at every position.

        Ids that can never be said have -inf or a huge number for ever, beside which nothing else would be seen.
        """
        first, second = self.run(one), self.run(other)
        live = (first != second).flatten(0, 1).any(0)
        return self if bool(live.all()) or not bool(live.any()) else replace(self, live=live)

    def choose(self, attention: str) -> None:
        """Set the attention implementation of this copy.

        Raises:
            ModelError: the model does not let it be chosen.
        """
        choosing = getattr(self.module, "set_attn_implementation", None)
        try:
            assert choosing is not None
            quietly(lambda: choosing(attention))
        except (AssertionError, ValueError, ImportError, AttributeError) as error:
            raise ModelError(f"{self.name} has no {attention} attention: {error}") from None
        config = getattr(self.module, "config", None)
        if (
            getattr(config, "_attn_implementation", None) != attention
        ):  # older classes warn and stay
            raise ModelError(f"{self.name} has no {attention} attention that can be chosen")

    def can_choose(self, attention: str) -> bool:
        """Whether the attention implementation can be set."""
        copy = self.fresh()
        can = getattr(copy.module, "_can_set_attn_implementation", None)
        if not copy.own or (can is not None and not can()):
            return False
        try:
            copy.choose(attention)
        except ModelError:
            return False
        return True

    def _laid(self, named: dict[str, Any]) -> dict[str, Any]:
        """Vectors laid as torch's own modules read them, [position, batch, d_model] where batch_first is False."""
        if self.module is None or self.signature.foreign:
            return named
        return {name: x.transpose(0, 1) if self._turned(x) else x for name, x in named.items()}

    def _batch_first(self, x: Tensor) -> Tensor:
        turned = self.module is not None and not self.signature.foreign and self._turned(x)
        return x.transpose(0, 1) if turned else x

    def _turned(self, x: Any) -> bool:
        vectors = isinstance(x, Tensor) and x.is_floating_point() and x.dim() == 3
        return vectors and self.module is not None and batch_axis(self.module, x) == 1


def subject_of(
    model: Any,
    *,
    others: Mapping[str, Any] | None = None,
    output: Callable[[Any], Tensor] | None = None,
    seed: int = 0,
) -> Subject:
    """What is audited, as it was given: in its own dtype, with its own weights.

    Raises:
        ModelError: nothing that can be called on an input.
    """
    if isinstance(model, Model):
        name, called = model.name, model.module
    elif callable(model) and not isinstance(model, type):
        config = getattr(model, "config", None)
        name = getattr(config, "_name_or_path", "") or getattr(model, "__name__", "")
        name, called = name or type(model).__name__, model
    else:
        what = f"the class {model.__name__}" if isinstance(model, type) else f"{model!r}"
        raise ModelError(
            f"audit takes a model, a module or a function of its input, came {what}; "
            "load a name with hw.load, and make an instance of a class"
        )
    _check_made(name, called)
    kinds = [p.dtype for p in called.parameters()] if isinstance(called, nn.Module) else []
    dtype = next((kind for kind in kinds if kind.is_floating_point), torch.float32)
    signature = signature_of(called, others or {})
    return Subject(name, called, signature, dtype, others or {}, output, seed)


def _check_made(name: str, called: Any) -> None:
    """Every parameter has its shape."""
    held = called.parameters() if isinstance(called, nn.Module) else ()
    if any(is_lazy(p) for p in held):
        raise ModelError(
            f"{name} holds lazy parameters without a shape; call it once on an input, then audit it"
        )


def prepared(subject: Subject, dtype: torch.dtype, *, wide: bool) -> Subject:
    """The subject in another dtype, its weights drawn anew if `wide`.

    Raises:
        ModelError: a module that cannot be copied, and would have to be.
    """
    if subject.module is None:
        return replace(subject, dtype=dtype)
    alike = dtype == subject.dtype and not wide
    if alike and (subject.own or subject.size > _SMALL):
        return subject
    module = copy_of(subject.module, weights=True)
    if module is None and alike:
        return subject
    if module is None:
        raise ModelError(
            f"{subject.name} cannot be copied (copy.deepcopy fails), so its weights and dtype stay as they "
            'are: leave dtype out and weights="given"'
        )
    if wide:
        widen(module, subject.seed)
    for parameter in (
        () if alike else module.parameters()
    ):  # frozen ones count as tables when drawn anew
        if parameter.is_leaf:  # not all of a script are
            parameter.requires_grad_(False)
    if dtype != subject.dtype:
        module.to(dtype)
        eager_experts(module)
    return replace(subject, called=module, dtype=dtype, own=True)
