"""Probes by their names."""

from __future__ import annotations

from collections.abc import Iterable

from headwise.names import ConfigError
from headwise.see.probes.probe import Probe
from headwise.see.probes.tokens import BUILT_IN, ON_REPEATED

__all__ = ["chosen", "named"]


def named(name: str) -> Probe:
    """The probe of this name, of `BUILT_IN` or `ON_REPEATED`.

    Raises:
        ConfigError: there is none; the message lists them.
    """
    every = (*BUILT_IN, *ON_REPEATED)
    for probe in every:
        if probe.name == name:
            return probe
    known = ", ".join(probe.name for probe in every)
    raise ConfigError(f"there is no probe {name!r}; there are {known}")


def chosen(probes: Iterable[Probe | str]) -> tuple[Probe, ...]:
    """Probes, or names of built-in ones, as probes.

    Raises:
        ConfigError: something else, an unknown name, or two of one name.
    """
    if isinstance(probes, str | Probe):
        probes = [probes]
    found = [named(probe) if isinstance(probe, str) else probe for probe in probes]
    for probe in found:
        if not isinstance(probe, Probe):
            raise ConfigError(
                f"a probe must be a Probe or its name, came {type(probe).__name__}; make one as "
                'Probe("name", function)'
            )
    return tuple(found)
