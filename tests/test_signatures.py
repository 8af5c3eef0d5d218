from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from headwise.core import masks
from headwise.core.attention import attend


def test_shapes_of_signatures_are_checked():
    x, y = torch.randn(2, 2, 4, 3), torch.randn(2, 2, 5, 3)
    with pytest.raises(TypeCheckError, match="'v'"):
        attend(x, x, y)
    with pytest.raises(TypeCheckError, match="'allowed'"):
        masks.tensor(torch.ones(3, 3))


@pytest.mark.usefixtures("unchecked")
def test_unchecked_they_are_not():
    with pytest.raises(masks.MaskError):
        masks.tensor(torch.ones(3, 3))
