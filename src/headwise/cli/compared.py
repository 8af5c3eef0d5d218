"""Two models held against one another: how large each is, and what each says of the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwise.cli.cutting import Reading, rows_of
from headwise.cli.progress import RunProgress
from headwise.cut.ablating.comparing import Measured, compared, predicts
from headwise.cut.census import census
from headwise.hub.kept import kept_of
from headwise.hub.load import Model
from headwise.names import HeadId
from headwise.see.tables import plain
from headwise.see.texts.given import batches_in
from headwise.show.terminal_ablate import FileRow
from headwise.show.terminal_cut import Size

__all__ = ["as_json", "file_rows", "groups_of", "measured", "sizes"]


def sizes(before: Model, after: Model) -> list[Size]:
    """Heads, parameters, and the bytes of keys and values that a token adds to a cache."""
    found = [
        Size("query heads", len(census(before).heads), len(census(after).heads)),
        Size("KV heads", _kv_heads(before), _kv_heads(after)),
        Size("parameters", _parameters(before), _parameters(after)),
    ]
    if predicts(before):
        found.append(Size("cache per token", _cache(before), _cache(after), of="bytes"))
    return found


def measured(
    before: Model,
    after: Model,
    files: Sequence[Path],
    reading: Reading,
    call: str,
    *,
    shown: bool = True,
) -> dict[Path, Measured]:
    """The rows of each file by both models; `shown`: whether how far it is goes to stderr."""
    found = {}
    for file in files:
        corpus, targets = reading.corpora((file,))
        texts = list(corpus.texts())
        goal = None if targets is None else list(targets.texts())
        rows = rows_of(before, texts, reading)
        batches = list(batches_in(before, rows, goal, reading.context, call))
        parts = []
        with RunProgress(len(texts), 0, 0, shown) as progress:
            for batch, part in zip(batches, compared(before, after, batches), strict=True):
                parts.append(part)
                begun = batch.size if batch.begun is None else batch.begun
                progress.add(begun, batch.tokens or 0, begun)
        found[file] = Measured.joined(parts)
    return found


def file_rows(found: Mapping[Path, Measured]) -> list[FileRow]:
    """A line for each file, and one for all where there are several."""
    rows = [FileRow(file.name, parts.change()) for file, parts in found.items()]
    if len(rows) > 1:
        rows.append(FileRow("all", Measured.joined(list(found.values())).change()))
    return rows


def as_json(found: Mapping[Path, Measured], held: Sequence[Size], loss: bool) -> dict[str, Any]:
    """Sizes and losses as JSON has them."""
    return {
        "measure": "loss, nats per token" if loss else "output moved, relative",
        "sizes": {size.name: {"before": size.before, "after": size.after} for size in held},
        "files": [
            {"file": str(file), **plain(asdict(parts.change()))} for file, parts in found.items()
        ],
    }


def groups_of(model: Model) -> dict[HeadId, int]:
    """The KV head that each query head reads, in the ids they had at first."""
    found: dict[HeadId, int] = {}
    for run in census(model).runs:
        kept = kept_of(run.layer.module)
        ids = range(run.num_kv_heads) if kept is None else kept.kv_heads
        groups = [id for id, count in zip(ids, run.groups, strict=True) for _ in range(count)]
        found |= {run.id.head(head): group for head, group in zip(run.heads, groups, strict=True)}
    return found


def _parameters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.module.parameters())


def _kv_heads(model: Model) -> int:
    return sum(run.num_kv_heads for run in census(model).runs)


def _cache(model: Model) -> int:
    """Keys and values of one token."""
    size = next(model.module.parameters()).element_size()
    return sum(run.num_kv_heads * (run.head_dim + run.v_dim) * size for run in census(model).runs)
