"""Cut heads: ablate for a while, rank, prune for good, regroup, heal."""
