"""The viewer served on this machine: one types text, picks a model, and gates heads live."""
