"""Writing on: the prompt into a cache, then one token after another (`writing`), each chosen by `drawing`."""
