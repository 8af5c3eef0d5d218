"""Check: what influences what in a model, held against what may."""
