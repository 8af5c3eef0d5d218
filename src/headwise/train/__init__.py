"""Training: what is read and learned from, the loop, its checkpoints."""
