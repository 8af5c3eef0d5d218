"""Masks written as text: `causal & window(4) | prefix(2)`. Read by a grammar of its own, nothing is run.

    mask    = part { "|" part }
    part    = factor { "&" factor }
    factor  = "~" factor | "(" mask ")" | name [ "(" [ argument { "," argument } ] ")" ]
    argument= [ name "=" ] ( number | "[" number { "," number } "]" )

As in Python `&` binds tighter than `|`, and `~` tightest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.names import MaskError

__all__ = ["read"]

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[&|~(),=\[\]]))")

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

_USES = "full, causal, window(n, ahead=0), prefix(n), documents([0, 0, 1]), padding(lengths=[3])"


def read(text: str) -> Mask:
    """The mask a text describes.

    Raises:
        MaskError: what cannot be read, with the text and its place in it below.
    """
    if not isinstance(text, str) or not text.strip():
        raise MaskError(f"there is no mask in {text!r}; write for instance causal & window(4)")
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
        self.now = self._next()

    def either(self) -> Mask:
        found = self._both()
        while self._take("|"):
            found = found | self._both()
        return found

    def _both(self) -> Mask:
        found = self._factor()
        while self._take("&"):
            found = found & self._factor()
        return found

    def _factor(self) -> Mask:
        start = self.now
        if self._take("~"):
            return self._at(start, lambda: ~self._factor())
        if self._take("("):
            found = self.either()
            self._need(")", f"the bracket at character {start.start + 1} is not closed")
            return found
        return self._named()

    def _named(self) -> Mask:
        name = self.now
        if name.kind != "name":
            what = "the text ends" if name.kind == "end" else f"{name.text!r} stands"
            raise self.wrong(f"{what} where a mask is wanted: {_USES}")
        if name.text not in _KNOWN:
            raise self.wrong(f"there is no mask {name.text!r}; there are {_USES}")
        self.now = self._next()
        make, names, least = _KNOWN[name.text]
        given = self._arguments(names) if self._take("(") else {}
        missing = [one for one in names[:least] if one not in given]
        if missing:
            raise self.wrong(f"{name.text} needs {missing[0]}; write {_use(name.text)}", name.start)
        return self._at(name, lambda: make(**given))

    def _arguments(self, names: tuple[str, ...]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        place = 0
        while not self._take(")"):
            if place:
                self._need(",", "a comma or a closing bracket is wanted")
            name, start = names[place] if place < len(names) else "", self.now
            if self.now.kind == "name":
                name = self.now.text
                self.now = self._next()
                self._need("=", f"{name} needs a value: {name}=4")
            if name not in names:
                known = ", ".join(names) or "none"
                raise self.wrong(f"that argument is not known; it takes {known}", start.start)
            if name in found:
                raise self.wrong(f"{name} is given twice", start.start)
            found[name] = self._value()
            place += 1
        return found

    def _value(self) -> Value:
        if not self._take("["):
            return self._number()
        found = [self._number()]
        while self._take(","):
            found.append(self._number())
        self._need("]", "the list is not closed with ]")
        return found

    def _number(self) -> int:
        if self.now.kind != "number":
            raise self.wrong("a whole number is wanted")
        found = int(self.now.text)
        self.now = self._next()
        return found

    def _at(self, start: _Token, make: Callable[[], Mask]) -> Mask:
        """What `make` gives; what it refuses is told with its place."""
        try:
            return make()
        except MaskError as error:
            if "\n" in str(error):
                raise
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
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            rest = len(self.text) - len(self.text[self.at :].lstrip())
            if rest == len(self.text):
                return _Token("end", "", rest)
            raise self.wrong(f"{self.text[rest]!r} is no part of a mask", rest)
        self.at = match.end()
        kind = str(match.lastgroup)
        return _Token(kind, match[kind], match.start(kind))

    def wrong(self, why: str, at: int | None = None) -> MaskError:
        """The error, with the text and a mark under its place."""
        at = self.now.start if at is None else at
        return MaskError(f"{why}\n  {self.text}\n  {' ' * at}^")


def _use(name: str) -> str:
    return next(use for use in re.split(r", (?=[a-z]+(?:\(|,|$))", _USES) if use.startswith(name))
