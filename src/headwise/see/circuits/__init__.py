"""Circuits: what heads can do by their weights alone, and how what they look at adds up."""
