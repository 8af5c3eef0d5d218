"""Records on disk: one safetensors file, tensors by layer and everything else as JSON in its header."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.core.rules import Full, Window
from headwise.core.scores import Scores
from headwise.files import replacing
from headwise.hub.kept import Naming
from headwise.names import LayerId, ModelError
from headwise.see.circuits.norms import OLD_FILE, Lengths
from headwise.see.record import LayerRecord, Record, Side
from headwise.see.texts.tokens import Token

_VERSION = 1


def save_record(record: Record, path: Path) -> None:
    """Write the record to `path`, so that a failure loses nothing.

    Raises:
        OutputError: the file cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    layers = []
    for id, layer in record.layers.items():
        name = str(id)
        scores = layer.scores
        for part in ("q", "k", "bias", "sink"):
            value = getattr(scores, part)
            if value is not None:
                tensors[f"{name}.{part}"] = value.detach().cpu().clone().contiguous()
        if layer.lengths is not None:
            tensors[f"{name}.lengths"] = layer.lengths.values.cpu().clone().contiguous()
        window, dense = _mask_parts(scores)
        if dense is not None:
            tensors[f"{name}.mask"] = dense
        layers.append(
            {
                "stream": id.stream,
                "layer": id.layer,
                "scale": scores.scale,
                "softcap": scores.softcap,
                "query_offset": scores.query_offset,
                "window": window,
                "queries": _side(layer.queries),
                "keys": _side(layer.keys),
                "verified": layer.verified,
                "no_lengths": layer.no_lengths,
                "names": None if layer.names is None else asdict(layer.names),
            }
        )
    header = {"headwise_record": str(_VERSION), "model": record.model, "layers": json.dumps(layers)}
    with replacing(path, "the record") as place:
        try:
            save_file(tensors, place, metadata=header)
        except SafetensorError as error:  # a full disk, in the library's own words
            raise OSError(str(error)) from None


def load_record(path: str | Path) -> Record:
    """Read a record that `Record.save` wrote.

    Raises:
        ModelError: the file is missing, or no record.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} cannot be read as a record: {error}") from None
    if header.get("headwise_record") != str(_VERSION):
        raise ModelError(f"{path} is not a record of this version of headwise; make it again")
    try:
        layers = [_layer(entry, tensors) for entry in json.loads(header["layers"])]
        return Record(header["model"], {layer.id: layer for layer in layers})
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} is a damaged record ({error!r}); make it again") from None


def _layer(entry: dict[str, Any], tensors: dict[str, Tensor]) -> LayerRecord:
    id = LayerId(entry["stream"], entry["layer"])
    window, dense = entry["window"], tensors.get(f"{id}.mask")
    mask: Mask | None = None
    if dense is not None:
        mask = masks.tensor(dense)
    elif window is not None:
        mask = Mask(Window(*window))
    scores = Scores(
        tensors[f"{id}.q"],
        tensors[f"{id}.k"],
        mask,
        entry["scale"],
        tensors.get(f"{id}.bias"),
        entry["softcap"],
        tensors.get(f"{id}.sink"),
        entry["query_offset"],
    )
    queries, keys = _read_side(entry["queries"]), _read_side(entry["keys"])
    known = tensors.get(f"{id}.lengths")
    lengths = None if known is None else Lengths(known=known)
    reason = entry.get("no_lengths", OLD_FILE)
    names = _naming(entry.get("names"))
    return LayerRecord(id, scores, queries, keys, entry["verified"], lengths, reason, names)


def _naming(entry: dict[str, Any] | None) -> Naming | None:
    if entry is None:
        return None
    return Naming(tuple(entry["heads"]), tuple(entry["kv"]), entry["total"])


def _read_side(entry: dict[str, Any]) -> Side:
    return Side(entry["text"], tuple(_token(token) for token in entry["tokens"]))


def _side(side: Side) -> dict[str, Any]:
    return {"text": side.text, "tokens": [asdict(token) for token in side.tokens]}


def _token(entry: dict[str, Any]) -> Token:
    part = entry.pop("part")
    return Token(**entry, part=None if part is None else (part[0], part[1]))


def _mask_parts(scores: Scores) -> tuple[tuple[int | None, int | None] | None, Tensor | None]:
    """The mask as a window, or dense where it is none; (None, None) where all may be seen."""
    mask = scores.mask
    if mask is None or (isinstance(mask.rule, Full) and not mask.limits):
        return None, None
    if isinstance(mask.rule, Window) and not mask.limits:
        return mask.rule.band(), None
    queries, keys = scores.shape[2:]
    return None, mask.dense(queries, keys, scores.query_offset, torch.device("cpu")).contiguous()
