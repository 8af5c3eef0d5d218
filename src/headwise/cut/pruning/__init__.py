"""Cutting heads for good: what is cut, the surgery and its proof, which heads stay."""
