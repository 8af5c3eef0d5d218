"""Check: what influences what in a model, held against what may. `auditing` puts the rooms together."""
