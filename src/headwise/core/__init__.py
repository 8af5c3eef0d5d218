"""Arithmetic: the algebra of who may attend, and the one attention function."""
