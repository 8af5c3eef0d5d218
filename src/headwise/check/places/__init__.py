"""Where in a model a forbidden influence enters."""
