"""One line for each check: whether it passed, what was checked, what was found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What came of one check.

    Attributes:
        ok: Whether it passed.
        what: What was checked.
        found: What was found there.
        waived: Whether it failed in a rehearsal, where it does not count.
    """

    ok: bool
    what: str
    found: str = ""
    waived: bool = False

    @property
    def counts_against(self) -> bool:
        """Whether a release must not happen so."""
        return not (self.ok or self.waived)

    def __str__(self) -> str:
        mark = "ok     " if self.ok else "waived " if self.waived else "FAILED "
        return mark + self.what + (f": {' '.join(self.found.split())}" if self.found else "")


def passed(what: str, found: str = "") -> Outcome:
    """A check that passed."""
    return Outcome(True, what, found)


def failed(what: str, found: str) -> Outcome:
    """A check that failed, and why."""
    return Outcome(False, what, found)
