"""A GPT-2 small with half the heads of every layer cut, against itself uncut: one forward pass.

12 layers of 12 heads of 64, d_model 768, d_ff 3072, batch 1, float32, no logits. The heads are cut for real
(`headwise.cut.pruning.surgery.cut_heads`), and what is cut gives what the uncut model gives with these heads at 0.
The linear layers of a block cost 4 d^2 (attention) + 8 d^2 (feed-forward) per token, so half of the attention is
10 / 12 = .833 of them.

    python benchmarks/halved.py [--threads 1] [--seconds 60] [--lengths 128,1024]
"""

from __future__ import annotations

import argparse

import torch

import headwise as hw
from harness import Plan, Row, compare, machine, timed, write
from headwise.cut.pruning.surgery import cut_heads
from headwise.nn import Decoder, TransformerConfig

HEADS, LAYERS = 12, 12
BARS = {128: 0.85, 1024: 0.81}
ABOUT = (
    "# Half the heads of a GPT-2 small cut\n\n"
    "Reference: the same model uncut (12 layers, 12 heads of 64, d_model 768, random weights), hidden states of "
    "one pass, batch 1, float32. Halving the attention leaves .833 of the products of the linear layers; at length "
    "the scores weigh more, of which half go too."
)


def models() -> tuple[hw.Model, hw.Model]:
    """The model, and with every second head cut."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=50257,
        d_model=768,
        num_layers=LAYERS,
        num_heads=HEADS,
        max_length=1024,
        positions="learned",
        activation="gelu_tanh",
    )
    whole = hw.load(Decoder(config).eval())
    odd = [f"{layer}.{head}" for layer in range(LAYERS) for head in range(1, HEADS, 2)]
    return whole, cut_heads(whole, odd)


def check(whole: hw.Model, half: hw.Model, ids: torch.Tensor) -> None:
    """Cut = these heads at 0."""
    odd = [f"{layer}.{head}" for layer in range(LAYERS) for head in range(1, HEADS, 2)]
    with torch.no_grad():
        with hw.ablate(whole, odd):
            wanted = whole.module.hidden(ids)
        torch.testing.assert_close(half.module.hidden(ids), wanted, atol=1e-4, rtol=1e-4)


def case(length: int, threads: int, seconds: float, pair: tuple[hw.Model, hw.Model]) -> list[Row]:
    ids = torch.randint(50257, (1, length), generator=torch.Generator().manual_seed(1))
    whole, half = pair
    check(whole, half, ids)

    def forward(model: hw.Model) -> object:
        with torch.no_grad():
            return model.module.hidden(ids)

    runs = {
        "reference": timed(lambda: forward(whole), threads),
        "half the heads": timed(lambda: forward(half), threads),
    }
    bars = {"half the heads": BARS[length]} if length in BARS else {}
    return compare(f"n {length}", runs, "reference", bars, Plan(seconds=seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="per case")
    parser.add_argument("--lengths", default="128,1024")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pair = models()
    rows = [
        row
        for length in map(int, options.lengths.split(","))
        for row in case(length, options.threads, options.seconds, pair)
    ]
    write("halved", ABOUT, rows, machine(options.threads))


if __name__ == "__main__":
    main()
