"""Heads changed for a while: what stands in for their outputs, and gates."""
