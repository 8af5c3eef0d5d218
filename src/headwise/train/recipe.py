"""What a training is asked for: a checked recipe, and the TOML file that it stands in.

[model]        fields of TransformerConfig, and class = "Decoder"
[train]        fields of Recipe
[tokenizer]    vocab_size = 2048 for a new one, or from = "MODEL or FILE"
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from headwise.names import ConfigError
from headwise.train.data.causal import MOST_REPEATS
from headwise.train.data.tokenizing import MOST_IDS

__all__ = ["Dtype", "Objective", "Plan", "Recipe", "read_plan", "shipped"]

Objective = Literal["causal", "masked", "pairs"]
Dtype = Literal["auto", "float32", "bfloat16"]

_CHOICES = {"objective": get_args(Objective), "dtype": get_args(Dtype)}
_COUNTS = ("context", "rows", "accumulate", "steps", "evaluate_every", "save_every", "keep")
_NUMBERS = ("clip", "weight_decay")
_SHARES: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "least_rate": (lambda share: share <= 1, "from 0 to 1"),
    "held_out": (lambda share: share < 1, "from 0 to below 1"),
    "mask_share": (lambda share: 0 < share < 1, "above 0 and below 1"),
    "repeats": (lambda share: share <= MOST_REPEATS, f"from 0 to {MOST_REPEATS}"),
}
"""Which shares can be."""

_MOST = 2**31 - 1
"""Of a count."""
_MOST_SEED = 2**63 - 1
_MOST_TOKENS = 2**27
"""Of a step: several times those of the largest trainings."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained; the same recipe, texts and machine give the same weights.

    Attributes:
        objective: the next token ("causal"), hidden tokens ("masked"), or a target of each source ("pairs").
        context: tokens of a row.
        rows: of a step, in all processes and parts together.
        accumulate: in how many parts a step's rows are run through, to need less memory.
        steps: of AdamW.
        learning_rate: the highest.
        warmup: steps over which the rate rises.
        least_rate: what the rate falls to as a half cosine, as a share of the highest.
        weight_decay: of matrices.
        betas: of AdamW.
        clip: the longest the gradients may be together; 0 = any.
        dtype: of the passes: "float32", "bfloat16" (autocast; weights stay float32), or "auto": bfloat16 where it
            was measured to pay.
        seed: of the weights at the start, of the order of the rows, and of dropout.
        evaluate_every, save_every: after how many steps the held-out texts are looked at, a checkpoint is written.
        keep: how many checkpoints are kept.
        held_out: share of the texts that is held out, where no others are given.
        held_out_rows: how many rows of it a look sees, the same ones each time; 0 = a tenth of the rows between two
            looks, a step's at least. The last look sees all.
        mask_share: share of the tokens that are hidden ("masked").
        repeats: share of the rows whose second half says the first again ("causal"), for induction.
        vocab_size: of a tokenizer made from the texts.

    Raises:
        ConfigError: a value that cannot be.
    """

    objective: Objective = "causal"
    context: int = 256
    rows: int = 32
    accumulate: int = 1
    steps: int = 1000
    learning_rate: float = 1e-3
    warmup: int = 50
    least_rate: float = 0.1
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    dtype: Dtype = "auto"
    seed: int = 0
    evaluate_every: int = 100
    save_every: int = 100
    keep: int = 2
    held_out: float = 0.05
    held_out_rows: int = 0
    mask_share: float = 0.15
    repeats: float = 0.0
    vocab_size: int = 2048

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", _betas(self.betas))
        for name, known in _CHOICES.items():
            _check_choice(name, getattr(self, name), known)
        for name in _COUNTS:
            _check_whole(name, getattr(self, name), 1)
        _check_whole("vocab_size", self.vocab_size, 1, MOST_IDS)
        for name in ("warmup", "held_out_rows"):
            _check_whole(name, getattr(self, name), 0)
        _check_whole("seed", self.seed, 0, _MOST_SEED)
        for name in (*_NUMBERS, *_SHARES):
            _check_number(name, getattr(self, name))
        _check_number("learning_rate", self.learning_rate, "above 0")
        for name, (can, bounds) in _SHARES.items():
            if not can(getattr(self, name)):
                raise ConfigError(
                    f"{name}={getattr(self, name)!r} is a share; use a number {bounds}"
                )
        if self.context < 2:
            raise ConfigError("context=1 leaves nothing to predict from; use 2 or more")
        if self.rows * self.context > _MOST_TOKENS:
            raise ConfigError(
                f"rows={self.rows} of context={self.context} are {self.rows * self.context:,} tokens a step; "
                f"use fewer, {_MOST_TOKENS:,} at most"
            )
        if self.rows < self.accumulate:
            raise ConfigError(
                f"rows={self.rows} cannot be run in accumulate={self.accumulate} parts; use fewer"
            )

    @classmethod
    def of(cls, said: Mapping[str, Any], where: str = "") -> Recipe:
        """The recipe that a table of fields says.

        Args:
            said: names and values.
            where: the table is, for the errors.

        Raises:
            ConfigError: a field that is not known, or a value that cannot be.
        """
        known = [f.name for f in fields(cls)]
        _check_names(said, known, f"field of [train]{where}", "known are")
        return cls(**{**said, "betas": _betas(said.get("betas", cls.betas))})

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "betas": list(self.betas)}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that a configuration file says.

    Attributes:
        model: fields of the model's configuration; empty where its weights are taken from another model.
        recipe: how it is trained.
        tokenizer: a model or a file whose tokenizer is taken; None = one is made from the texts.
        vocab_size: of the tokenizer, where it was said.
        context: tokens of a row, where it was said.
    """

    model: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    tokenizer: str | None = None
    vocab_size: int | None = None
    context: int | None = None

    def changed(self, **given: Any) -> Plan:
        """With other fields of the recipe; None leaves one as it is.

        Raises:
            ConfigError: a field that is not known, or a value that cannot be.
        """
        recipe = Recipe.of({**asdict(self.recipe), **_some(given)})
        said = _some({name: given.get(name) for name in ("vocab_size", "context")})
        return replace(self, recipe=recipe, **said)


