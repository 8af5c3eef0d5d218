"""Heads ranked by what they do for a loss: gradients at gates, and exact leave-one-out."""
