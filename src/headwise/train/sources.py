"""What a run reads: documents or pairs, held out or not, and the stamps by which the same texts are known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from headwise.hub.report import megabytes
from headwise.names import ConfigError, TextError
from headwise.see.texts.reading import kind, whole
from headwise.train.data import (
    Feed,
    PairsFeed,
    causal_feed,
    masked_feed,
    pairs_feed,
    read_documents,
    read_pairs,
    split_documents,
    split_pairs,
)
from headwise.train.recipe import Recipe

__all__ = ["Given", "Sources", "check_stamp", "feeds_of", "gathered", "left_out"]

Given = str | Path | Sequence[str] | Sequence[Path] | Sequence[tuple[str, str]]
"""Texts, or pairs of a source and a target, or the files of either; one text or file may stand by itself."""


@dataclass(frozen=True)
class Sources:
    """Documents or pairs.

    Attributes:
        train: what is trained on.
        held_out: what is not; None = nothing is held out.
        stamp: of what was given, as run.toml says it.
        share: of the texts that was to be held out; 0 = others were given, or none.
    """

    train: list[Any]
    held_out: list[Any] | None
    stamp: Mapping[str, Any]
    share: float = 0.0

    @property
    def texts(self) -> list[str]:
        """Every text that is trained on, by itself."""
        return [text for one in self.train for text in ([one] if isinstance(one, str) else one)]

    @property
    def told(self) -> list[str]:
        """What is said of them before the first step: held-out texts that are trained on, or are very few."""
        held = self.held_out or []
        if self.share:
            what = "pairs" if isinstance(self.train[0], tuple) else "characters"
            few, all_ = _amount(held), _amount([*self.train, *held])
            if few >= self.share * all_ / 2:
                return []
            return [
                f"{few:,} of {all_:,} {what} are held out, far fewer than {self.share:.1%}, for equal texts "
                "stay together and none is larger than the share"
            ]
        both = len(set(self.train).intersection(held))
        if not both:
            return []
        return [
            f"{both:,} of the {len(set(held)):,} held-out texts are trained on too, so their loss says less of "
            "new text"
        ]


def gathered(
    texts: Given,
    held_out: Given | None,
    recipe: Recipe,
    by: str = "file",
    field: str | None = None,
    tell: Callable[[str], None] = lambda what: None,
) -> Sources:
    """Read what is trained on and what is held out: given by itself, or a share of the former.

    Args:
        texts: texts or pairs, or files (as `Path`).
        held_out: the same; None = a share.
        recipe: whose objective says whether they are pairs, and which share is held out.
        by: what one document of a file is.
        field: JSON: the field that holds the text; of pairs the two, with a comma between them.
        tell: is told how much is read.

    Raises:
        TextError: nothing to read, or what cannot be read.
    """
    pairs = recipe.objective == "pairs"
    texts = _listed(texts, pairs)
    held_out = None if held_out is None else _listed(held_out, pairs)
    tell(f"reading {megabytes(_bytes([*texts, *(held_out or [])]))}")
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
    return Sources(train, held, stamp, 0.0 if held_out is not None else recipe.held_out)


def _amount(texts: Sequence[Any]) -> int:
    """Characters of texts, or how many pairs."""
    return sum(len(one) if isinstance(one, str) else 1 for one in texts)


def _bytes(given: Sequence[Any]) -> int:
    """Of files that are there; characters of what stands in memory."""
    files = [one for one in given if isinstance(one, Path)]
    if not files:
        return sum(len(one) if isinstance(one, str) else sum(map(len, one)) for one in given)
    return sum(os.path.getsize(one) for one in files if os.path.isfile(one))


def feeds_of(
    sources: Sources,
    tokenizer: tokenizers.Tokenizer,
    recipe: Recipe,
    tell: Callable[[str], None] = lambda what: None,
) -> tuple[Feed, Feed | None]:
    """The feed that is trained on, and the one that is held out; `tell` is told how far their tokens are."""

    def feed(texts: list[Any], held: bool) -> Feed:
        def progress(done: int, total: int) -> None:
            tell(f"reading the {'held-out ' * held}text into tokens ({done / max(total, 1):.0%})")

        progress(0, 1)
        sizes: dict[str, Any] = {"rows": recipe.rows, "seed": recipe.seed, "progress": progress}
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


def left_out(feed: Feed, held_out: Feed | None) -> list[str]:
    """What is said of pairs that are too long for a row."""
    found: list[str] = []
    for what, one in (("pairs", feed), ("held-out pairs", held_out)):
        if isinstance(one, PairsFeed) and one.left_out:
            found.append(
                f"{one.left_out:,} of {one.left_out + one.count:,} {what} are left out, longer than the context"
            )
    return found


def check_stamp(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse texts that are not those that a run was begun with.

    Raises:
        TextError: one that has changed, by name.
    """
    for side in ("", "held_out_"):
        names = before.get(f"{side}files", now.get(f"{side}files", ["the texts"]))
        old, new = before.get(f"{side}sha256", []), now.get(f"{side}sha256", [])
        if len(old) != len(new):
            raise TextError(
                f"the run was begun with {len(old)} {side.replace('_', ' ')}texts, and now {len(new)} came; "
                "resume it with the same, or start another"
            )
        sizes = zip(before.get(f"{side}bytes", []), now.get(f"{side}bytes", []), strict=False)
        told = [f" ({was:,} bytes then, {is_:,} now)" for was, is_ in sizes]
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                raise TextError(
                    f"{names[at]} is not what the run was begun with{told[at] if at < len(told) else ''}; "
                    "put the old text back, or start another run"
                )


