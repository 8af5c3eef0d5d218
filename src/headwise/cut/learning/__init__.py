"""Learned gates: which heads a model needs, found by training a gate on each."""
