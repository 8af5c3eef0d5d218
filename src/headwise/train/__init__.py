"""Training: what is read and learned from, the loop, its checkpoints.

`fit` (it is `headwise.fit`) trains a model on texts, and `resume` takes a run up again; both give a `Run`. A
`Recipe` says how, a `Plan` all that a TOML file says: recipe, model and tokenizer. With a feed of your own:
`headwise.train.fitting.fit`.
"""

from __future__ import annotations

from headwise.train.recipe import Plan, Recipe
from headwise.train.run import Run
from headwise.train.starting import fit, resume

__all__ = ["Plan", "Recipe", "Run", "fit", "resume"]
