"""A small text that is made up, and a bench on it; the real one where a test asks for `text`."""

import random

import pytest

from headwise.lab.bench import Bench
from headwise.lab.text import LabText, read_text


def made_up(paragraphs: int = 400) -> LabText:
    """Words of chance, some far more frequent than others, in an order of chance."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnop", k=4)) for _ in range(400)]
    often = [1 / (1 + at) for at in range(400)]
    lines = tuple(" ".join(draw.choices(words, often, k=20)) + "." for _ in range(paragraphs))
    return LabText("made up", "0", lines[60:], lines[:60])


@pytest.fixture(scope="session")
def bench():
    return Bench(made_up(), quick=True)


@pytest.fixture(scope="session")
def text():
    return read_text(quiet=True)
