"""What folders of runs hold."""

from __future__ import annotations

from pathlib import Path

from headwise.lab.claim import Claim
from headwise.lab.claims import CLAIMS, claim_of
from headwise.lab.running import Run, read_run
from headwise.names import OutputError

__all__ = ["all_claims", "runs_of", "whole_runs"]


def all_claims() -> list[Claim]:
    """Every claim of the lab, in order."""
    return [claim_of(name) for name in CLAIMS]


def runs_of(folder: Path) -> dict[str, Run]:
    """What a folder holds, by the name of the claim, whole or not.

    Raises:
        OutputError: no such folder, or none with a run of the lab.
    """
    if not folder.is_dir():
        raise OutputError(f"{folder} is no folder; give the -o of a run of headwise lab")
    held = [name for name in CLAIMS if (folder / f"{name}.jsonl").exists()]
    if not held:
        raise OutputError(
            f"{folder} holds no run of the lab; headwise lab all -o {folder} makes one of each claim"
        )
    return {name: read_run(claim_of(name), folder) for name in held}


def whole_runs(folder: Path) -> dict[str, Run]:
    """Those of them that are whole.

    Raises:
        OutputError: there is none.
    """
    whole = {name: run for name, run in runs_of(folder).items() if run.whole}
    if not whole:
        raise OutputError(
            f"{folder} holds no run that is whole; the command that was stopped goes on where it was"
        )
    return whole
