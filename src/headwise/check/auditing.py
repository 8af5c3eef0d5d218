"""audit: what influences what in a model, held against what may, in every dimension in which models leak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.check.comparing import (
    check_cached,
    check_chunked,
    check_training,
    check_unpadded,
    check_weights,
)
from headwise.check.comparing.places import place_between
from headwise.check.declared import Declared, declared_by, declared_of, layers_of, stacked
from headwise.check.edits.documents import check_documents
from headwise.check.edits.future import check_future
from headwise.check.edits.memory import check_memory
from headwise.check.edits.padding import check_padding
from headwise.check.edits.rows import check_rows
from headwise.check.reading.asking import dimensions_of, length_of, mask_of, picks, whole
from headwise.check.reading.drawing import Drawn, drawn
from headwise.check.reading.inputs import named_of, taken
from headwise.check.reading.noting import noted
from headwise.check.running.plan import Plan, spread
from headwise.check.running.subject import Subject, prepared, subject_of
from headwise.check.telling.advice import advised
from headwise.check.telling.report import Audit, Outcome
from headwise.core.masks import Mask
from headwise.names import ConfigError, ModelError

__all__ = ["audit"]

Check = Callable[[Plan], Iterable[Outcome]]

CHECKS: Mapping[str, Check] = {
    "future": check_future,
    "padding": check_padding,
    "documents": check_documents,
    "rows": check_rows,
    "memory": check_memory,
    "cached": lambda plan: check_cached(
        plan.subject, plan.two_rows, causal=plan.causal, locate=place_between
    ),
    "chunked": lambda plan: check_chunked(
        plan.subject, plan.two_rows, causal=plan.causal, locate=place_between
    ),
    "unpadded": lambda plan: check_unpadded(plan.subject, plan.two_rows, locate=place_between),
    "weights": lambda plan: check_weights(plan.subject, plan.two_rows, locate=place_between),
    "training": lambda plan: check_training(plan.subject, plan.two_rows, locate=place_between),
}

_EVERY = 300_000_000
"""Parameters up to which every position is edited by itself."""

_MOST_DOUBLE = 50_000_000
"""Parameters up to which a model is copied into float64 unasked: a larger one takes long there."""


def audit(
    model: Any,
    mask: Mask | str | Sequence[Mask | str] | None = None,
    *,
    inputs: Tensor | NDArray[Any] | Mapping[str, Any] | Sequence[Any] | None = None,
    length: int | None = None,
    layers: int | None = None,
    dimensions: Iterable[str] | str | None = None,
    weights: Literal["given", "wide"] = "given",
    seed: int = 0,
    draws: int = 2,
    output: Callable[[Any], Tensor] | None = None,
    dtype: torch.dtype | str | None = None,
    seen: Callable[[Outcome], None] | None = None,
) -> Audit:
    """Check where information flows in a model, against where it may.

    Args:
        model: a model of transformers, of `hw.load`, a block of ours, any module, or any function that gives an
            output for each position [batch, position, ...] of what it reads.
        mask: what one layer may see: one mask (or its text, "causal & window(4)"), or one for each layer in turn;
            None = what the model declares (causal, unless it is an encoder). A mask of documents or padding must
            cover the positions.
        inputs: ids [batch, position] or vectors [batch, position, d_model] to start from, tensor, array or list;
            or these by name, as a tokenizer gives them. The first row is used, without its padding. What is
            neither text nor source is passed on: its first row where it has a row for each of the text, else as
            it is. None = drawn from what the model reads.
        length: positions of drawn inputs; None = beyond what the config says its windows and chunks reach.
        layers: over which `mask` reaches; None = as the config says, or as many as masks are given.
        dimensions: names of DIMENSIONS; None = all.
        weights: "given" as they are, or "wide": drawn anew in a copy, since default initialisation hides leaks.
        seed: of inputs and drawn weights.
        draws: how many replacements each position is tried with.
        output: picks the tensor [batch, position, ...] out of what the model returns; None = it is found.
        dtype: to run in; None = float64 where the model runs in it, else its own.
        seen: called with each outcome as it is found.

    Returns:
        The audit: `clean`, `leaks`, `audit["future"]`.

    Raises:
        ModelError: no model, one that cannot be run, whose input cannot be told, or that takes no such name.
        ShapeError: inputs or a length that it cannot be run on.
        MaskError: a mask that does not fit.
        ConfigError: no such dimension, or no such choice.
    """
    asked, declares = dimensions_of(dimensions), mask_of(mask)
    picks(output)
    seed, draws = whole("seed", seed, 0), whole("draws", draws, 1)
    length = length_of(length)
    layers = None if layers is None else whole("layers", layers, 1)
    if weights not in ("given", "wide"):
        raise ConfigError(f'weights must be "given" or "wide", came {weights!r}')
    named = named_of(inputs)
    others = named if isinstance(named, dict) else {}
    first = subject_of(model, others=others, output=output, seed=seed)
    put = taken(first.signature, named, packed=declares is not None)
    first = prepared(replace(first, others=put.others), first.dtype, wide=False)
    put_in = drawn(first, put, length, seed)
    subject, coarse, notes = _prepared(first, put_in, dtype, wide=weights == "wide")
    notes += noted(subject, put_in.given, named)
    declared = _declared(subject, declares, put_in.given.length, layers)
    plan = _plan(subject, coarse, put_in, declared, draws, seed)
    texts = plan.given, plan.two_rows(1).row(1)
    plan = replace(
        plan,
        subject=plan.subject.lively(*texts),
        coarse=plan.coarse and plan.coarse.lively(*texts),
    )
    if inputs is None and mask is None and "source" not in subject.takes:
        plan = replace(plan, longer=_longer(plan))
    outcomes: list[Outcome] = []
    for name in asked:
        for outcome in CHECKS[name](plan):
            outcomes.append(outcome)
            if seen is not None:
                seen(outcome)
    return Audit(
        first.name,
        advised(outcomes, layers=declared.layers or stacked(first), declared=declared.words),
        declared.words,
        put_in.given.length,
        declared.layers,
        str(subject.dtype).removeprefix("torch."),
        weights,
        seed,
        tuple(notes),
    )


def _prepared(
    subject: Subject, put_in: Drawn, dtype: torch.dtype | str | None, *, wide: bool
) -> tuple[Subject, Subject | None, list[str]]:
    """The subject in the dtype asked for, or in float64 where it runs in it, and in its own beside that."""
    own = prepared(subject, subject.dtype, wide=wide)
    if dtype is not None:
        return prepared(own, _dtype(dtype), wide=False), None, []
    double = torch.float64
    if subject.size > _MOST_DOUBLE:
        single = prepared(own, torch.float32, wide=False)
        return (
            single,
            None,
            ['it is large, and ran in float32; dtype="float64" sees finer and takes longer'],
        )
    try:
        finer = prepared(own, double, wide=False)
        out = finer.run(put_in.given)
        why = "its output is NaN there" if bool(out.isnan().any()) else ""
    except Exception as error:  # what a model written for float32 raises in float64
        lines = str(error).strip().splitlines() or [type(error).__name__]
        why = lines[0]
    if not why:
        return finer, own, []
    try:
        own.run(put_in.given)
    except ModelError:
        raise
    except Exception as error:  # whatever a model raises on an input that is not its own
        lines = str(error).strip().splitlines() or ["without a word"]
        raise ModelError(
            f"{subject.name} cannot be run on {list(put_in.given.text.shape)}: "
            f"{type(error).__name__}: {lines[0]}; pass inputs= that it reads"
        ) from error
    return own, None, [f"it does not run in float64 ({why}): it ran in {own.dtype}"]


def _dtype(dtype: torch.dtype | str) -> torch.dtype:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ConfigError(f"{dtype!r} is no dtype to run in; use float64, float32 or bfloat16")
    return found


def _declared(
    subject: Subject, mask: Mask | Sequence[Mask] | None, length: int, layers: int | None
) -> Declared:
    if mask is None:
        return declared_of(subject, length)
    return declared_by(mask, length, layers or layers_of(subject))


def _longer(plan: Plan) -> Plan | None:
    """The same for a multiple of 32 positions (whole chunks may go other ways), None where it cannot be read."""
    length = 32 * (plan.length // 32 + 1)
    given = replace(plan.given, text=plan.draws_from.draw(1, length, salt=41).to(plan.given.text))
    try:
        plan.subject.run(given)
    except Exception:  # beyond what it reads
        return None
    allowed = declared_of(plan.subject, length).allowed
    some = spread(tuple(range(length)), 8)
    return replace(plan, given=given, allowed=allowed, opens=None, keys=some, queries=some)


def _plan(
    subject: Subject,
    coarse: Subject | None,
    put_in: Drawn,
    declared: Declared,
    draws: int,
    seed: int,
) -> Plan:
    small = (
        not subject.large
    )  # then a quick look tries every cut, and edits are tried with several draws
    every = tuple(range(put_in.given.length))
    every = every if subject.size <= _EVERY else spread(every, 8)
    return Plan(
        subject,
        coarse,
        put_in.given,
        put_in.text,
        put_in.memory,
        declared.allowed,
        declared.windows,
        declared.opens,
        every,
        every if small else spread(every, 8),
        put_in.given.length if small else 4,
        draws if small else 1,
        seed,
    )
