"""Masks written as text: `causal & window(4) | prefix(2)`. Read by a grammar of its own, nothing is run.

    mask     = part { "|" part }
    part     = factor { "&" factor }
    factor   = "~" factor | "(" mask ")" | name [ "(" [ argument { "," argument } ] ")" ]
    argument = [ name "=" ] ( number | "[" number { "," number } "]" )

As in Python `&` binds tighter than `|`, and `~` tightest. How long a text is, how deep its brackets go and how many
masks it joins is limited, so that whatever is typed or sent is answered at once.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.names import MaskError

__all__ = ["read"]

_TOKEN = re.compile(
    r"(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>[&|~(),=\[\]]))"
)
_SPACE = re.compile(r"\s*")

LONGEST = 100_000
"""Characters of a text."""
DEEPEST = 40
"""Brackets and ~ within one another."""
MOST = 100
"""Masks joined in one text."""
LARGEST = 2**31
_AROUND = 36
"""Characters shown on each side of a place."""

Value = int | list[int]


def _padding(lengths: Value) -> Mask:
    return masks.padding(lengths=lengths if isinstance(lengths, list) else [lengths])


_KNOWN: Mapping[str, tuple[Callable[..., Mask], tuple[str, ...], int]] = {
    "full": (masks.full, (), 0),
    "causal": (masks.causal, (), 0),
    "window": (masks.window, ("n", "ahead"), 1),
    "prefix": (masks.prefix, ("n",), 1),
    "documents": (masks.documents, ("ids",), 1),
    "padding": (_padding, ("lengths",), 1),
}
"""What there is: what makes it, its arguments, and how many of these must be given."""

_TAKES: Mapping[str, type] = {"window": int, "documents": list}
"""Which take numbers alone, or lists alone; the others take either."""

_USES = "full, causal, window(n, ahead=0), prefix(n), documents([0, 0, 1]), padding(lengths=[3])"


def read(text: str) -> Mask:
    """The mask a text describes.

    Raises:
        MaskError: what cannot be read, with the text and its place in it below.
    """
    if not isinstance(text, str):
        raise MaskError(f"a mask is read from text, came {type(text).__name__}")
    if not text.strip():
        raise MaskError("there is no mask in an empty text; write for instance causal & window(4)")
    if len(text) > LONGEST:
        raise MaskError(f"the text has {len(text)} characters; a mask takes at most {LONGEST}")
    reader = _Reader(text)
    found = reader.either()
    if reader.now.kind != "end":
        raise reader.wrong(f"{reader.now.text!r} does not go on with a mask; join two with & or |")
    return found


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


class _Reader:
    """Reads a text token by token; `now` is the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.joined = 0
        self.now = self._next()

    def either(self) -> Mask:
        return self._join("|", self._both, operator.or_)

    def _both(self) -> Mask:
        return self._join("&", self._factor, operator.and_)

    def _join(
        self, sign: str, part: Callable[[], Mask], join: Callable[[Mask, Mask], Mask]
    ) -> Mask:
        """Parts with the sign between them, put together from the left."""
        found = part()
        while (at := self.now).text == sign and self._take(sign):
            other = part()
            found = self._at(at, functools.partial(_fitting, join, found, other))
        return found

    def _factor(self) -> Mask:
        start = self.now
        if start.text not in ("~", "("):
            return self._named()
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wrong(f"more than {DEEPEST} brackets and ~ lie within one another")
        self.now = self._next()
        if start.text == "~":
            inner = self._factor()
            found = self._at(start, lambda: ~inner)
        else:
            found = self.either()
            self._need(")", f"the bracket at character {start.start + 1} is not closed")
        self.depth -= 1
        return found

    def _named(self) -> Mask:
        name = self.now
        if name.kind != "name":
            what = "the text ends" if name.kind == "end" else f"{name.text!r} stands"
            raise self.wrong(f"{what} where a mask is wanted: {_USES}")
        if name.text not in _KNOWN:
            raise self.wrong(f"there is no mask {_short(name.text)!r}; there are {_USES}")
        self.joined += 1
        if self.joined > MOST:
            raise self.wrong(f"more than {MOST} masks are joined")
        self.now = self._next()
        make, names, least = _KNOWN[name.text]
        given = self._arguments(names, _TAKES.get(name.text)) if self._take("(") else {}
        missing = [one for one in names[:least] if one not in given]
        if missing:
            raise self.wrong(f"{name.text} needs {missing[0]}; write {_use(name.text)}", name.start)
        return self._at(name, lambda: make(**given))

    def _arguments(self, names: tuple[str, ...], only: type | None) -> dict[str, Value]:
        found: dict[str, Value] = {}
        place = 0
        while not self._take(")"):
            if place:
                self._need(",", "a comma or a closing bracket is wanted")
            name, start = names[place] if place < len(names) else "", self.now
            if self.now.kind == "name":
                name = self.now.text
                self.now = self._next()
                self._need("=", f"{_short(name)} needs a value: {_short(name)}=4")
            if name not in names:
                known = ", ".join(names) or "none"
                raise self.wrong(f"that argument is not known; it takes {known}", start.start)
            if name in found:
                raise self.wrong(f"{name} is given twice", start.start)
            found[name] = self._value(only)
            place += 1
        return found

    def _value(self, only: type | None) -> Value:
        if only is list and self.now.text != "[":
            raise self.wrong("a list is wanted, as in [0, 0, 1]")
        if only is int or not self._take("["):
            return self._number()
        found = [self._number()]
        while self._take(","):
            found.append(self._number())
        self._need("]", "the list is not closed with ]")
        return found

    def _number(self) -> int:
        if self.now.kind != "number":
            raise self.wrong("a whole number is wanted")
        digits = self.now.text.lstrip("0") or "0"
        if len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
            raise self.wrong(f"numbers go up to {LARGEST}")
        self.now = self._next()
        return int(digits)

    def _at(self, start: _Token, make: Callable[[], Mask]) -> Mask:
        """What `make` gives; what it refuses is told with its place."""
        try:
            return make()
        except MaskError as error:
            raise self.wrong(str(error), start.start) from None

    def _take(self, sign: str) -> bool:
        if self.now.kind != "sign" or self.now.text != sign:
            return False
        self.now = self._next()
        return True

    def _need(self, sign: str, why: str) -> None:
        if not self._take(sign):
            raise self.wrong(why)

    def _next(self) -> _Token:
        space = _SPACE.match(self.text, self.at)
        start = self.at if space is None else space.end()
        if start == len(self.text):
            return _Token("end", "", start)
        match = _TOKEN.match(self.text, start)
        if match is None:
            raise self.wrong(f"{self.text[start]!r} is no part of a mask", start)
        self.at = match.end()
        kind = str(match.lastgroup)
        return _Token(kind, match[kind], start)

    def wrong(self, why: str, at: int | None = None) -> MaskError:
        """The error, with the text around its place and a mark under it."""
        at = self.now.start if at is None else at
        before, after = self.text[max(0, at - _AROUND) : at], self.text[at : at + _AROUND]
        if at > _AROUND:
            before = "..." + before[3:]
        if at + _AROUND < len(self.text):
            after = after[:-3] + "..."
        before, after = _printable(before), _printable(after)
        mark = " " * len(before) + "^"
        return MaskError(f"{_short(why, 300)}\n  {before}{after}\n  {mark}")


def _fitting(join: Callable[[Mask, Mask], Mask], one: Mask, other: Mask) -> Mask:
    """Both put together; refused where they are of different batches."""
    found = join(one, other)
    found.extent()
    return found


def _short(text: str, most: int = 30) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _printable(text: str) -> str:
    """The text with a space for each character that a terminal would not show as one."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _use(name: str) -> str:
    return next(use for use in re.split(r", (?=[a-z]+(?:\(|,|$))", _USES) if use.startswith(name))
