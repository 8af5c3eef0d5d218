"""The bench: what every claim measures with. One text, one small model, one way to train, real models by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import tokenizers
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.hub.load import Model, load
from headwise.lab.text import LabText
from headwise.nn import Decoder, TransformerConfig
from headwise.train.data import CausalFeed, byte_bpe, causal_feed
from headwise.train.processes import Processes, joined
from headwise.train.recipe import Recipe
from headwise.train.stepping import Stepper

__all__ = ["Bench", "Learnt", "Stopped"]

T = TypeVar("T")

VOCAB = 512
CONTEXT = 64
ROWS = 16
STEPS = 600
RATE = 6e-3
BYTES = 257
"""All bytes, and the end of a document."""


class Stopped(Exception):  # noqa: N818 - it is no error
    """The run was asked to stop in the midst of a case, whose numbers are then not kept."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """A training.

    Attributes:
        losses: the mean loss of each step's rows before it, in nats per token.
        held_out: the mean loss of the held-out paragraphs at the end, in nats per token.
    """

    losses: Float[np.ndarray, " step"]
    held_out: float


class Bench:
    """What a claim measures with.

    Args:
        text: that is trained on.
        quick: smaller in every way: it shows that a thing runs, and roughly how it comes out.
        device: where models run; None = the CPU.
        tell: called with what is under way, for the progress.
        stop: asked between steps whether to end.
        vocab: tokens of the tokenizer; None = VOCAB.
    """

    def __init__(
        self,
        text: LabText,
        *,
        quick: bool = False,
        device: str | None = None,
        tell: Callable[[str], None] = lambda what: None,
        stop: Callable[[], bool] = lambda: False,
        vocab: int | None = None,
    ) -> None:
        self.text = text
        self.vocab = vocab
        self.quick = quick
        self.device = torch.device(device or "cpu")
        self.tell = tell
        self.stop = stop
        self._kept: dict[str, Any] = {}

    @cached_property
    def tokenizer(self) -> tokenizers.Tokenizer:
        """A byte-level BPE of VOCAB tokens made from the text."""
        return byte_bpe(list(self.text.train), VOCAB if self.vocab is None else self.vocab)

    @cached_property
    def letters(self) -> Bench:
        """The same with a token for each byte, so that a model has to gather several tokens to know one word."""
        return Bench(
            self.text,
            quick=self.quick,
            device=str(self.device),
            tell=self.tell,
            stop=self.stop,
            vocab=BYTES,
        )

    @property
    def steps(self) -> int:
        """Of a training."""
        return STEPS // 5 if self.quick else STEPS

    def config(self, **changes: Any) -> TransformerConfig:
        """The small model of the lab, a pre-norm decoder with RoPE; `changes` are fields of TransformerConfig."""
        fields: dict[str, Any] = {
            "vocab_size": self.tokenizer.get_vocab_size(),
            "d_model": 64,
            "num_layers": 2,
            "num_heads": 8,
            "max_length": CONTEXT,
            **changes,
        }
        return TransformerConfig(**fields)

    def decoder(self, seed: int, **changes: Any) -> Decoder:
        """That model with fresh weights."""
        torch.manual_seed(seed)
        return Decoder(self.config(**changes))

    def feed(self, seed: int, repeats: float = 0.0) -> CausalFeed:
        """Rows of the text in an order of this seed; a share of them, from 0 to 0.9, say a part again."""
        again = round(self._train.packed.count * repeats / (1 - repeats))
        return replace(self._train, seed=seed, repeated=again)

    @cached_property
    def held_out(self) -> CausalFeed:
        """Rows of the paragraphs that are held out."""
        return causal_feed(self.tokenizer, self.text.held_out, CONTEXT, 64, short=True)

    @cached_property
    def _train(self) -> CausalFeed:
        return causal_feed(self.tokenizer, self.text.train, CONTEXT, ROWS)

    def rows(self, count: int, seed: int = 0) -> Int[Tensor, "row position"]:
        """Token ids of some held-out rows, [count, CONTEXT]."""
        feed = replace(self.held_out, rows=count, seed=seed)
        return feed.batch(1).inputs["ids"].to(self.device)

    def learn(
        self,
        module: nn.Module,
        seed: int,
        *,
        steps: int | None = None,
        rate: float = RATE,
        warmup: float = 0.1,
        repeats: float = 0.0,
        after: Callable[[int], None] | None = None,
    ) -> Learnt:
        """Train a model in place: AdamW with a cosine, on the bench's text, in float32.

        Args:
            module: of `headwise.nn`, or a variation of one.
            seed: of the order of the rows: the same for every case of a seed, so that cases can be paired.
            steps: of ROWS rows of CONTEXT tokens; None = as many as the lab's trainings have.
            rate: the highest learning rate.
            warmup: share of the steps over which the rate rises.
            repeats: share of the rows that say a part of themselves again.
            after: called after each step with its number, and with 0 before the first.

        Raises:
            Stopped: the run was asked to end.
        """
        count = self.steps if steps is None else steps
        feed = self.feed(seed, repeats)
        recipe = Recipe(
            context=CONTEXT,
            rows=ROWS,
            steps=count,
            learning_rate=rate,
            warmup=round(count * warmup),
            least_rate=0.05,
            dtype="float32",
            seed=seed,
        )
        stepper = Stepper(module.to(self.device), recipe, Processes(joined()))
        if after is not None:
            after(0)
        losses = np.zeros(count)
        for step in range(1, count + 1):
            if self.stop():
                raise Stopped
            losses[step - 1] = stepper.step(feed, step).loss
            if step % 50 == 0:
                self.tell(f"step {step} of {count}, loss {losses[step - 1]:.2f}")
            if after is not None:
                after(step)
        found = Learnt(losses, stepper.look(self.held_out))
        module.eval()
        return found

    def loss(self, module: nn.Module) -> float:
        """The mean loss of the held-out paragraphs, in nats per token."""
        recipe = Recipe(context=CONTEXT, rows=ROWS, steps=1, dtype="float32")
        stepper = Stepper(module, recipe, Processes(joined()))
        found = stepper.look(self.held_out)
        module.eval()
        return found

    def model(self, name: str) -> Model:
        """A real trained model, loaded once."""

        def made() -> Model:
            self.tell(f"loading {name}")
            return load(name, str(self.device), quiet=True)

        return self.once(f"model {name}", made)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What several cases share: made the first time it is asked for, and kept for as long as the bench.

        Args:
            name: of the thing, with the seed it hangs on.
            make: makes it, the same whenever it is called.
        """
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found
