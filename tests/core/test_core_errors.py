"""What cannot be is said in one line: what was wrong, what came, what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.core import masks
from headwise.core.attention import attend
from headwise.names import ConfigError, HeadwiseError, MaskError, ShapeError

pytestmark = pytest.mark.usefixtures("unchecked")


def says(error: type[HeadwiseError], words: list[str], do) -> None:
    with pytest.raises(error) as caught:
        do()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


ONES = torch.ones(3, 3)
MASK_CASES = [
    (lambda: masks.tensor(ONES), ["must be boolean", "float32", "x.bool()"]),
    (lambda: masks.tensor(ONES.int()), ["must be boolean", "int32"]),
    (lambda: masks.tensor(ONES.bool().tolist()), ["boolean tensor", "came list"]),
    (lambda: masks.tensor(np.ones((3, 3), bool)), ["boolean tensor", "came ndarray"]),
    (lambda: masks.tensor(ONES[0].bool()), ["[query, key]", "came [3]"]),
    (
        lambda: masks.tensor(torch.ones(2, 3, 3).bool()),
        ["came [2, 3, 3]", "x[:, None] for a batch", "x[None] for heads"],
    ),
    (lambda: masks.padding(), ["exactly one"]),
    (
        lambda: masks.padding(lengths=[1], key_padding_mask=torch.ones(1, 1).bool()),
        ["exactly one"],
    ),
    (
        lambda: masks.padding(key_padding_mask=torch.ones(2, 3).long()),
        ["key_padding_mask", "int64", "True = padding", "attention_mask == 0"],
    ),
    (lambda: masks.padding(key_padding_mask=ONES[0].bool()), ["[batch, key]", "came [3]"]),
    (lambda: masks.padding(lengths=[1.5]), ["lengths=", "whole numbers", "float32"]),
    (lambda: masks.padding(lengths=torch.ones(2, 2).long()), ["[batch]", "came [2, 2]"]),
    (lambda: masks.padding(lengths=["a"]), ["lengths=", "whole numbers", "['a']"]),
    (lambda: masks.documents(torch.ones(1, 2, 3).long()), ["documents", "came [1, 2, 3]"]),
    (lambda: masks.documents([[1, 2], [1]]), ["documents", "whole numbers"]),
    (lambda: masks.documents(torch.ones(3, dtype=torch.complex128)), ["complex128"]),
    (lambda: masks.prefix(-1), ["prefix(n)", "at least 0", "came -1"]),
    (lambda: masks.prefix(1.5), ["prefix(n)", "whole numbers", "float"]),
    (lambda: masks.prefix(True), ["prefix(n)", "came True"]),
    (lambda: masks.window(0), ["window(n)", "at least 1", "came 0"]),
    (lambda: masks.window(-2), ["window(n)", "came -2"]),
    (lambda: masks.window(2, ahead=-1), ["window(ahead=)", "at least 0", "came -1"]),
    (lambda: masks.window(2.0), ["window(n)", "whole number", "came 2.0"]),
    (lambda: masks.causal() and masks.full(), ["& | ~", "not and"]),
    (lambda: not masks.causal(), ["& | ~"]),
    (lambda: masks.causal() & ONES.bool(), ["came Tensor", "masks.tensor(x)"]),
    (lambda: masks.causal() | True, ["mask |", "came bool"]),
    (lambda: ~masks.padding(lengths=[3]), ["~padding(lengths=[3])", "invert the rule before"]),
    (lambda: ~masks.documents([1, 2]), ["~documents", "invert the rule before"]),
    (
        lambda: masks.tensor(ONES.bool()).dense(4, 4),
        ["[query=3, key=3]", "[query=4, key=4]", "pass one that covers it"],
    ),
    (lambda: masks.tensor(ONES[:, :2].bool()).dense(3, 3), ["[query=3, key=2]", "covers it"]),
    (lambda: masks.tensor(ONES.bool()).dense(2, 3, query_offset=2), ["from position 2"]),
    (
        lambda: masks.padding(key_padding_mask=ONES.bool()).dense(1, 4),
        ["covers 3 keys", "attention has 4", "cached and the new tokens together"],
    ),
    (lambda: masks.documents([1, 2]).dense(1, 3), ["covers 2 keys", "has 3"]),
    (
        lambda: masks.documents([1, 2]).dense(1, 2, query_offset=5),
        ["ids) covers 2 queries", "from position 5", "query_ids="],
    ),
    (
        lambda: masks.documents([1, 2, 3], torch.tensor([1, 2])).dense(3, 3),
        ["query_ids) covers 2 queries", "has 3"],
    ),
    (
        lambda: (masks.padding(lengths=[1, 2]) & masks.prefix([1, 2, 3])).dense(3, 3),
        ["of 3 and of 2 sequences", "same batch"],
    ),
    (
        lambda: (
            masks.tensor(torch.ones(1, 2, 3, 3).bool())
            | masks.tensor(torch.ones(1, 4, 3, 3).bool())
        ).dense(3, 3),
        ["of 2 and of 4 heads", "do not go together"],
    ),
]


@pytest.mark.parametrize(("do", "words"), MASK_CASES)
def test_masks(do, words):
    says(MaskError, words, do)


@pytest.mark.parametrize("options", [{}, {"return_pattern": True}])
@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (ONES.bool(), ["came Tensor", "masks.tensor(bool tensor)"]),
        ("causal", ["came str", "masks.causal()"]),
        (masks.tensor(ONES.bool()), ["[query=3, key=3]", "[query=4, key=4]"]),
        (masks.padding(lengths=[1, 2, 3]), ["batch=3", "q has batch=2", "for this batch"]),
        (masks.window(1) & masks.padding(lengths=[1, 2, 3]), ["batch=3", "q has batch=2"]),
        (masks.padding(key_padding_mask=torch.zeros(3, 4).bool()), ["batch=3"]),
        (masks.documents(torch.zeros(3, 4).long()), ["batch=3"]),
        (masks.documents([0] * 4, torch.zeros(3, 4).long()), ["batch=3"]),
        (masks.tensor(torch.ones(1, 3, 4, 4).bool()), ["head=3", "head=2"]),
    ],
)
def test_masks_that_do_not_fit_the_call(mask, words, options):
    x = torch.randn(2, 2, 4, 3)
    says(MaskError, words, lambda: attend(x, x, x, mask, **options))


def test_a_mask_of_a_batch_for_one_sequence():
    x = torch.randn(1, 2, 4, 3)
    mask = masks.padding(lengths=[1, 2])
    says(MaskError, ["batch=2", "q has batch=1"], lambda: attend(x, x, x, mask, softcap=1.0))


def of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


SHAPE_CASES = [
    (of(2, 4, 3), of(2, 4, 3), of(2, 4, 3), ["[batch, heads, length, head_dim]", "[2, 4, 3]"]),
    (of(2, 2, 4, 3), of(2, 2, 4, 5), of(2, 2, 4, 5), ["head_dim", "[2, 2, 4, 5]"]),
    (of(2, 2, 4, 3), of(1, 2, 4, 3), of(1, 2, 4, 3), ["batch", "[1, 2, 4, 3]"]),
    (of(2, 2, 4, 3), of(2, 2, 4, 3), of(2, 2, 5, 3), ["keys", "[2, 2, 5, 3]"]),
    (of(2, 2, 4, 3), of(2, 2, 4, 3), of(2, 1, 4, 3), ["heads", "[2, 1, 4, 3]"]),
    (of(2, 3, 4, 3), of(2, 2, 4, 3), of(2, 2, 4, 3), ["num_heads=3", "num_kv_heads=2", "came"]),
    (of(2, 3, 4, 3), of(2, 0, 4, 3), of(2, 0, 4, 3), ["num_kv_heads=0"]),
]


@pytest.mark.parametrize(("q", "k", "v", "words"), SHAPE_CASES)
def test_shapes(q, k, v, words):
    says(ShapeError, words, lambda: attend(q, k, v))


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bias": of(4, 4)}, ["bias must be", "[2, 2, 4, 4]", "came [4, 4]"]),
        ({"bias": of(1, 3, 4, 4)}, ["bias must be", "came [1, 3, 4, 4]"]),
        ({"bias": of(2, 2, 4, 1)}, ["bias must be", "came [2, 2, 4, 1]"]),
        ({"sink": of(3)}, ["sink", "one logit per head", "[2]", "came [3]"]),
        ({"sink": of(1, 2)}, ["sink", "came [1, 2]"]),
        ({"gate": of(3)}, ["gate must be", "head=2", "came [3]"]),
        ({"gate": of(2, 3)}, ["gate must be", "came [2, 3]"]),
        ({"gate": of(3, 2)}, ["gate must be", "batch=2", "came [3, 2]"]),
        ({"gate": of(2, 2, 3)}, ["gate must be", "query=4", "came [2, 2, 3]"]),
        ({"gate": of(2, 2, 4, 1)}, ["gate must be", "came [2, 2, 4, 1]"]),
        ({"gate": torch.tensor(1.0)}, ["gate must be", "came []"]),
    ],
)
def test_options(options, words, asked):
    x = of(2, 2, 4, 3)
    says(ShapeError, words, lambda: attend(x, x, x, return_pattern=asked, **options))


def test_softcap():
    x = of(1, 1, 2, 3)
    for softcap in (0.0, -1.0, float("nan")):
        says(ConfigError, ["softcap", "above 0"], lambda s=softcap: attend(x, x, x, softcap=s))


def test_whole_numbers_of_numpy_are_numbers():
    seen = masks.window(np.int64(2), ahead=np.int32(1)).dense(4, 4)
    assert seen.equal(masks.window(2, ahead=1).dense(4, 4))
    assert masks.prefix(np.int64(2)).dense(1, 3)[0, 0].tolist() == [[True, True, False]]
    assert masks.padding(lengths=np.array([1, 2])).dense(1, 2).shape == (2, 1, 1, 2)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: masks.prefix([-1, 2]), MaskError, ["at least 0", "[-1, 2]"]),
        (lambda: masks.padding(lengths=[-1]), MaskError, ["at least 0", "[-1]"]),
        (lambda: masks.window(10**30), MaskError, ["window(n)", "at most"]),
        (lambda: masks.causal().dense(-1, 3), MaskError, ["query_len=-1"]),
        (
            lambda: attended(bias=torch.ones(5, 5).tril().bool()[None, None]),
            MaskError,
            ["masks.tensor"],
        ),
        (
            lambda: attended(bias=torch.ones(1, 1, 5, 5).long()),
            MaskError,
            ["floating point", "int64"],
        ),
        (lambda: attended(bias=1.0), ShapeError, ["bias", "came float"]),
        (lambda: attended(sink=1.0), ShapeError, ["sink", "came float"]),
        (lambda: attended(gate=[1.0, 1.0]), ShapeError, ["gate", "came list"]),
        (lambda: attended(dropout=-1.0), ConfigError, ["0 to 1", "-1"]),
        (
            lambda: attend(np.ones((1, 2, 5, 4)), X, X),
            ShapeError,
            ["q must be a torch tensor", "ndarray"],
        ),
        (lambda: attend(X.double(), X, X), ShapeError, ["one dtype", "float64"]),
    ],
)
def test_what_a_newcomer_typed(make, error, words):
    with pytest.raises(error) as raised:
        make()
    assert all(word in str(raised.value) for word in words), raised.value


def test_a_prefix_of_numpy_numbers_is_one_per_sequence():
    assert masks.prefix(np.array([1, 2])).dense(3, 3).shape == (2, 1, 3, 3)


X = torch.randn(1, 2, 5, 4)


def attended(**extras):
    return attend(X, X, X, **extras)
