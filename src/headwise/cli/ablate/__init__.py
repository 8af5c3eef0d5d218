"""`headwise ablate`: `command` reads the arguments, `measuring` and `predicting` measure, `running` shows."""
