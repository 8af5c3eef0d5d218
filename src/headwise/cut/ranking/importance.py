"""importance: what every head does for a loss, as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.cut.census import census
from headwise.cut.losses import LossFunction, check_predicts
from headwise.cut.ranking.averages import averages
from headwise.cut.ranking.gradients import Means, Per, gradients_of
from headwise.cut.ranking.leaving import LeavingOut
from headwise.cut.ranking.methods import Method, MethodName, Score, method_of
from headwise.cut.ranking.scores import Measure, Measured, Scored
from headwise.cut.ranking.table import Facts, table
from headwise.cut.selecting import Heads, selected
from headwise.hub.load import Model
from headwise.hub.report import say
from headwise.hub.shards import is_split
from headwise.see.profile.running import Run, Word, united
from headwise.see.profile.together import Team, gathered
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.refusing import check_model

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Progress", "importance"]

Progress = Callable[[float, "int | None", int], None]
"""progress(texts done, texts in all or None, tokens done); within a batch texts are done by parts."""

_EVERY = 10.0
"""Seconds between two lines of progress."""


def importance(
    model: Model,
    texts: Texts,
    method: MethodName = "gate",
    *,
    heads: Heads | None = None,
    loss: LossFunction | None = None,
    per: Per = "row",
    target: str | Iterable[str] | None = None,
    context: int | None = None,
    means: Means | None = None,
    normalise: bool = False,
    dropout: bool = False,
    progress: Progress | None = None,
    quiet: bool = False,
) -> xr.Dataset:
    """How much each head does for a loss over texts.

    All gradient methods cost about one forward and backward pass; leave-one-out and mean-ablation run the model
    once for each head, of which only what comes after the head is computed anew, where the model allows.
    Where torch.distributed is initialised, the processes share the work: each calls this with the same texts, and
    each is given the same table. An interrupt (Ctrl-C) ends it with what is done so far, which attrs["stopped"]
    says; heads that were not reached are NaN.

    Args:
        model: from `load`; as it was afterwards, in whatever mode and with whatever gradients.
        texts: whatever `profile` takes; `blocks` makes rows of equal length of a corpus.
        method: "gate" (Michel et al. 2019), "fisher", "taylor" and "taylor2" (signed, of first and second order);
            the same after "mean-", with the gate between the head and its mean output; "leave-one-out" and
            "mean-ablation", exactly (`headwise.cut.ranking.methods` has the formulas). More is more important;
            "taylor", "taylor2" and the exact ones are in units of the loss, and negative where a head harms.
        heads: which to show, as `ablate` takes them; None = all.
        loss: a function of the model's output and inputs, which gives a loss [], [batch] or [batch, position];
            None = of the next token, in nats.
        per: one gate for a head in each row, or in each token of it.
        target: for an encoder-decoder given texts, what its decoder reads; None = what it writes itself.
        context: the most tokens of a piece of a text; None = what the model reads at most.
        means: what stands in with the mean methods; None = the heads' mean outputs over these texts.
        normalise: divide each layer by its Euclidean length, as Michel et al. do.
        dropout: gradients in training mode, with the model's dropout.
        progress: called as it goes on.
        quiet: nothing on stderr.

    Returns:
        Dataset over (layer, head), heads under their ORIGINAL ids, NaN where a head was cut, not asked for or not
        reached: importance, standard_error (over texts), importance_first and _second (two halves of the texts),
        rows. attrs: model, method, per, loss, texts, tokens, mean_loss, stability (rank correlation of the halves),
        texts_to_settle, the rules of both in words, and of exact methods `computed` (how).

    Raises:
        TextError: no text, or one that cannot be read.
        HeadError: heads that the model does not have.
        ConfigError: another method; an exact one per token.
        ModelError: a model that predicts no next token and no loss given, or a loss without a gradient.
        ShapeError: a loss of another shape.
    """
    check_model(model, "importance")
    how = method_of(method, per)
    found = census(model, texts if isinstance(texts, Mapping) else None)
    chosen = selected(found, "*" if heads is None else heads)
    if loss is None:
        check_predicts(model)
    team = Team() if is_split(model.module) else gathered()
    batches: Iterable[Batch] = batches_in(model, texts, target, context, "importance")
    if how.mean and means is None:
        batches = list(batches)
        means = averages(model, batches, team)
    stands = means if how.mean else None
    total = len(texts) if isinstance(texts, Sized) and not isinstance(texts, str | dict) else None
    tell = _Telling(total, progress, quiet or team.rank > 0)
    measure, computed = _measure(model, how, stands, loss, per, dropout, tell, chosen)
    scored = _run(len(found.heads), measure, batches, team, tell)
    attrs: dict[str, Any] = {
        "per": per,
        "loss": "next token" if loss is None else getattr(loss, "__qualname__", repr(loss)),
        "texts": scored.texts,
        "tokens": scored.tokens,
        **computed(),
    }
    if scored.stopped:
        attrs["stopped"] = "interrupted; heads and texts that were not reached are left out"
        say(f"importance: {attrs['stopped']}", quiet=tell.quiet)
    return table(model, found, scored.rows, Facts(how, chosen, normalise, attrs))


def _measure(
    model: Model,
    method: Method,
    means: Means | None,
    loss: LossFunction | None,
    per: Per,
    dropout: bool,
    tell: _Telling,
    heads: tuple[Any, ...],
) -> tuple[Measure, Callable[[], dict[str, Any]]]:
    """What measures a batch, and what it says of itself afterwards."""
    if method.score is None:
        leaving = LeavingOut(model, heads, loss=loss, means=means, reached=tell.within)
        return leaving, lambda: {"computed": leaving.computed}
    per = "token" if method.by_token else per
    return _OfGradients(model, method.score, means, loss, per, dropout), dict


class _OfGradients:
    """Scores of a batch from its gradients."""

    def __init__(
        self,
        model: Model,
        score: Score,
        means: Means | None,
        loss: LossFunction | None,
        per: Per,
        dropout: bool,
    ) -> None:
        self._model, self._score = model, score
        self._how: dict[str, Any] = {"means": means, "loss": loss, "per": per, "training": dropout}

    def __call__(self, batch: Batch) -> Measured:
        found = gradients_of(self._model, batch, **self._how)
        columns = []
        for run in census(self._model).runs:
            if run.id not in found.gates:  # a layer that this batch did not reach
                columns.append(np.zeros((len(found.counts), len(run.heads))))
                continue
            g = found.gates[run.id].double()
            columns.append(self._score(g if g.dim() == 3 else g[..., None]).cpu().numpy())
        losses = found.losses.double().cpu().numpy()
        return Measured(np.concatenate(columns, 1), losses, found.counts.cpu().numpy())


class _Telling:
    """Progress: handed on, or a line on stderr every so often."""

    def __init__(self, total: int | None, progress: Progress | None, quiet: bool) -> None:
        self.quiet = quiet
        self._total, self._progress = total, progress
        self._done: tuple[int, int] = (0, 0)
        self._said = time.monotonic()

    def done(self, texts: int, tokens: int) -> None:
        """So many are done."""
        self._done = (texts, tokens)
        self._tell(texts, tokens)

    def within(self, texts: float) -> None:
        """So much of the batch under way is done, in texts."""
        self._tell(self._done[0] + texts, self._done[1])

    def _tell(self, texts: float, tokens: int) -> None:
        if self._progress is not None:
            self._progress(texts, self._total, tokens)
            return
        now = time.monotonic()
        if now - self._said >= _EVERY:
            self._said = now
            of = "" if self._total is None else f" of {self._total:,}"
            say(f"importance: {texts:,.4g}{of} texts done, {tokens:,} tokens", quiet=self.quiet)


def _run(
    heads: int, measure: Measure, batches: Iterable[Batch], team: Team, tell: _Telling
) -> Scored:
    """Every batch measured, by this process or another of the team."""
    mine = Scored(heads, measure)

    def word() -> Word:
        try:
            tell.done(mine.texts, mine.tokens)
        except KeyboardInterrupt:
            mine.stopped = True
        return Word.STOPPING if mine.stopped else Word.GOING

    run = Run(mine, team, word=word)
    run.through(batches)
    scored: Scored = mine
    if team.size > 1:
        scored, _ = united(team, mine.state(), run.done, frozenset(), lambda: Scored(heads))
    if scored.stopped and not len(scored.rows.counts):
        raise KeyboardInterrupt
    return scored
