"""What a direction of the residual stream raises in the vocabulary: W2's rows read through the unembedding.

The unembedding is applied to the row as it is, without the final norm (Geva et al. 2022, "Transformer Feed-Forward
Layers Build Predictions by Promoting Concepts in the Vocabulary Space"), so it says what a neuron pushes for, not
what the model comes to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.hub.load import Model
from headwise.hub.tokenizer import Tokenizer
from headwise.nn import Decoder, EncoderDecoder
from headwise.see.texts.tokens import tokens_of_ids

__all__ = ["Lens", "lens_of"]


@dataclass(frozen=True, eq=False)
class Lens:
    """The unembedding of a model, [vocabulary, d_model], and the words of its tokens."""

    weight: Float[Tensor, "vocabulary d_model"]
    tokenizer: Tokenizer | None

    def raised(self, direction: Float[Tensor, " d_model"], count: int) -> tuple[str, ...]:
        """The tokens whose logits a step in this direction raises most, strongest first."""
        with torch.no_grad():
            logits = self.weight @ direction.to(self.weight.device, self.weight.dtype)
            ids = logits.topk(min(count, len(logits))).indices.tolist()
        return tuple(token_name(self.tokenizer, id) for id in ids)


def lens_of(model: Model, d_model: int) -> Lens | None:
    """The unembedding of a model; None where it writes no tokens, or from vectors of another size."""
    weight = _unembedding(model.module)
    if weight is None or weight.dim() != 2 or weight.shape[1] != d_model or weight.is_meta:
        return None
    return Lens(weight.detach(), model.tokenizer)


def token_name(tokenizer: Tokenizer | None, id: int) -> str:
    """A token of the vocabulary in words: its text, or its bytes where it is a part of a character."""
    text = tokens_of_ids(tokenizer, [id])[1]
    if text and "\ufffd" not in text[0].text:
        return text[0].label
    piece: Any = getattr(tokenizer, "id_to_token", lambda id: None)(id)
    return _bytes(piece) if piece else str(id)


def _bytes(piece: str) -> str:
    """A piece of a byte-level vocabulary as its bytes, `E4 B9`; others as they are called."""
    codes = _BYTES
    if not all(c in codes for c in piece):
        return piece
    return " ".join(f"{codes[c]:02X}" for c in piece)


def _alphabet() -> dict[str, int]:
    """The characters that byte-level vocabularies write bytes with (GPT-2): printable ones are themselves."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTES = _alphabet()


def _unembedding(module: nn.Module) -> Tensor | None:
    if isinstance(module, EncoderDecoder):
        module = module.decoder
    if isinstance(module, Decoder):
        return (module.embedding.tokens if module.unembed is None else module.unembed).weight
    found = getattr(module, "get_output_embeddings", lambda: None)()
    weight = getattr(found, "weight", None)
    return weight if isinstance(weight, Tensor) else None
