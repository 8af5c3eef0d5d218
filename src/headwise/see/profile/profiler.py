"""Profiler: statistics of every head over a corpus, summed batch by batch while the model runs.

A layer's statistics are made in the walk that computes its head outputs, so a profile costs about a forward pass.
The first batch is run once more by the model's own attention, with which the recomputed head outputs are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from headwise.core.streaming import PatternFunction
from headwise.core.taps import Tap, tapped
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, watching
from headwise.names import ConfigError, LayerId, TextError
from headwise.see.looking import refuse_silence
from headwise.see.made import made_with
from headwise.see.probes import BUILT_IN, Probe, chosen
from headwise.see.profile.asking import Settings
from headwise.see.profile.halves import marks_of
from headwise.see.profile.meter import Pass, refuse_nan
from headwise.see.profile.table import table
from headwise.see.profile.tally import LayerTally, added
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.packing import SPLITTING
from headwise.see.texts.refusing import check_model

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Profiler"]

State = Mapping[str, "np.ndarray | str"]

_COUNTS = ("batches", "texts", "pieces", "skipped", "tokens")


class Profiler:
    """Adds up statistics of every head over a corpus, batch by batch.

        profiler = Profiler(model)
        for batch in profiler.read(texts):
            profiler.add(batch)
        table = profiler.dataset()

    `profile` does that at once. Here the run can be stopped and taken up again (`state`, `restore`), and profilers
    of several parts of a corpus be put together (`merge`).

    Args:
        model: from `load`.
        probes: rules that name the key each query should look at, or names of built-in ones.
        functions: statistics of one's own by name: from a `streaming.Block` one number per row, [batch, head,
            query]; rows where it is NaN are left out.
        top: how many of the strongest keys of each row to add up.
        pool: cells per side of the pooled map; 0 = none.
        positions: of how many first positions to tell what they receive; 0 = none.
        context: the most tokens of a piece of a text; None = what the model reads at most.

    Attributes:
        batches, texts, tokens: how many are done; a text that was cut into pieces counts with its first.
        pieces: rows done: a text, or a piece of one.
        skipped: empty texts left out.

    Raises:
        ConfigError: settings that do not go together.
        ModelError: no Model.
    """

    def __init__(
        self,
        model: Model,
        *,
        probes: Iterable[Probe | str] = BUILT_IN,
        functions: Mapping[str, PatternFunction] | None = None,
        top: int = 8,
        pool: int = 32,
        positions: int = 64,
        context: int | None = None,
    ) -> None:
        check_model(model, "profile")
        self.model, self.context = model, context
        self.settings = Settings(chosen(probes), dict(functions or {}), top, pool, positions)
        _check(self.settings)
        self.batches = self.texts = self.pieces = self.skipped = self.tokens = 0
        self._marks: frozenset[int] = frozenset()  # of the texts so far
        self._layers: dict[LayerId, LayerTally] = {}
        self._maps: dict[LayerId, OutputMap] | None = None

    def empty(self) -> Profiler:
        """Another of the same model and settings, with nothing in it."""
        s = self.settings
        return Profiler(
            self.model,
            probes=s.probes,
            functions=s.functions,
            top=s.top,
            pool=s.pool,
            positions=s.positions,
            context=self.context,
        )

    def read(self, texts: Texts, target: str | Iterable[str] | None = None) -> Iterator[Batch]:
        """Texts, or whatever else `profile` takes, as the batches it adds, read as they are needed.

        Raises:
            HeadwiseError: as `profile` does.
        """
        return batches_in(self.model, texts, target, self.context)

    def add(self, batch: Batch) -> None:
        """Run the model on a batch and add its numbers, all or, where something stops it, none.

        Raises:
            ModelError: no head fired, or a head whose numbers are not finite.
        """
        maps, verified = self._maps, dict[LayerId, dict[str, np.ndarray]]()
        if maps is None:
            maps, verified = self._verify(batch)
        run = Pass(self.settings, batch, maps)
        with run.results(self.model.module):
            self._run(batch, {x.module: Tap(meter=run.meter(x)) for x in self.model.anatomy.layers})
        refuse_silence(self.model, len(run.found))
        tallies = {id: {**tally, **verified.get(id, {})} for id, tally in run.tallies().items()}
        refuse_nan(self.model, tallies, batch)
        sums = {id: added(self._layers.get(id), tally) for id, tally in tallies.items()}
        tokens = batch.size * run.longest if batch.tokens is None else batch.tokens
        begun = batch.size if batch.begun is None else batch.begun
        self._maps, self._layers = maps, {**self._layers, **sums}
        self._marks |= set(marks_of(batch).tolist())
        self._count(1, begun, batch.size, batch.skipped, tokens)

    def _verify(
        self, batch: Batch
    ) -> tuple[dict[LayerId, OutputMap], dict[LayerId, dict[str, np.ndarray]]]:
        """Run the model's own attention: the output maps, and how far recomputed head outputs are from its own."""
        maps: dict[LayerId, OutputMap] = {}
        run = Pass(self.settings, batch, maps)
        with watching(self.model.module) as watch:
            taps = {
                x.module: Tap(observers=(run.observer(x, watch),))
                for x in self.model.anatomy.layers
            }
            self._run(batch, taps)
        return maps, {id: {"verified": off} for id, off in run.verified.items()}

    def _run(self, batch: Batch, taps: Mapping[nn.Module, Tap]) -> None:
        with self.model.open(), tapped(taps):
            self.model.run(batch.inputs)

    def dataset(self) -> xr.Dataset:
        """The table so far (`profile`).

        Raises:
            TextError: nothing was added yet.
        """
        if not self._layers:
            raise TextError("there is nothing to tell yet: no text was profiled")
        streams = self.model.anatomy.streams
        order = sorted(self._layers, key=lambda id: (streams.index(id.stream), id.layer))
        attrs: dict[str, Any] = {
            "model": self.model.name,
            "texts": self.texts,
            "distinct": self.distinct,
            "pieces": self.pieces,
            "skipped": self.skipped,
            "tokens": self.tokens,
            "splitting": SPLITTING,
            "context": self.context or self.model.max_length or "no limit",
            **_made_with(self.model, self.settings),
        }
        return table(self.settings, {id: self._layers[id] for id in order}, attrs)

    @property
    def distinct(self) -> int:
        """How many different texts were read."""
        return len(self._marks)

    def state(self) -> dict[str, np.ndarray | str]:
        """Everything needed to go on, as arrays that can be saved: sums and counts, which add up over processes."""
        found: dict[str, np.ndarray | str] = {"settings": self._identity()}
        found |= {name: np.array(getattr(self, name)) for name in _COUNTS}
        found["marks"] = np.array(sorted(self._marks), dtype=np.uint64)
        for id, tally in self._layers.items():
            found |= {f"{id}/{name}": array for name, array in tally.items()}
        return found

    def restore(self, state: State) -> None:
        """Go on from a state that a profiler of the same model and settings gave.

        Raises:
            ConfigError: it was made of another model or with other settings.
        """
        layers = self._read(state)
        self._layers = layers
        self._marks = _marks_in(state)
        self.batches, self.texts, self.pieces, self.skipped, self.tokens = (
            int(state[name]) for name in _COUNTS
        )

    def merge(self, other_state: State) -> None:
        """Add the sums of another profiler (another process, another part of the corpus).

        Raises:
            ConfigError: it was made of another model or with other settings.
        """
        layers = self._read(other_state)
        self._layers |= {id: added(self._layers.get(id), tally) for id, tally in layers.items()}
        self._marks |= _marks_in(other_state)
        self._count(*(int(other_state[name]) for name in _COUNTS))

    def _count(self, batches: int, texts: int, pieces: int, skipped: int, tokens: int) -> None:
        self.batches += batches
        self.texts += texts
        self.pieces += pieces
        self.skipped += skipped
        self.tokens += tokens

    def _identity(self) -> str:
        """What two states must share to be added up."""
        s = self.settings
        numbers = sum(parameter.numel() for parameter in self.model.module.parameters())
        return json.dumps(
            {
                "model": self.model.name,
                "parameters": numbers,
                "probes": [probe.name for probe in s.probes],
                "functions": list(s.functions),
                "top": s.top,
                "pool": s.pool,
                "positions": s.positions,
            }
        )

    def _read(self, state: State) -> dict[LayerId, LayerTally]:
        mine = json.loads(self._identity())
        try:
            theirs = json.loads(str(state["settings"]))
            for name in mine:
                if theirs[name] != mine[name]:
                    raise ConfigError(
                        f"the saved profile was made with {name} = {theirs[name]}, this one has {mine[name]}; "
                        "start anew, or use the same"
                    )
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"that is no state of a profile ({error!r}); start anew") from None
        layers: dict[LayerId, dict[str, np.ndarray]] = {}
        for key, array in state.items():
            path, slash, name = key.rpartition("/")
            if slash:
                stream, _, number = path.rpartition(".")
                layers.setdefault(LayerId(stream, int(number)), {})[name] = np.asarray(array)
        return dict(layers)


def _marks_in(state: State) -> frozenset[int]:
    return frozenset(np.asarray(state["marks"]).tolist())


def _made_with(model: Model, settings: Settings) -> dict[str, Any]:
    """What was asked, and what computed it."""
    return {
        "probes": [probe.name for probe in settings.probes],
        "functions": list(settings.functions),
        "top": settings.top,
        "pool": settings.pool,
        **made_with(model),
    }


def _check(settings: Settings) -> None:
    for name in ("top", "pool", "positions"):
        value = getattr(settings, name)
        if not isinstance(value, int) or value < 0:
            raise ConfigError(f"{name} must be a whole number from 0, came {value!r}")
    names = _variables(settings)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"{twice[0]!r} would be the name of two results; give your probe or function another name"
        )


def _variables(settings: Settings) -> Sequence[str]:
    """The names of everything a table of these settings may hold."""
    parts = ("", "_low", "_high", "_count")
    maps = ["received", "received_count", "pooled", "pooled_max", "kv_group", "layer", "head"]
    return [f"{name}{part}" for name in settings.statistics for part in parts] + maps
