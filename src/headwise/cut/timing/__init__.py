"""Honest timing of one or two models: interleaved, with spreads, and plain about no gain."""