def read_plan(config: str | Path | Mapping[str, Any]) -> Plan:
    """The plan in a TOML file, or that ships with headwise under this name.

    Args:
        config: the path of a file, a name (`shipped()`), or what such a file says.

    Raises:
        ConfigError: no such file, no TOML, an unknown name in it, or a value that cannot be.
    """
    said = config if isinstance(config, Mapping) else _parsed(config)
    where = "" if isinstance(config, Mapping) else f" in {config}"
    _check_names(said, ("model", "train", "tokenizer"), f"table{where}", "the tables are")
    for name, table in said.items():
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"{name}={table!r}{where} is no table; write [{name}] above its fields"
            )
    train, tokenizer = dict(said.get("train", {})), dict(said.get("tokenizer", {}))
    _check_names(
        tokenizer, ("vocab_size", "from"), f"field of [tokenizer]{where}", "its fields are"
    )
    if "vocab_size" in tokenizer:
        train["vocab_size"] = tokenizer["vocab_size"]
    source = tokenizer.get("from")
    if source is not None and not isinstance(source, str):
        raise ConfigError(
            f"from={source!r} in [tokenizer]{where} is no name; use a model or a file"
        )
    return Plan(
        model=dict(said.get("model", {})),
        recipe=Recipe.of(train, where),
        tokenizer=source,
        vocab_size=train.get("vocab_size"),
        context=train.get("context"),
    )


def shipped() -> list[str]:
    """The names of the recipes that come with headwise."""
    found = (files("headwise.train") / "recipes").iterdir()
    return sorted(one.name.removesuffix(".toml") for one in found if one.name.endswith(".toml"))


def _parsed(config: str | Path) -> Mapping[str, Any]:
    path: Any = Path(config)
    if str(config) in shipped():
        path = files("headwise.train") / "recipes" / f"{config}.toml"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        near = get_close_matches(str(config), shipped(), 1)
        known = ", ".join(shipped()) or "none"
        hint = f"did you mean {near[0]}?" if near else f"give a TOML file, or one of: {known}"
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"the configuration {config} cannot be read: {why}; {hint}") from None
    try:
        return tomllib.loads(text)
    except ValueError as error:  # a number of too many digits too
        raise ConfigError(f"the configuration {config} is no TOML: {error}") from None


def _check_names(came: Iterable[str], known: Iterable[str], what: str, list_: str) -> None:
    known = list(known)
    for name in came:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"{list_} {', '.join(known)}"
            raise ConfigError(f"{name} is no {what}; {hint}")


def _check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        near = get_close_matches(str(value), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
        raise ConfigError(f"{name}={value!r} is not known; {hint}")


def _check_whole(name: str, value: object, least: int, most: int = _MOST) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value!r} must be a whole number of {least} or more")
    if value > most:
        raise ConfigError(f"{name} must be a whole number of {most:,} or less, came a larger one")


def _check_number(name: str, value: object, bounds: str = "of 0 or more") -> None:
    if isinstance(value, int) and abs(value) > _MOST_SEED:
        raise ConfigError(f"{name} must be a number {bounds}, came a whole one of too many digits")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not isfinite(value) or value < 0 or (value == 0 and bounds == "above 0"):  # type: ignore[arg-type, operator]
        raise ConfigError(f"{name}={value!r} must be a number {bounds}")


def _betas(value: object) -> tuple[float, float]:
    if isinstance(value, list | tuple) and len(value) == 2:
        one, two = value
        if all(type(x) in (int, float) and 0 <= x < 1 for x in (one, two)):
            return float(one), float(two)
    raise ConfigError(f"betas={value!r} must be two numbers, each from 0 to below 1")


def _some(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
