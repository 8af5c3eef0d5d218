"""What `headwise clusters` does once its arguments are read: compare the heads, save, show, draw."""

from __future__ import annotations

import torch
import xarray as xr
from rich.console import Console
from rich.text import Text

from headwise.cli.clusters.command import ClustersRequest
from headwise.cli.printing import counted, print_out, say, without
from headwise.cli.reading import begun, out_of_memory, reading_model
from headwise.see.clusters.grouping import clusters, plane, streams_of, table_of, tree
from headwise.see.clusters.measuring import distances
from headwise.see.profile.files import left_out, save_profile
from headwise.show.cells import flow, print_lines

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
    groups = clusters(apart, _count(request, apart))
    table = table_of(apart, groups)
    if request.out is not None:
        save_profile(table, request.out, "the clusters")

    def show(console: Console, colour: bool) -> None:
        console.print(print_lines(_lines(apart, groups, model.name, console.width)))

    print_out(show, request.out)
    if request.pictures:
        _draw(request, apart, groups, model.name)
    if request.out is not None:
        say(f"wrote {request.out}{without(left_out(table, request.out))}")


def _count(request: ClustersRequest, apart: xr.DataArray) -> int | None:
    """How many clusters to make: those asked for, or where there are fewer heads as many as these."""
    names = [str(id).rpartition(".")[0].rpartition(".")[0] for id in apart["head_a"].values]
    most = max(map(names.count, names))
    if request.count is not None and request.count > most:
        say(f"headwise: --count {request.count}: there are {most} heads, each a cluster of its own")
        return most
    return request.count


def _lines(apart: xr.DataArray, groups: xr.DataArray, name: str, width: int) -> list[Text]:
    rows = dict.fromkeys(n for key, n in apart.attrs.items() if key.split("_")[0] == "rows")
    told = ", ".join(f"{n:,}" for n in rows)
    head = f"{name}: {groups.size} heads, from {told} tokens, drawn from {counted(apart)}"
    lines = _wrapped(head, width)
    for number in range(1, int(groups.max()) + 1):
        ids = [str(id) for id in groups["head"].values[groups.values == number]]
        what = "1 head"
        if len(ids) > 1:
            mean = apart.sel(head_a=ids, head_b=ids).values.sum() / (len(ids) * (len(ids) - 1))
            what = f"{len(ids)} heads, {mean:.3f} nats apart"
        lines += _wrapped(f"{number:<2} {what}: {' '.join(ids)}", width)
    return lines


def _wrapped(line: str, width: int) -> list[Text]:
    """The words on lines of a width, all but the first indented."""
    first, *words = map(Text, line.split(" "))
    return flow([first, *words], width, indent=3, gap=1)


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
