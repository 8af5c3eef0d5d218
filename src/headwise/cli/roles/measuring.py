"""The passes of `headwise roles` over texts and random tokens, stopped between two batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import xarray as xr

from headwise.cli.progress import RunProgress
from headwise.cli.reading import out_of_memory
from headwise.cli.roles.command import RolesRequest
from headwise.cli.roles.gathering import Gathered
from headwise.cli.stopping import Stopping
from headwise.hub.load import Model
from headwise.names import ModelError, TextError
from headwise.see.probes import Probe, repeated_tokens
from headwise.see.profile.profiler import Profiler
from headwise.see.roles.examples import Finder
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import packed_ids
from headwise.see.texts.packing import packed

__all__ = ["Measuring"]

_ROWS = 32
_MOST = 64
"""Tokens before the repetition in a row of random tokens, at most; at least half as many."""

_LEAST = 4


class Measuring:
    """Runs the model over what was gathered.

    Args:
        model: from `load`.
        request: what was asked for.
        gathered: texts and probes.
        stop: whether Ctrl-C was pressed.

    Attributes:
        speed: tokens per second of the pass over the texts.
        notes: a line for each pass that was left out or stopped.
    """

    def __init__(
        self, model: Model, request: RolesRequest, gathered: Gathered, stop: Stopping
    ) -> None:
        self.model, self.request, self.gathered, self.stop = model, request, gathered, stop
        self.speed = 0.0
        self.notes: list[str] = []

    def profile(self) -> xr.Dataset:
        """The table of the texts, of as many as were done when it was stopped.

        Raises:
            HeadwiseError: what is wrong with a text or the model; stopped before a batch was done.
        """
        profiler = self._profiler(self.gathered.probes)
        self._through(profiler.add)
        if not profiler.batches:
            raise TextError("stopped before a batch was done; there is nothing to show")
        if self.stop.asked:
            some = f"{profiler.texts:,} text{'' if profiler.texts == 1 else 's'}"
            self.notes.append(f"interrupted: judged on the {some} read by then")
        return profiler.dataset()

    def repeated(self) -> xr.Dataset | None:
        """The table of rows of random tokens, None where there can be none."""
        probes = self.gathered.repeated
        if not probes:
            return None
        if self.stop.asked:
            self._leave_out("interrupted before the random tokens were run")
            return None
        if self.model.encoder_decoder:
            self._leave_out("an encoder-decoder is not run on random tokens")
            return None
        reads = [n for n in (self.request.context, self.model.max_length) if n is not None]
        most = min([_MOST, *(n // 2 for n in reads)])
        if most < _LEAST:
            self._leave_out(f"the context of {min(reads)} tokens is too short for random tokens")
            return None
        try:
            rows = repeated_tokens((-(-most // 2), most), model=self.model, rows=_ROWS)
        except ModelError as error:
            self._leave_out(str(error))
            return None
        profiler = self._profiler(probes)
        for batch in packed_ids(self.model, rows):
            profiler.add(batch)
        return profiler.dataset()

    def examples(self, finder: Finder) -> None:
        """Look through the texts again for the strongest cases of a head."""
        self._through(finder.add)

    def _through(self, add: Callable[[Batch], None]) -> None:
        """Add the texts batch by batch, until the end or Ctrl-C."""
        with RunProgress(self.gathered.count, 0, 0, True) as progress:
            for batch in self._batches():
                try:
                    add(batch)
                except torch.OutOfMemoryError as error:
                    raise out_of_memory(error) from None
                texts = batch.size if batch.begun is None else batch.begun
                progress.add(texts, batch.tokens or 0, texts)
                if self.stop.asked:
                    break
            self.speed = progress.speed

    def _batches(self) -> Iterator[Batch]:
        targets = self.gathered.targets
        return packed(
            self.model,
            self.gathered.texts(),
            targets=None if targets is None else targets(),
            context=self.request.context,
            call="roles",
        )

    def _profiler(self, probes: tuple[Probe, ...]) -> Profiler:
        return Profiler(
            self.model,
            probes=probes,
            top=0,
            pool=0,
            positions=1,
            context=self.request.context,
        )

    def _leave_out(self, why: str) -> None:
        names = ", ".join(probe.name for probe in self.gathered.repeated)
        self.notes.append(f"{names}: left out, {why}")
