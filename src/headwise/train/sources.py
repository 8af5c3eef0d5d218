"""What a run reads: documents or pairs, held out or not, and the stamps by which the same texts are known again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from headwise.names import ConfigError, TextError
from headwise.train.data import (
    Feed,
    causal_feed,
    masked_feed,
    pairs_feed,
    read_documents,
    read_pairs,
    split_documents,
    split_pairs,
)
from headwise.train.recipe import Recipe

__all__ = ["Given", "Sources", "check_stamp", "feeds_of", "gathered"]

Given = Sequence[str] | Sequence[Path] | Sequence[tuple[str, str]]
"""Texts, or pairs of a source and a target, or the files of either."""


@dataclass(frozen=True)
class Sources:
    """Documents or pairs.

    Attributes:
        train: what is trained on.
        held_out: what is not; None = nothing is held out.
        stamp: of what was given, as run.toml says it.
    """

    train: list[Any]
    held_out: list[Any] | None
    stamp: Mapping[str, Any]

    @property
    def texts(self) -> list[str]:
        """Every text that is trained on, by itself."""
        return [text for one in self.train for text in ([one] if isinstance(one, str) else one)]


def gathered(
    texts: Given, held_out: Given | None, recipe: Recipe, by: str = "file", field: str | None = None
) -> Sources:
    """Read what is trained on and what is held out: given by itself, or a share of the former.

    Args:
        texts: texts or pairs, or files (as `Path`).
        held_out: the same; None = a share.
        recipe: whose objective says whether they are pairs, and which share is held out.
        by: what one document of a file is.
        field: JSON: the field that holds the text; of pairs the two, with a comma between them.

    Raises:
        TextError: nothing to read, or what cannot be read.
    """
    pairs = recipe.objective == "pairs"
    train = _read(texts, pairs, by, field)
    if not any(text.strip() for one in train for text in ([one] if isinstance(one, str) else one)):
        raise TextError("there is no text to train on; give at least one")
    stamp = {**_stamp("", texts), "by": by, "field": field}
    held = None if held_out is None else _read(held_out, pairs, by, field)
    if held_out is not None:
        stamp |= _stamp("held_out_", held_out)
    elif recipe.held_out:
        split: Callable[..., Any] = split_pairs if pairs else split_documents
        train, held = split(train, recipe.held_out, recipe.seed)
    return Sources(train, held, stamp)


def feeds_of(
    sources: Sources, tokenizer: tokenizers.Tokenizer, recipe: Recipe
) -> tuple[Feed, Feed | None]:
    """The feed that is trained on, and the one that is held out."""

    def feed(texts: list[Any], held: bool) -> Feed:
        sizes: dict[str, Any] = {"rows": recipe.rows, "seed": recipe.seed}
        made: Any
        if recipe.objective == "pairs":
            made = pairs_feed(tokenizer, texts, **sizes, longest=recipe.context)
        elif recipe.objective == "masked":
            sizes |= {"context": recipe.context, "share": recipe.mask_share}
            made = masked_feed(tokenizer, texts, **sizes, short=held)
        else:
            sizes |= {"context": recipe.context, "repeats": 0.0 if held else recipe.repeats}
            made = causal_feed(tokenizer, texts, **sizes, short=held)
        return made  # type: ignore[no-any-return]

    held_out = None if sources.held_out is None else feed(sources.held_out, True)
    return feed(sources.train, False), held_out


def check_stamp(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse texts that are not those that a run was begun with.

    Raises:
        TextError: one that has changed, by name.
    """
    for kind in ("", "held_out_"):
        names = before.get(f"{kind}files", now.get(f"{kind}files", ["the texts"]))
        old, new = before.get(f"{kind}sha256", []), now.get(f"{kind}sha256", [])
        if len(old) != len(new):
            raise TextError(
                f"the run was begun with {len(old)} {kind.replace('_', ' ')}texts, and now {len(new)} came; "
                "resume it with the same, or start another"
            )
        sizes = zip(before.get(f"{kind}bytes", []), now.get(f"{kind}bytes", []), strict=False)
        told = [f" ({was:,} bytes then, {is_:,} now)" for was, is_ in sizes]
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                raise TextError(
                    f"{names[at]} is not what the run was begun with{told[at] if at < len(told) else ''}; "
                    "put the old text back, or start another run"
                )


def _read(given: Given, pairs: bool, by: str, field: str | None) -> list[Any]:
    files = [one for one in given if isinstance(one, Path)]
    if not files:
        return list(given)
    if any(str(one) == "-" for one in files):
        raise TextError(
            "a training reads its texts again when it is resumed, so it reads none from -; give files"
        )
    if not pairs:
        return read_documents(files, by=by, field=field)  # type: ignore[arg-type]
    if field is None:
        return read_pairs(files)
    source, comma, target = field.partition(",")
    if not comma:
        raise ConfigError(f"field={field!r} must name two fields of pairs: source,target")
    return read_pairs(files, fields=(source, target))


def _stamp(kind: str, given: Given) -> dict[str, Any]:
    files = [one for one in given if isinstance(one, Path)]
    if not files:
        sum_ = hashlib.sha256("\0".join(map(repr, given)).encode()).hexdigest()
        return {f"{kind}sha256": [sum_]}
    sums = [hashlib.sha256(one.read_bytes()).hexdigest() for one in files]
    return {
        f"{kind}files": [str(one.resolve()) for one in files],
        f"{kind}bytes": [one.stat().st_size for one in files],
        f"{kind}sha256": sums,
    }
