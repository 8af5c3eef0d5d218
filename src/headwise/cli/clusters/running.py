"""What `headwise clusters` does once its arguments are read: compare the heads, save, show, draw."""

from __future__ import annotations

import torch
import xarray as xr
from rich.console import Console

from headwise.cli.clusters.command import ClustersRequest
from headwise.cli.printing import print_out, say, without
from headwise.cli.reading import begun, out_of_memory, reading_model
from headwise.see.clusters.grouping import clusters, plane, streams_of, table_of, tree
from headwise.see.clusters.measuring import distances
from headwise.see.profile.files import left_out, save_profile

__all__ = ["run"]


def run(request: ClustersRequest) -> None:
    """Compare the heads over a corpus, and show which look alike."""
    texts = begun(request.corpus.texts())
    model = reading_model(
        request,
        call="distances",
        targets=None if request.targets is None else "--target",
    )
    targets = None if request.targets is None else list(request.targets.texts())
    try:
        apart = distances(
            model,
            list(texts),
            request.rows,
            request.seed,
            target=targets,
            context=request.context,
        )
    except torch.OutOfMemoryError as error:
        raise out_of_memory(error) from None
    groups = clusters(apart, request.count)
    table = table_of(apart, groups)
    if request.out is not None:
        save_profile(table, request.out, "the clusters")
    lines = _lines(apart, groups, model.name)

    def show(console: Console, colour: bool) -> None:
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)

    print_out(show, request.out)
    if request.pictures:
        _draw(request, apart, groups, model.name)
    if request.out is not None:
        say(f"wrote {request.out}{without(left_out(table, request.out))}")


def _lines(apart: xr.DataArray, groups: xr.DataArray, name: str) -> list[str]:
    rows = ", ".join(f"{n:,}" for n in dict.fromkeys(apart.attrs["rows"].values()))
    lines = [f"{name}: {groups.size} heads, what they look at from {rows} tokens"]
    for number in range(1, int(groups.max()) + 1):
        ids = [str(id) for id in groups["head"].values[groups.values == number]]
        within = apart.sel(head_a=ids, head_b=ids).values
        mean = within.sum() / max(len(ids) * (len(ids) - 1), 1)
        lines.append(f"{number}  {len(ids)} heads, {mean:.3f} nats apart: {' '.join(ids)}")
    return lines


def _draw(request: ClustersRequest, apart: xr.DataArray, groups: xr.DataArray, name: str) -> None:
    from headwise.show.picture_clusters import draw_plane, draw_tree
    from headwise.show.pictures import save

    stream = request.stream or streams_of(apart)[0]
    labels = {
        str(id): f"cluster {number}"
        for id, number in zip(groups["head"].values, groups.values, strict=True)
    }
    said = f"{name}{f', {stream}' if stream else ''}. Heads by the Jensen-Shannon distance of their rows"
    if request.tree:
        figure = draw_tree(tree(apart, stream), labels, caption=f"{said}, average linkage.")
    else:
        ids, places, share = plane(apart, stream)
        facts = f"{said}, classical scaling: two axes hold {share:.0%} of the squared distances."
        figure = draw_plane(ids, places, labels, caption=facts)
    for path in request.pictures:
        save(figure, path)
        say(f"wrote {path}")
