"""Why a probe has no role, in a few words."""

from __future__ import annotations

import numpy as np

from headwise.names import HeadId
from headwise.see.roles.role import Roles

__all__ = ["why_none"]


def why_none(roles: Roles, probe: str, stream: str) -> str:
    """Why no head of a stack has a role on this probe; "" where one has, or where there is no case.

    Args:
        roles: from `roles`.
        probe: by name.
        stream: the stack, "" where the model has one.
    """
    held = roles.evidence.isel(probe=roles.probes.index(probe))
    layers = [HeadId.parse(f"{layer}.0").stream == stream for layer in held["layer"].values]
    held = held.isel(layer=np.flatnonzero(layers))
    if held["claimed"].any() or held["score"].isnull().all():
        return ""
    if held["low"].isnull().all():
        return "too few texts to say"
    if not held["tested"].any():
        return "no head beats its baseline in the choosing half"
    if (held["tested"] & (held["sure"] > held["baseline"])).any():
        least = roles.evidence.attrs["least"]
        return f"none that is surely above its baseline goes {least:g} of the way from there to 1"
    return f"none beyond chance with all {roles.tried:,} tried"
