from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from headwise.nn import alibi, alibi_slopes, place, rotary, rotate, sinusoidal


def test_sinusoidal_by_hand():
    table = sinusoidal(torch.arange(9), 8)
    for position in range(9):
        for pair in range(4):
            angle = position / 10000 ** (2 * pair / 8)
            assert math.isclose(table[position, 2 * pair], math.sin(angle), abs_tol=1e-6)
            assert math.isclose(table[position, 2 * pair + 1], math.cos(angle), abs_tol=1e-6)


def test_sinusoidal_takes_odd_widths():
    assert sinusoidal(torch.arange(3), 5).shape == (3, 5)


def test_rotation_is_a_complex_product():
    x = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    positions = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    turned = rotate(x, rotary(positions, 8, theta=100.0, dtype=torch.float64))
    z = torch.complex(x[..., :4], x[..., 4:])
    speed = 100.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    angle = positions[:, None, :, None] * speed
    z = z * torch.polar(torch.ones_like(angle), angle)
    assert_close(turned, torch.cat((z.real, z.imag), -1))


def test_rotation_scores_depend_on_distance_alone():
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64)

    def score(i, j):
        at = [
            rotate(x, rotary(torch.tensor([[p]]), 16, dtype=torch.float64))
            for x, p in ((q, i), (k, j))
        ]
        return (at[0] * at[1]).sum()

    assert_close(score(3, 1), score(103, 101))
    assert abs(score(3, 1) - score(4, 1)) > 1e-3


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (8, [2**-i for i in range(1, 9)]),
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
        (12, [2**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_alibi_slopes(heads, slopes):
    assert alibi_slopes(heads) == pytest.approx(slopes)


def test_alibi_by_hand():
    bias = alibi(place(2, 4), num_heads=2)
    for head, slope in enumerate((2**-4, 2**-8)):
        for row, query in enumerate((2, 3)):
            for key in range(4):
                assert bias[0, head, row, key] == -slope * abs(query - key)


def test_places_count_real_tokens():
    padding = torch.tensor([[True, True, False, False], [False, False, False, True]])
    places = place(2, 4, padding)
    assert places.keys[0, 2:].tolist() == [0, 1]
    assert places.keys[1, :3].tolist() == [0, 1, 2]
    assert places.queries.tolist() == [[0, 1], [2, 2]]


def test_places_start_again_at_each_document():
    documents = torch.tensor([[5, 5, 5, 2, 2, 9], [1, 1, 2, 2, 2, 2]])
    assert place(6, 6, None, documents).keys.tolist() == [[0, 1, 2, 0, 1, 0], [0, 1, 0, 1, 2, 3]]
