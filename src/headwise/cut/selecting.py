"""Which heads are meant: ids, ranges and files of them, as the heads a model has.

18.6    cross.0.2     one head
18.*    18            a whole layer
*.2     0-5.*    18.0-3    ranges, both ends included
cross.*.*    *        every head of a stream; every head
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.cut.census import Census
from headwise.names import HeadError, HeadId

__all__ = ["Heads", "named", "selected"]

Heads = str | HeadId | Path | Iterable["str | HeadId"]
"""An id, a range, several (a list, or one string with commas or spaces), or a file that holds them."""

_FORM = re.compile(
    r"(?:(?P<stream>[A-Za-z_]\w*)\.)?(?P<layer>\*|\d+(?:-\d+)?)(?:\.(?P<head>\*|\d+(?:-\d+)?))?"
)


def selected(census: Census, heads: Heads) -> tuple[HeadId, ...]:
    """The heads that are meant, in the order of the model, each once.

    Args:
        census: of the model.
        heads: ids, ranges or a file of them; in a file, also one per line, `#` begins a remark, or a JSON list.

    Raises:
        HeadError: what is no id, names no head of the model, or none at all; a file that cannot be read.
    """
    meant: set[HeadId] = set()
    for item in _items(heads):
        meant |= _meant(census, item)
    if not meant:
        raise HeadError(
            "no head was named; give ids such as 18.6, ranges such as 18.* or a file of them"
        )
    return tuple(id for id in census.heads if id in meant)


def named(heads: Heads) -> list[str]:
    """The ids and ranges that are written there, of which a model need not have any.

    Raises:
        HeadError: what is no id, or a file that cannot be read.
    """
    items = _items(heads)
    for item in items:
        _form(item)
    return items


def _items(heads: Heads) -> list[str]:
    if isinstance(heads, Path):
        return _read(heads)
    if isinstance(heads, HeadId):
        return [str(heads)]
    if isinstance(heads, str):
        return heads.replace(",", " ").split()
    if not isinstance(heads, Iterable):
        raise HeadError(f"heads must be ids, ranges or a file of them, came {type(heads).__name__}")
    return [part for head in heads for part in _one(head)]


def _one(head: object) -> list[str]:
    if not isinstance(head, str | HeadId):
        raise HeadError(f"a head's id is written as '18.6', came {head!r}")
    return _items(head)


def _read(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise HeadError(f"{path} cannot be read: {why}; it must hold ids of heads") from None
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise HeadError(f"{path} is not JSON: {error}") from None
        return [part for head in found for part in _one(head)]
    lines = (line.partition("#")[0] for line in text.splitlines())
    return [part for line in lines for part in _items(line)]


def _form(item: str) -> re.Match[str]:
    match = _FORM.fullmatch(item)
    if match is None:
        raise HeadError(
            f"{item!r} is no head id; write layer.head, for instance 18.6 or cross.0.2, or a range such as 18.*"
        )
    for part in (match["layer"], match["head"] or "*"):
        first, last = _ends(part)
        if first > last:
            raise HeadError(
                f"{item} runs backwards: write the lower number first, {last}-{first} in place of {part}"
            )
    return match


def _meant(census: Census, item: str) -> set[HeadId]:
    match = _form(item)
    stream, layer, head = match["stream"], match["layer"], match["head"] or "*"
    found = {
        id
        for id in census.heads
        if _in(id.layer, layer) and _in(id.head, head) and _is(id.stream, stream, layer == "*")
    }
    if not found or not _all_there(found, layer, head):
        raise HeadError(f"{item} is not there: {_there(census, stream, layer)}")
    return found


def _is(stream: str, wanted: str | None, every: bool) -> bool:
    return stream == (wanted or "") or (wanted is None and every)


def _in(number: int, wanted: str) -> bool:
    first, last = _ends(wanted)
    return first <= number <= last


def _ends(wanted: str) -> tuple[float, float]:
    if wanted == "*":
        return 0, float("inf")
    first, _, last = wanted.partition("-")
    return int(first), int(last or first)


def _all_there(found: set[HeadId], layer: str, head: str) -> bool:
    """Whether both ends of a range are heads."""
    layers, heads = {id.layer for id in found}, {id.head for id in found}
    return all(
        end == float("inf") or end in there
        for wanted, there in ((layer, layers), (head, heads))
        for end in _ends(wanted)[1:]
    )


def _there(census: Census, stream: str | None, layer: str) -> str:
    """What there is instead, in a few words."""
    streams = dict.fromkeys(run.id.stream for run in census.runs)
    if (stream or "") not in streams and not (stream is None and layer == "*"):
        if tuple(streams) == ("",):
            return "the model has one stack of layers; leave out the name, as in 0.1"
        if stream is None:
            return f"say of which stream, as in {next(iter(streams))}.{layer}; the streams are {', '.join(streams)}"
        return f"the streams are {', '.join(name or 'one without a name' for name in streams)}"
    runs = [run for run in census.runs if run.id.stream == (stream or "")]
    here = [run for run in runs if layer != "*" and _in(run.id.layer, layer)]
    if here:
        return f"layer {here[0].id} has the heads {_listed(here[0].heads)}"
    return f"the layers are {runs[0].id} to {runs[-1].id}" if runs else "there is none"


def _listed(heads: Sequence[int]) -> str:
    if not heads:
        return "(none: all were cut)"
    if tuple(heads) == tuple(range(heads[0], heads[-1] + 1)):
        return f"{heads[0]} to {heads[-1]}"
    return ", ".join(map(str, heads))
