"""Probe: a rule that names the keys each query should look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.names import ConfigError
from headwise.see.record import Side

__all__ = ["Probe", "Ranges", "Rule", "Units"]

Rule = Callable[[Side, Side], "Sequence[int] | Sequence[Sequence[int]] | Tensor"]
"""From the side that looks and the side looked at to one key index per query, -1 where it names none; with units,
for each unit of the queries the units of the keys it should look at, none or several."""

Ranges = Sequence[tuple[int, int]]
"""Units of a side in order: first token and the one after the last; tokens in none are no candidates."""

Units = Callable[[Side, Side], tuple[Ranges, Ranges]]
"""From the side that looks and the side looked at to the units of both."""


@dataclass(frozen=True)
class Probe:
    """A rule that names the keys each query should look at.

    Attributes:
        name: what its results are called.
        rule: from both sides of a map (`Side`: text and tokens) to one key index per query, -1 for none; with
            `units`, to the indices of key units for each query unit.
        says: the rule in words.
        across: whether it means something between two different texts (cross-attention); elsewhere
            both sides are the same text.
        units: what counts as one query and one key where that is more than a token; None = tokens. Probes that
            share one function are measured together.
        by: what heads are ranked by: the mean attention to the named keys ("mass"), or the share of queries whose
            most attended key is a named one ("hits").
        rival: another rule that takes no knowledge of the text, by name, and the share of cases it gets right: a
            baseline beside the fixed offset, where one is known.
        fixed: whether looking a fixed number of keys ahead or back is a baseline; not for a rule that is just that.

    Raises:
        ConfigError: no name.
    """

    name: str
    rule: Rule
    says: str = ""
    across: bool = False
    units: Units | None = None
    by: Literal["mass", "hits"] = "mass"
    fixed: bool = True
    rival: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"a probe needs a name, came {self.name!r}")

    def targets(self, queries: Side, keys: Side, own_text: bool) -> Int[Tensor, " query"]:
        """The index of the key that each query should look at, -1 where the probe (of tokens) names none.

        Args:
            queries: the tokens that look.
            keys: the tokens looked at.
            own_text: whether the tokens look at their own text, as in self-attention.

        Raises:
            ConfigError: a rule that gives no index, too few of them, or one that is no key.
        """
        count = len(queries.tokens)
        if not (own_text or self.across):
            return torch.full((count,), -1)
        try:
            found = torch.as_tensor(self.rule(queries, keys))
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"probe {self.name!r}: its rule is called as rule(queries, keys), two Sides whose .tokens are the "
                f"text's tokens, and must give one whole number per query: {error}"
            ) from error
        if found.shape != (count,) or found.is_floating_point():
            raise ConfigError(
                f"probe {self.name!r} must give one whole number per query, {count} here, came "
                f"{list(found.shape)} of {found.dtype}"
            )
        found = found.long().cpu()
        if count and not -1 <= int(found.min()) <= int(found.max()) < len(keys.tokens):
            raise ConfigError(
                f"probe {self.name!r} must name keys from 0 to {len(keys.tokens) - 1}, or -1 for none, "
                f"came {int(found.min())} to {int(found.max())}"
            )
        return found

    def links(
        self, queries: Side, keys: Side, ranges: tuple[Ranges, Ranges]
    ) -> list[tuple[int, ...]]:
        """For each query unit the key units that the probe (of units) names, none or several.

        Args:
            queries: the side that looks.
            keys: the side looked at.
            ranges: what `units` gave for them.

        Raises:
            ConfigError: a rule that gives something else, or names a unit that is none.
        """
        query_units, key_units = ranges
        try:
            named: Any = self.rule(queries, keys)
            found = [tuple(sorted({int(unit) for unit in units})) for units in named]
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"probe {self.name!r}: its rule is called as rule(queries, keys), two Sides, and must give for "
                f"each unit of the queries a list of units of the keys: {error}"
            ) from error
        if len(found) != len(query_units):
            raise ConfigError(
                f"probe {self.name!r} must give one list for each of {len(query_units)} units, came {len(found)}"
            )
        wrong = [unit for units in found for unit in units if not 0 <= unit < len(key_units)]
        if wrong:
            raise ConfigError(
                f"probe {self.name!r} must name units from 0 to {len(key_units) - 1}, came {wrong[0]}"
            )
        return found
