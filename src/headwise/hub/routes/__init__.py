"""Routes from a model's attention to its taps: transformers' interface, torch's modules, attention written out."""
