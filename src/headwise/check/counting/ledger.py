"""A ledger: what was counted of one model, as a table over layers and parts, and as totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.check.counting.feeding import Sizes
from headwise.check.counting.stages import Stages

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Ledger"]


@dataclass(frozen=True, eq=False)
class Ledger:
    """What a model costs.

    FLOPs and bytes are those of a whole batch; a multiply-add is 2 FLOPs, all n x n scores are counted.

    Attributes:
        name: as it was asked for.
        kind: the class that ran.
        sizes: rows, positions, positions of a decoder.
        dtype: of the weights.
        table: over `place` (a layer, or `outside`) and `part`: parameters, flops_forward, flops_backward,
            activation_bytes (what autograd keeps for the backward pass), cache_bytes.
        stages: of each attention layer the shapes that a row passes through.
        peak_bytes: the most that a plain forward pass holds at a time beside weights and inputs.
        cached: whether the model has a cache.
        tied: paths of maps whose weight is a table of embeddings, counted once, and its name.
        how: on what it was run.
    """

    name: str
    kind: str
    sizes: Sizes
    dtype: str
    table: xr.Dataset = field(repr=False)
    stages: tuple[Stages, ...] = field(repr=False)
    peak_bytes: int
    cached: bool
    tied: tuple[tuple[str, str], ...]
    how: str

    @property
    def parameters(self) -> int:
        """All numbers in the weights, tied ones once."""
        return self._sum("parameters")

    @property
    def flops_forward(self) -> int:
        """FLOPs of the forward pass over the batch."""
        return self._sum("flops_forward")

    @property
    def flops_backward(self) -> int:
        """FLOPs of the gradients of all weights."""
        return self._sum("flops_backward")

    @property
    def activation_bytes(self) -> int:
        """Bytes that autograd keeps between the forward and the backward pass, weights left out."""
        return self._sum("activation_bytes")

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values once all positions were read; 0 where there is no cache."""
        return self._sum("cache_bytes")

    def part(self, part: str) -> dict[str, int]:
        """The sums of one part over all places."""
        held = self.table.sel(part=part)
        return {str(name): int(held[name].sum()) for name in held.data_vars}

    def frame(self) -> pd.DataFrame:
        """One row for each place and part that costs anything."""
        frame = self.table.to_dataframe().reset_index()
        numbers = [str(name) for name in self.table.data_vars]
        frame = frame[(frame[numbers] != 0).any(axis=1)]
        return frame.reset_index(drop=True)

    def save(self, path: str | Path) -> None:
        """Write the table to a .nc, .csv, .parquet or .json file, so that a failure leaves an old one as it was.

        Raises:
            OutputError: the file cannot be written, or its name says no kind of table.
        """
        from headwise.check.counting.files import save_ledger

        save_ledger(self, path)

    def as_dict(self) -> Mapping[str, Any]:
        """All of it as plain data."""
        batch, length, target = self.sizes.batch, self.sizes.length, self.sizes.target
        forward = self.flops_forward // batch
        tokens = self.sizes.tokens
        return {
            "model": self.name,
            "class": self.kind,
            "dtype": self.dtype,
            "batch": batch,
            "length": length,
            "target_length": target,
            "how": self.how,
            "parameters": self.parameters,
            "flops_forward": self.flops_forward,
            "flops_backward": self.flops_backward,
            "flops_forward_per_sequence": forward,
            "flops_backward_per_sequence": self.flops_backward // batch,
            "flops_forward_per_token": forward / tokens if tokens else None,
            "flops_backward_per_token": self.flops_backward / batch / tokens if tokens else None,
            "cache_bytes": self.cache_bytes if self.cached else None,
            "activation_bytes": self.activation_bytes,
            "peak_forward_bytes": self.peak_bytes,
            "tied": [list(pair) for pair in self.tied],
            "rows": self.frame().to_dict("records"),
            "shapes": [_shapes(one) for one in self.stages],
        }

    def _sum(self, name: str) -> int:
        return int(self.table[name].sum())


def _shapes(one: Stages) -> dict[str, Any]:
    stages = [
        {"stage": s.name, "times": s.times, "rows": s.rows, "columns": s.columns}
        for s in one.stages
    ]
    return {"layer": str(one.id), "stages": stages}
