"""Write docs/en/families.md: which families of transformers can be looked into, found from their classes.

    python docs/en/families.py

Nothing is built or loaded: each family's modeling file is imported and its classes are asked what the product
asks (hub/anatomy: does its attention go through transformers' attention interface, or is it written out by hand in
a way that can be followed?).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import transformers
from torch import nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import model_type_to_module_name

from headwise.hub.anatomy import attends, by_itself, hides, routes

PAGE = Path(__file__).with_name("families.md")
LOOKED_INTO, FOLLOWED, IN_PART, COMPOSED = "looked into", "followed", "in part", "as its parts"
REFUSED, NONE = "refused", "no attention"

HEAD = """# Families of transformers {version}

Written by `docs/en/families.py` from the classes of each family; a test holds it to them, and looks into tiny models
of more than a hundred of them.

{counts}

- **looked into**: every attention class of the family goes through transformers' attention interface.
- **followed**: some of its attention classes, named beside, write attention out by hand. Their heads are read while
  they run, from the product of queries and keys to the product with the values. A class that does something
  else in between (or attends twice, or within pieces of its input) is refused by name when it runs.
- **in part**: the classes named beside compute attention by themselves. A model that has some of each is looked
  into without them, and says so when it is loaded; a model that has only those is refused.
- **as its parts**: built of models of other families, and looked into as far as they are.
- **refused**: its attention classes compute attention by themselves.
- **no attention**: no softmax attention to look into.

A model may still be refused when it runs (windows of an image, packed images): see [models.md](models.md).

| family | | attention written out by hand, or *not seen* |
|---|---|---|
"""


@dataclass(frozen=True)
class Found:
    """What the classes of one family say."""

    family: str
    verdict: str
    hidden: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


def families() -> dict[str, Found]:
    """Every family with a model class in transformers' auto mappings, by the name of its folder."""
    return {name: judge(name, file) for name, file in sorted(_files().items())}


def judge(family: str, file: ModuleType) -> Found:
    """What the attention classes of a modeling file say of its family."""
    classes = [
        cls
        for cls in vars(file).values()
        if inspect.isclass(cls) and issubclass(cls, nn.Module) and cls.__module__ == file.__name__
    ]
    seen = [cls for cls in classes if attends(cls)]
    through = [cls.__name__ for cls in seen if routes(cls)]
    written = tuple(sorted(cls.__name__ for cls in seen if by_itself(cls)))
    hidden = tuple(sorted(cls.__name__ for cls in classes if hides(cls)))
    models = [cls for cls in classes if issubclass(cls, transformers.PreTrainedModel)]
    switched = not through or all(cls._can_set_attn_implementation() for cls in models)
    if seen and switched:
        verdict = IN_PART if hidden else FOLLOWED if written else LOOKED_INTO
        return Found(family, verdict, hidden, written)
    if hidden or seen:
        return Found(family, REFUSED, hidden or tuple(through), written)
    return Found(family, COMPOSED if any(_holds_models(cls, file) for cls in classes) else NONE)


def page(found: dict[str, Found]) -> str:
    """The text of docs/en/families.md."""
    count = Counter(item.verdict for item in found.values())
    order = (LOOKED_INTO, FOLLOWED, IN_PART, COMPOSED, REFUSED, NONE)
    counts = "; ".join(f"{count[verdict]} {verdict}" for verdict in order)
    rows = [f"| {x.family} | {x.verdict} | {_beside(x)} |" for x in found.values()]
    head = HEAD.format(version=transformers.__version__, counts=f"{len(found)} families: {counts}.")
    return head + "\n".join(rows) + "\n"


def _beside(item: Found) -> str:
    return ", ".join([*item.written, *(f"*{name}*" for name in item.hidden)])


def _files() -> dict[str, ModuleType]:
    """The modeling file of each family; one that needs a library that headwise does not is left out."""
    found: dict[str, ModuleType] = {}
    for kind, name in _model_classes():
        family = model_type_to_module_name(kind)
        package = importlib.import_module(f"transformers.models.{family}")
        cls = getattr(package, name, None)
        if family not in found and cls is not None and cls.__module__ in sys.modules:
            found[family] = sys.modules[cls.__module__]
    return found


def _model_classes() -> Iterator[tuple[str, str]]:
    for name, mapping in vars(modeling_auto).items():
        if name.endswith("MAPPING_NAMES") and name.startswith("MODEL_"):
            for family, classes in mapping.items():
                yield family, classes if isinstance(classes, str) else classes[0]


def _holds_models(cls: type, file: ModuleType) -> bool:
    code = getattr(inspect.unwrap(cls.__init__), "__code__", None)
    return code is not None and any(_is_other_model(name, file) for name in code.co_names)


def _is_other_model(name: str, file: ModuleType) -> bool:
    used = getattr(file, name, None)
    if not inspect.isclass(used):
        return name == "load_backbone"
    other = used.__module__ != file.__name__ and used is not transformers.PreTrainedModel
    return other and (name.startswith("Auto") or issubclass(used, transformers.PreTrainedModel))


if __name__ == "__main__":
    PAGE.write_text(page(families()), encoding="utf-8")
