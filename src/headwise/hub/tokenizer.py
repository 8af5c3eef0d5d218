"""Tokenizers: all of them answer as the tokenizers library's own class does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headwise.names import ModelError

ENDS = ("<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")
"""Customary names of the token that ends a text, the likeliest first."""


@runtime_checkable
class Tokenizer(Protocol):
    """What we need of a tokenizer: `encode(text)` with ids, tokens, offsets, special_tokens_mask."""

    def encode(self, sequence: str) -> Any:
        """Encode one text, special tokens included."""
        ...


@dataclass(frozen=True)
class _Encoding:
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]


class _Slow:
    """A tokenizer of transformers without a fast twin: offsets come from decoding longer and longer prefixes."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def encode(self, sequence: str) -> _Encoding:
        ids = list(self.tokenizer(sequence)["input_ids"])
        special = [int(i in set(self.tokenizer.all_special_ids)) for i in ids]
        offsets: list[tuple[int, int]] = []
        at, seen = 0, ""
        plain: list[int] = []
        for id, is_special in zip(ids, special, strict=True):
            if is_special:
                offsets.append((at, at))
                continue
            plain.append(id)
            now = self.tokenizer.decode(plain, clean_up_tokenization_spaces=False)
            piece = now[len(_shared(seen, now)) :].strip()
            seen = now
            start = sequence.find(piece, at) if piece else at
            start = at if start < 0 else start
            end = min(len(sequence), start + len(piece))
            offsets.append((start, end))
            at = end
        return _Encoding(ids, self.tokenizer.convert_ids_to_tokens(ids), offsets, special)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )
        return text


def adapt(tokenizer: Any) -> Tokenizer | None:
    """A tokenizer of the tokenizers library or of transformers, as one that `look` can use.

    Raises:
        ModelError: neither.
    """
    if tokenizer is None:
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "encode"):
        return _unbounded(_copy(backend))
    if type(tokenizer).__module__.startswith("tokenizers"):
        return _unbounded(_copy(tokenizer))
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return _Slow(tokenizer)
    raise ModelError(
        f"a tokenizer must be one of tokenizers or transformers, came {type(tokenizer).__name__}"
    )


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """The ids that stand for no text of their own, each with its name."""
    if isinstance(tokenizer, _Slow):
        slow = tokenizer.tokenizer
        return dict(zip(slow.all_special_ids, slow.all_special_tokens, strict=True))
    added = tokenizer.get_added_tokens_decoder()
    return {id: token.content for id, token in added.items() if token.special}


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of a model folder; None where the model reads no text."""
    file = folder / "tokenizer.json"
    if file.is_file():
        import tokenizers

        try:
            return _unbounded(tokenizers.Tokenizer.from_file(str(file)))
        except Exception as error:  # the library raises bare Exception
            raise ModelError(f"{file} cannot be read: {error}") from None
    if not any(folder.glob("*token*")) and not any(folder.glob("vocab*")):
        return None
    from transformers import AutoTokenizer

    try:
        return adapt(AutoTokenizer.from_pretrained(folder))
    except (OSError, ValueError, KeyError, ImportError, json.JSONDecodeError) as error:
        line = str(error).strip().splitlines()[0]
        raise ModelError(f"the tokenizer in {folder} cannot be loaded: {line}") from None


def _copy(tokenizer: Any) -> Any:
    """Another tokenizer like this one, so that the caller's own stays as it is."""
    import tokenizers

    return tokenizers.Tokenizer.from_str(tokenizer.to_str())


def _unbounded(tokenizer: Any) -> Tokenizer:
    """Without the padding and cutting that a saved tokenizer may ask for: no text is cut silently."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    found: Tokenizer = tokenizer
    return found


def _shared(a: str, b: str) -> str:
    length = next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
    return a[:length]
