"""What ends a text: tokens, by the model's files or a customary name, and strings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headwise.hub.load import Model
from headwise.hub.tokenizer import ENDS, special_tokens

__all__ = ["ends_of"]


def ends_of(model: Model, stops: Sequence[str]) -> tuple[list[int], list[str]]:
    """The tokens that end a text, special ones among the stop strings with them, and the other strings."""
    names = {} if model.tokenizer is None else special_tokens(model.tokenizer)
    ids = {name: id for id, name in names.items()}
    special = [ids[stop] for stop in stops if stop in ids]
    said = _said_ends(model) or [ids[name] for name in ENDS if name in ids][:1]
    return [*dict.fromkeys([*said, *special])], [stop for stop in stops if stop not in ids]


def _said_ends(model: Model) -> list[int]:
    """The ids that end a text by what the model or its files say."""
    own: Any = getattr(model.module, "generation_config", None)
    said: Any = getattr(own, "eos_token_id", None)
    if (
        said is None
        and model.folder is not None
        and (model.folder / "generation_config.json").is_file()
    ):
        try:
            said = json.loads((model.folder / "generation_config.json").read_text("utf-8")).get(
                "eos_token_id"
            )
        except (OSError, ValueError, AttributeError):
            said = None
    if said is None:
        said = (model.config or {}).get("eos_token_id")
    return [*said] if isinstance(said, list) else [] if said is None else [int(said)]
