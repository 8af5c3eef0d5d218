"""The grid of all heads, before it is drawn: for each head what it is and how much, and the words of the legend.

What each head does most on a text and what role it has over a corpus are both told so; the terminal and the
pictures draw whatever grid they are given. Colours are after Okabe and Ito (2008); relations share one hue, and
what is a sink in most models ("first", separators) is quiet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.names import HeadId
from headwise.see.summary import DOES, HeadSummary
from headwise.show.palette import STRONG, Kind

if TYPE_CHECKING:
    from headwise.see.roles.role import Roles

__all__ = [
    "KINDS",
    "ROLE_KINDS",
    "Grid",
    "GridCell",
    "grid_of_roles",
    "grid_of_summaries",
    "kind_of_probe",
]


@dataclass(frozen=True)
class GridCell:
    """One head: what it is, and how much of that (0 to 1)."""

    id: HeadId
    kv_group: int
    kind: Kind
    mass: float

    @property
    def code(self) -> str:
        """The letter of its kind, by how much there is."""
        return self.kind.strong if self.mass >= STRONG else self.kind.weak


@dataclass(frozen=True)
class Grid:
    """All heads as cells, and how the legend explains them.

    Attributes:
        cells: a head that is not among them is shown as missing.
        kinds: those of the legend, in order.
        codes: what capital and small letters mean.
        title: of the legend of a picture.
    """

    cells: tuple[GridCell, ...]
    kinds: tuple[Kind, ...]
    codes: str
    title: str

    def counts(self) -> dict[str, int]:
        """Heads per kind, in the order of the legend, zeros included."""
        shown = [cell.kind.does for cell in self.cells]
        return {kind.does: shown.count(kind.does) for kind in self.kinds}


_QUIET = (237, 236, 195)
_GREY = (150, 150, 150)

KINDS: dict[str, Kind] = {
    kind.does: kind
    for kind in (
        Kind("previous", "P", "p", (0, 114, 178)),
        Kind("self", "S", "s", (0, 158, 115)),
        Kind("first", "F", "f", _QUIET),
        Kind("same token", "=", "-", (213, 94, 0)),
        Kind("spread", "~", "~", (204, 121, 167)),
        Kind("other", "·", "·", _GREY),
    )
}
"""What a head does most on a text."""

ROLE_KINDS: dict[str, Kind] = {
    kind.does: kind
    for kind in (
        KINDS["previous"],
        Kind("next", "N", "n", (86, 180, 233)),
        KINDS["self"],
        KINDS["same token"],
        Kind("induction", "I", "i", (230, 159, 0)),
        Kind("successor", "+", "+", (240, 228, 66)),
        Kind("relation, to the head", "R", "r", (160, 70, 120)),
        Kind("relation, to a dependent", "D", "d", (204, 121, 167)),
        Kind("coreference", "C", "c", (70, 60, 60)),
        Kind("alignment", "A", "a", (0, 200, 180)),
        Kind("other probe", "O", "o", (120, 110, 190)),
        Kind("separator", "T", "t", (222, 214, 200)),
        KINDS["first"],
        Kind("no role", "·", "·", (225, 225, 225)),
    )
}
"""What role a head has over a corpus."""

_RANDOM = "_random"
_OF_PROBES = {"delimiter": "separator"}


def grid_of_summaries(summaries: Sequence[HeadSummary]) -> Grid:
    """What each head does most on one text; a `does` that is not in DOES is shown as "other"."""
    cells = tuple(
        GridCell(s.id, s.kv_group, KINDS.get(s.does, KINDS["other"]), s.mass) for s in summaries
    )
    return Grid(
        cells,
        tuple(KINDS[does] for does in DOES),
        f"P S F = where the mean weight is {STRONG:g} or more, p s f - below",
        "what the head does most; in brackets how many heads; paler: less of its attention",
    )


def grid_of_roles(roles: Roles) -> Grid:
    """The role of each head that is most above its baseline; paler is less above."""
    groups = roles.evidence["kv_group"].values
    layers = [str(layer) for layer in roles.evidence["layer"].values]
    cells = []
    for id in roles.heads:
        role = roles.main(id)
        kind = ROLE_KINDS["no role"] if role is None else kind_of_probe(role.probe)
        mass = 0.0 if role is None else role.above
        group = int(groups[layers.index(str(id.layer_id)), id.head])
        cells.append(GridCell(id, group, kind, mass))
    shown = {cell.kind.does for cell in cells}
    return Grid(
        tuple(cells),
        tuple(kind for name, kind in ROLE_KINDS.items() if name in shown),
        f"capitals where the score is {STRONG:g} or more of the way from the baseline to 1",
        "the role of the head; in brackets how many heads; paler: less above its baseline",
    )


def kind_of_probe(name: str) -> Kind:
    """How a role is shown, by the probe's name: relations by where they point, your own as "other probe"."""
    name = name.removesuffix(_RANDOM)
    name = _OF_PROBES.get(name, name)
    for end, kind in (
        ("_to_head", "relation, to the head"),
        ("_to_dependent", "relation, to a dependent"),
    ):
        if name.endswith(end):
            return ROLE_KINDS[kind]
    first, _, _ = name.partition("_")
    known = (name.replace("_", " "), first)
    return next((ROLE_KINDS[n] for n in known if n in ROLE_KINDS), ROLE_KINDS["other probe"])
