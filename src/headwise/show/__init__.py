"""Faces: the terminal and pictures for papers."""
