"""Texts: tokens and words, corpora, and the batches a model is given."""
