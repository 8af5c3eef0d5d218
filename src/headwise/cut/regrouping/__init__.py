"""Fewer key/value heads: pooled by their mean, by one of them, or in a basis that suits all of a group."""
