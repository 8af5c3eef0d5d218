"""What a table of circuits rests on: which weights, which norms, and what positions allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.weights import LayerWeights, Weights
from headwise.names import LayerId
from headwise.see.circuits.folded import Folded

__all__ = ["attributes", "back", "no_copying", "ways"]

_TRANSPOSED = "the embedding, transposed (the model makes no logits of this stream)"


def ways(weights: Weights, layer: LayerWeights) -> tuple[str, str] | None:
    """How tokens come into the layer's stream, and out of it: the paths of what embeds and what unembeds.

    None where the stream reads no ids.
    """
    stream = layer.id.stream
    if stream not in ("", "encoder", "decoder", "cross"):
        return None
    source = weights.embeddings.get("decoder" if stream == "decoder" else "")
    if source is None:
        return None
    if weights.unembedding is None or stream == "encoder":
        return source[0], _TRANSPOSED
    return source[0], weights.unembedding.path


def back(weights: Weights, layer: LayerWeights) -> Tensor | None:
    """W_U W_E, [d_model, d_embed]; None where there is none."""
    way = ways(weights, layer)
    if way is None:
        return None
    table = weights.embeddings["decoder" if layer.id.stream == "decoder" else ""][1].float()
    out = weights.unembedding
    if out is None or way[1] == _TRANSPOSED:
        return table.T @ table
    if len(out.weight) != len(table):
        return None
    unembed = out.weight.float().T
    if out.norm is not None:
        unembed = out.norm.before(unembed)
    made: Tensor = unembed @ table
    return made


def no_copying(parts: Folded, back: Tensor | None) -> str:
    """Why there is no copying, "" where there is: what is embedded must be as wide as what the heads read, and what
    they write as what is unembedded."""
    assert parts.v is not None
    assert parts.o is not None
    if back is None:
        return (
            "nothing was found that embeds their tokens and makes logits over the same vocabulary"
        )
    wide, written, read = back.shape[1], parts.o.shape[2], parts.v.shape[1]
    if wide != read:
        return f"W_E is {wide} wide and what the heads read {read}: another map is in between"
    if back.shape[0] != written:
        return f"W_U reads {back.shape[0]} and the heads write {written}: another map is in between"
    return ""


def attributes(
    model: Model,
    weights: Weights,
    layers: Sequence[LayerWeights],
    missing: Sequence[tuple[str, str, str]],
) -> dict[str, Any]:
    """What to say of a table: where its numbers are from, and why some are none.

    Args:
        model, weights: of which it is.
        layers: in the order of the table.
        missing: for each why it has no OV circuit, no QK circuit and no copying; "" where it has.
    """
    found: dict[str, Any] = {"model": model.name, "copying_through": _copying(weights, layers)}
    found["positions"] = "; ".join(_positions(layers))
    found["norms"] = "; ".join(_norms(layers, weights))
    found["left_out"] = "biases, and the length of each token that a norm divides by"
    maps = [x for layer in layers for x in (layer.q, layer.k, layer.v) if x is not None]
    found["verified"] = max((x.off for x in maps), default=float("nan"))
    reasons: dict[str, list[str]] = {}
    for layer, whys in zip(layers, missing, strict=True):
        for what, why in zip(("OV circuit", "QK circuit", "copying"), whys, strict=True):
            if why:
                reasons.setdefault(f"no {what}, as {why}", []).append(str(layer.id))
    if reasons:
        found["not_available"] = "; ".join(
            f"{_run(ids, layers)}: {why}" for why, ids in reasons.items()
        )
    return found


def _copying(weights: Weights, layers: Sequence[LayerWeights]) -> str:
    said: dict[str, None] = {}
    for layer in layers:
        way = ways(weights, layer)
        stream = f"{layer.id.stream}: " if layer.id.stream else ""
        if way is None:
            said[f"{stream}NaN, as nothing was found that embeds the tokens its heads look at"] = (
                None
            )
            continue
        said[f"{stream}W_E is {way[0]}, W_U is {way[1]}"] = None
    return "; ".join(said)


def _positions(layers: Sequence[LayerWeights]) -> list[str]:
    def turned(layer: LayerWeights) -> bool:
        return any(x is not None and x.turned for x in (layer.q, layer.k))

    known = [layer for layer in layers if layer.q is not None and layer.k is not None]
    said = []
    at_zero = [str(layer.id) for layer in known if turned(layer)]
    if at_zero:
        said.append(
            f"{_run(at_zero, layers)}: queries and keys are turned by their positions (RoPE), so W_Q W_K^T "
            "depends on the distance; qk_norm, q_composition and k_composition hold at distance 0"
        )
    plain = [str(layer.id) for layer in known if not turned(layer)]
    if plain:
        said.append(f"{_run(plain, layers)}: W_Q W_K^T holds at every distance")
    biased = [str(layer.id) for layer in layers if layer.biased]
    if biased:
        said.append(
            f"{_run(biased, layers)}: something is added to the scores beside (a bias by position, as "
            "ALiBi and T5 have it), which the weights do not hold"
        )
    return said or ["no layer has a QK circuit"]


def _norms(layers: Sequence[LayerWeights], weights: Weights) -> list[str]:
    with_gain = [str(x.id) for x in layers if any((x.query_norm, x.key_norm, x.value_norm))]
    without = [str(x.id) for x in layers if str(x.id) not in with_gain]
    after = [str(x.id) for x in layers if x.result_norm is not None]
    said = []
    if with_gain:
        said.append(
            f"{_run(with_gain, layers)}: the gain of the norm right before is folded in (with LayerNorm the "
            "mean taken away), norms further back are not"
        )
    if without:
        said.append(f"{_run(without, layers)}: no norm with a gain was found right before")
    if after:
        said.append(f"{_run(after, layers)}: the gain of the norm of what is added is folded in")
    if weights.unembedding is not None:
        folded = "is" if weights.unembedding.norm is not None else "was not found to be"
        said.append(f"the gain of a norm before W_U {folded} folded in")
    return said


def _run(ids: Sequence[str], layers: Sequence[LayerWeights]) -> str:
    """Layers in few words: all of them, or runs of them in their order."""
    if len(ids) == len(layers):
        return "all layers"
    runs: list[list[str]] = []
    before: LayerId | None = None
    for id in (layer.id for layer in layers):
        if str(id) in ids:
            follows = before is not None and before == LayerId(id.stream, id.layer - 1)
            runs[-1].append(str(id)) if follows else runs.append([str(id)])
            before = id
    told = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"layer{'' if len(ids) == 1 else 's'} {', '.join(told)}"
