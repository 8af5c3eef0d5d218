"""Blocks to build with: attention, feed-forward, norms, positions, models, caches, weight tables."""
