"""The ledger: parameters, FLOPs, cache and activations of a model, by layer and part."""
