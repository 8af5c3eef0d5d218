"""Text that a model writes on: `generating` is asked, `running` runs the model, `telling` makes text of tokens."""
