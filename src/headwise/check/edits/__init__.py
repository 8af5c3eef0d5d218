"""Dimensions told by edits at equal shape: what moves and must not is a leak."""