def _listed(given: Given, pairs: bool) -> list[Any]:
    """What was given as a list of one kind.

    Raises:
        TextError: files among texts, the names of files in place of texts, or what is neither.
    """
    listed: list[Any] = [given] if isinstance(given, str | Path) else list(given)
    if listed and all(isinstance(one, str) and os.path.isfile(one) for one in listed):
        raise TextError(
            f"{listed[0]!r} is the name of a file, and a str is a text; give Path({listed[0]!r})"
        )
    files = sum(isinstance(one, Path) for one in listed)
    if 0 < files < len(listed):
        raise TextError(
            f"{files} of the {len(listed)} texts given are files and the others are not; give files alone, or "
            "texts alone (path.read_text())"
        )
    for one in listed:
        can = isinstance(one, Path) or (_is_pair(one) if pairs else isinstance(one, str))
        if not can:
            wanted = "a pair of a source and a target" if pairs else "a text or a Path"
            raise TextError(f"{str(one)[:40]!r} is not {wanted}")
    return listed


def _is_pair(one: Any) -> bool:
    return isinstance(one, list | tuple) and len(one) == 2 and all(isinstance(x, str) for x in one)


def _check_files(files: Sequence[Path]) -> None:
    """Refuse files that cannot be read a second time, as a resumed run does, or written into run.toml.

    Raises:
        TextError: one of them.
    """
    for path in files:
        if str(path) == "-" or kind(path) == "pipe":
            raise TextError(
                f"a training reads its texts again when it is resumed, so it reads none from {path}; give files"
            )
        try:
            str(path.resolve()).encode()
        except UnicodeEncodeError:
            raise TextError(f"the name of {str(path)!r} is not UTF-8; rename the file") from None


def _read(given: Sequence[Any], pairs: bool, by: str, field: str | None) -> list[Any]:
    files = [one for one in given if isinstance(one, Path)]
    if not files:
        for number, one in enumerate(given, 1):
            for text in one if pairs else [one]:
                whole(f"text {number}", text)
        return list(map(tuple, given)) if pairs else list(given)
    _check_files(files)
    if not pairs:
        return read_documents(files, by=by, field=field)  # type: ignore[arg-type]
    if field is None:
        return read_pairs(files)
    source, comma, target = field.partition(",")
    if not comma:
        raise ConfigError(f"field={field!r} must name two fields of pairs: source,target")
    return read_pairs(files, fields=(source, target))


def _stamp(prefix: str, given: Sequence[Any]) -> dict[str, Any]:
    files = [one for one in given if isinstance(one, Path)]
    if not files:
        sum_ = hashlib.sha256("\0".join(map(repr, given)).encode()).hexdigest()
        return {f"{prefix}sha256": [sum_]}
    sums = [hashlib.sha256(one.read_bytes()).hexdigest() for one in files]
    return {
        f"{prefix}files": [str(one.resolve()) for one in files],
        f"{prefix}bytes": [one.stat().st_size for one in files],
        f"{prefix}sha256": sums,
    }
