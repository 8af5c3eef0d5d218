"""A model of our own blocks as transformers stores it: the tables of `headwise.nn.families` read the other way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path

from safetensors import safe_open
from torch import Tensor, nn

from headwise.nn.attention import MultiHeadAttention
from headwise.nn.fields import HfConfig, family_of
from headwise.nn.tables import clean, copies_in, source_of, weight_files

__all__ = ["left_out", "stored"]

_HEADS = ("lm_head.", "proj_out.", "final_logits_bias", "cls.")
"""What their base models do not have, so that it stands without the prefix."""


def stored(
    model: nn.Module, hf_config: HfConfig, state: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The weights of a model of ours by transformers' names, in its layout.

    Args:
        model: as `config_from(hf_config)` says, cut or not.
        hf_config: the config.json it came with.
        state: its weights by our names; None = its state_dict.

    Raises:
        ConfigError: a weight for which the family's table has no place.
    """
    family = family_of(hf_config)
    bare = hf_config.get("architectures") == [family.bare]
    prefix = "" if bare else family.prefix
    theirs: dict[str, Tensor] = {}
    for ours, tensor in (model.state_dict() if state is None else state).items():
        weight, names = source_of(family, ours)
        if bare and weight.optional:
            continue
        parts = weight.inverse(tensor, _rows(model, ours))
        for name, part in zip(names, parts, strict=True):
            theirs[name if name.startswith(_HEADS) else prefix + name] = part
    return theirs


def left_out(folder: Path, hf_config: HfConfig, model: nn.Module) -> dict[str, Tensor]:
    """The weights of a checkpoint that our blocks have no use for: a pooler, a classifier.

    Args:
        folder: a folder that `load_checkpoint` reads.
        hf_config: its config.json.
        model: what was read from it; its own weights, and copies of them, are not left out.
    """
    family = family_of(hf_config)
    ours = {name for weight in model.state_dict() for name in source_of(family, weight)[1]}
    copies = copies_in(family, model)
    found: dict[str, Tensor] = {}
    with ExitStack() as files:
        for path in weight_files(folder):
            file = files.enter_context(safe_open(path, framework="pt"))
            for name in file.keys():  # noqa: SIM118  (safe_open is no mapping)
                bare = clean(name, family)
                if bare not in ours and _is_any(bare, family.unused) and not _is_any(bare, copies):
                    found[name] = file.get_tensor(name)
    return found


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _rows(model: nn.Module, name: str) -> tuple[int, ...]:
    """How many rows of a packed projection are queries, keys and values; none for other weights."""
    owner = model.get_submodule(".".join(name.split(".")[:-2]))
    if not isinstance(owner, MultiHeadAttention):
        return ()
    return tuple(
        heads * owner.head_dim
        for heads in (owner.num_heads, owner.num_kv_heads, owner.num_kv_heads)
    )
