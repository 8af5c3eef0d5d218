"""Write docs/*/families.md: which families of transformers can be looked into, found from their classes.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import transformers
from torch import nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import model_type_to_module_name

from headwise.hub.anatomy import attends, by_itself, hides, routes

DOCS = Path(__file__).parents[1]
LOOKED_INTO, FOLLOWED, IN_PART, COMPOSED = "looked into", "followed", "in part", "as its parts"
REFUSED, NONE = "refused", "no attention"

ENGLISH = """# Families of transformers {version}

Written by `docs/en/families.py` from the classes of each family; a test holds it to them, and looks into tiny
models of more than a hundred of them.

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


CHINESE = """# transformers {version} 的家族

由 `docs/en/families.py` 根据每个家族的类写成;有测试使它与这些类一致,并实际看过其中一百多个家族的小模型。

{counts}

- **能看**:该家族的每个注意力类都经过 transformers 的注意力接口。
- **跟踪**:它的一些注意力类(列在旁边)是手写的。运行时读取它们的头,从查询与键的乘积开始,到与值的乘积为止。
  在两者之间还做别的事的类(或做两次注意力,或在输入的片段上做),运行时会报出名字并拒绝。
- **部分**:旁边列出的类自行计算注意力。两种都有的模型,看的时候不含这些类,加载时会说明;只有这种类的模型会被拒绝。
- **看其组成部分**:由其他家族的模型组成,那些模型能看多少,它就能看多少。
- **拒绝**:它的注意力类自行计算注意力。
- **没有注意力**:没有可看的 softmax 注意力。

模型仍可能在运行时被拒绝(图像的窗口、打包的图像):见 [models.md](models.md)。

| 家族 | | 手写的注意力,或*看不到的* |
|---|---|---|
"""
VERDICTS = {
    LOOKED_INTO: "能看",
    FOLLOWED: "跟踪",
    IN_PART: "部分",
    COMPOSED: "看其组成部分",
    REFUSED: "拒绝",
    NONE: "没有注意力",
}


@dataclass(frozen=True)
class Words:
    """What a page says in its language: all above the rows, the counts of families, a word for each verdict."""

    head: str
    counts: str
    count: str
    between: str
    verdicts: Mapping[str, str]


SAME = {name: name for name in VERDICTS}
LANGUAGES = {
    "en": Words(ENGLISH, "{families} families: {counts}.", "{n} {said}", "; ", SAME),
    "zh-CN": Words(CHINESE, "{families} 个家族:{counts}。", "{said} {n} 个", ";", VERDICTS),
}


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


def page(found: dict[str, Found], language: str) -> str:
    """The text of families.md in a language."""
    words = LANGUAGES[language]
    count = Counter(item.verdict for item in found.values())
    told = [words.count.format(n=count[name], said=said) for name, said in words.verdicts.items()]
    counts = words.counts.format(families=len(found), counts=words.between.join(told))
    rows = [f"| {x.family} | {words.verdicts[x.verdict]} | {_beside(x)} |" for x in found.values()]
    head = words.head.format(version=transformers.__version__, counts=counts)
    return head + "\n".join(rows) + "\n"


def path(language: str) -> Path:
    """Where the page of a language lies."""
    return DOCS / language / "families.md"


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
    found = families()
    for language in LANGUAGES:
        path(language).write_text(page(found, language), encoding="utf-8")
