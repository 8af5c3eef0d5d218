"""Neurons of feed-forward networks: the contexts that fire each, and what fires in a text and adds what."""
