"""`module:factory`: something of the user's own, imported from the current folder and made by a call."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from headwise.hub.load import Model
from headwise.names import ModelError

__all__ = ["from_here", "is_factory", "made", "where_raised"]

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_FACTORY = re.compile(rf"({_NAME}):({_NAME})")
_SHOWN = 8
_USE = "write module:factory, for instance my_model:make for the function make of my_model.py"


def is_factory(target: str) -> bool:
    """Whether it names something of the user's own, and no model."""
    return ":" in target and not Path(target).exists()


@contextmanager
def from_here() -> Iterator[None]:
    """Import from the current folder first, for the time of the `with`."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def made(target: str) -> tuple[Any, dict[str, Any]]:
    """What a factory gives: what is to be audited, and arguments of `audit`.

    Raises:
        ModelError: there is no such module or attribute, it cannot be called without arguments, it raises, or what
            it gives is nothing that could be audited.
    """
    match = _FACTORY.fullmatch(target)
    if match is None:
        raise ModelError(f"{target!r} names no factory; {_USE}")
    module, name = match.groups()
    module = module.removesuffix(".py") if Path(module).is_file() else module
    factory = _attribute(_imported(module), module, name)
    if isinstance(factory, nn.Module | Model):
        return factory, {}
    _check_factory(factory, target)
    found = _called(factory, f"{target}()")
    model, arguments = found if _is_pair(found) else (found, {})
    if not callable(model) and not isinstance(model, Model):
        came = f"{type(model).__name__} {model!r}"[:80]
        raise ModelError(
            f"{target}() gave {came}; it must return a module or a function, or such a one and a dict"
        )
    return model, dict(arguments)


def where_raised(error: BaseException) -> str:
    """What was raised and where: `ValueError: no such layer (my_model.py, line 3)`.

    The place is the last one in the current folder that it came through, else the last of all.
    """
    said = str(error).strip().partition("\n")[0]
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name}: {error.msg} ({_short(error.filename)}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    place = (own or frames)[-1:]
    at = f" ({_short(place[0].filename)}, line {place[0].lineno})" if place else ""
    return f"{name}{f': {said}' if said else ''}{at}"


def _short(path: str) -> str:
    """Relative to the current folder where it lies in it."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else path


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ModelError(f"{name} cannot be imported: {where_raised(error)}") from None
        raise ModelError(
            f"there is no module {name!r} in {os.getcwd()}, and none is installed; {_USE}"
        ) from None
    except (Exception, SystemExit) as error:  # whatever stands in a module of the user's
        raise ModelError(f"{name} cannot be imported: {where_raised(error)}") from None


def _attribute(module: ModuleType, name: str, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            own = _own(module)
            near = difflib.get_close_matches(path, own, n=1)
            shown = ", ".join([*own[:_SHOWN], "..."] if len(own) > _SHOWN else own) or "none"
            hint = f"; did you mean {near[0]}?" if near else f"; it has {shown}"
            raise ModelError(f"{name} has no {path!r}{hint}")
        found = getattr(found, part)
    return found


def _own(module: ModuleType) -> list[str]:
    """What the module defines itself that can be called, functions before classes; nothing that it imports."""
    found = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == module.__name__
    }
    return sorted(found, key=lambda name: not inspect.isfunction(found[name]))


def _check_factory(factory: Any, target: str) -> None:
    """Refuse what cannot be called without arguments."""
    if not callable(factory):
        raise ModelError(f"{target} is {type(factory).__name__}, not a function to call; {_USE}")
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a builtin, which does not say
        return
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in starred]
    if needed:
        raise ModelError(
            f"{target} needs {', '.join(needed)}; name a function that takes no argument and returns "
            "what is to be audited"
        )


def _called(factory: Callable[[], Any], name: str) -> Any:
    try:
        return factory()
    except (Exception, SystemExit) as error:  # whatever a factory of the user's raises
        raise ModelError(f"{name} raised {where_raised(error)}") from None


def _is_pair(found: Any) -> bool:
    return isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)
