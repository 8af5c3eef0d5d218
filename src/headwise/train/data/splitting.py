"""What is held out: texts of which nothing is trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwise.names import ConfigError, TextError
from headwise.train.data.order import random_of
from headwise.train.data.pairs_read import Pair

__all__ = ["normalised", "split_documents", "split_pairs"]

_BLOCKS = 10
"""Into about how many blocks what is held out of one document falls."""

_FAR = 0.5
"""Whole documents that come to less than this much of the share are too few to be held out."""


def split_documents(
    documents: Sequence[str], share: float, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Documents to train on, and those held out, each in their order.

    Documents are held out whole, at random, up to `share` of all characters; equal ones go to the same side. Where
    those that fit come to less than half of it, since one document or a few hold nearly all, each is cut into
    blocks at line ends (about ten to what is held out), and blocks are held out, if they come nearer; what stands
    between two of them is a document then.

    Args:
        documents: texts.
        share: of the characters, at most.
        seed: of the choice.

    Raises:
        ConfigError: a share that is none.
        TextError: too little text to cut, or nearly all of it says the same again.
    """
    if not 0 < share < 1:
        raise ConfigError(f"held_out={share} is not a share of the texts; use 0 < held_out < 1")
    room = share * sum(map(len, documents))
    whole = _sides(documents, _chosen(documents, room, seed))
    if _size(whole[1]) >= _FAR * room and whole[1]:
        return whole
    size = max(int(room / _BLOCKS), 1)
    blocks = [_blocks(document, size) for document in documents]
    several = [block for blocks_of in blocks for block in blocks_of]
    cut = _joined(blocks, _chosen(several, room, seed))
    kept, out = max(whole, cut, key=lambda sides: _size(sides[1]) if sides[0] else 0)
    if not out or not kept:
        raise _too_few(several, room, size, share)
    return kept, out


def _sides(documents: Sequence[str], held: set[str]) -> tuple[list[str], list[str]]:
    """Documents to train on, and those held out."""
    kept = [one for one in documents if one not in held]
    return kept, [one for one in documents if one in held]


def _joined(blocks: Sequence[Sequence[str]], held: set[str]) -> tuple[list[str], list[str]]:
    """What stands between blocks that are held out, and those, of each document's blocks."""
    kept, out = [], []
    for blocks_of in blocks:
        joined = ""
        for block in blocks_of:
            if block in held:
                out.append(block)
                kept.append(joined)
                joined = ""
            else:
                joined += block
        kept.append(joined)
    return [one for one in kept if one.strip()], out


def _size(texts: Sequence[str]) -> int:
    """Their characters."""
    return sum(map(len, texts))


def _too_few(blocks: Sequence[str], room: float, size: int, share: float) -> TextError:
    """Why no block can be held out: each is longer than the share, or equal ones, which stay together, are."""
    different = len(set(blocks))
    if size <= room and different < len(blocks):
        return TextError(
            f"the texts say the same again and again: of {len(blocks):,} blocks of about {size:,} characters "
            f"{different:,} are different, and equal ones stay together, so {share:.0%} cannot be held out; "
            "give text to hold out (--held-out FILE), or hold out none (--set held_out=0)"
        )
    return TextError(
        f"the texts are {_size(blocks):,} characters, too few to hold out {share:.0%} of them; "
        "give more text, text to hold out (--held-out FILE), or hold out none (--set held_out=0)"
    )


def split_pairs(
    pairs: Sequence[Pair],
    share: float,
    seed: int = 0,
    key: Callable[[str], str] | None = None,
) -> tuple[list[Pair], list[Pair]]:
    """Pairs to train on, and those held out, so that no source and no target of one side is in the other.

    Pairs that share a source or a target, directly or by way of others, stay together (of "Open" and "Close" with
    two translations each, all that hangs on them).

    Args:
        pairs: sources and targets.
        share: of the pairs, at most.
        seed: of the choice.
        key: texts with one key are one text; None = `normalised`.

    Raises:
        ConfigError: a share that is none.
        TextError: too few pairs that have nothing in common.
    """
    if not 0 < share < 1:
        raise ConfigError(f"held_out={share} is not a share of the pairs; use 0 < held_out < 1")
    groups = _groups(pairs, key or normalised)
    room = share * len(pairs)
    held: set[int] = set()
    for number in random_of(seed, 3).permutation(len(groups)).tolist():
        if len(held) + len(groups[number]) <= room:
            held.update(groups[number])
    if not held:
        raise TextError(
            f"{len(pairs):,} pairs fall into {len(groups):,} that have nothing in common, too few to hold out "
            f"{share:.0%} of them; give more pairs, some to hold out (--held-out FILE), or hold out none "
            "(--set held_out=0)"
        )
    kept = [pair for at, pair in enumerate(pairs) if at not in held]
    return kept, [pair for at, pair in enumerate(pairs) if at in held]


def normalised(text: str) -> str:
    """Letters and digits alone, in small letters: without case, marks of menus (_ and &), space and punctuation.

    A text of nothing else stays as it is.
    """
    return "".join(c for c in text.casefold() if c.isalnum()) or text.strip()


def _chosen(texts: Sequence[str], room: float, seed: int) -> set[str]:
    """Different texts at random, as many as there is room for, never all of them."""
    sizes: dict[str, int] = {}
    for text in texts:
        sizes[text] = sizes.get(text, 0) + len(text)
    different = [text for text in sizes if text.strip()]
    held: set[str] = set()
    for number in random_of(seed, 3).permutation(len(different)).tolist():
        text = different[number]
        if sizes[text] <= room:
            held.add(text)
            room -= sizes[text]
    return held


def _blocks(text: str, size: int) -> list[str]:
    """A text in blocks of at least so many characters, the last one fewer, each up to a line end if there is one.

    A line of more than twice as many is cut.
    """
    blocks: list[str] = []
    at = 0
    while at < len(text):
        end = text.find("\n", at + size - 1, at + 2 * size)
        end = at + size if end < 0 else end + 1
        blocks.append(text[at:end])
        at = end
    return blocks


def _groups(pairs: Sequence[Pair], key: Callable[[str], str]) -> list[list[int]]:
    """Numbers of the pairs that hang together, by their sources and targets."""
    parent = list(range(len(pairs)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    first: dict[tuple[int, str], int] = {}
    for at, pair in enumerate(pairs):
        for side, text in enumerate(pair):
            parent[root(at)] = root(first.setdefault((side, key(text)), at))
    groups: dict[int, list[int]] = {}
    for at in range(len(pairs)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())
