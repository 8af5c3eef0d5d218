"""The check of headwise's signatures that every test runs under."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as mypy has it


def checked(module: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Every checked function of headwise and of `module`: where it lives, its name, itself unchecked."""
    yield from _of(module)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "headwise":
            yield from _of(module)
            for thing in list(vars(module).values()):
                if inspect.isclass(thing) and thing.__module__.startswith("headwise"):
                    yield from _of(thing)


def _of(home: ModuleType | type) -> Iterator[tuple[Any, str, Any]]:
    for name, thing in list(vars(home).items()):
        kind = type(thing) if isinstance(thing, staticmethod | classmethod) else None
        function = thing.__func__ if kind else thing
        if isinstance(thing, property) and hasattr(thing.fget, "__wrapped__"):
            yield home, name, property(inspect.unwrap(thing.fget))
        elif inspect.isfunction(function) and hasattr(function, "__wrapped__"):
            plain = inspect.unwrap(function, stop=lambda f: not _is_check(f))
            if plain is not function:
                yield home, name, kind(plain) if kind else plain


def _is_check(function: Any) -> bool:
    return (
        "jaxtyping" in function.__code__.co_filename or "beartype" in function.__code__.co_filename
    )
