"""Whisper as CTranslate2 keeps it (model.bin version 6), written as transformers' Whisper.

model.bin, little endian: version, specification, revision; then variables (name, dimensions,
type, bytes) and aliases. Query, key and value weights lie packed in one matrix; a key bias, which
Whisper does not have, is stored as zeros.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headwise.names import ModelError

if TYPE_CHECKING:
    from transformers import WhisperConfig

__all__ = ["convert", "read"]

_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_NORM = {"weight": "gamma", "bias": "beta"}
_CONTEXT = 448
_IDS: dict[str, Any] = {  # of the English-only vocabulary
    "pad_token_id": 50256,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
    "decoder_start_token_id": 50257,
}
# CTranslate2's name of a block's part: the layer norm, then the packed linear layers in order.
_SELF = ("self_attention", "self_attn", (("q_proj", "k_proj", "v_proj"), ("out_proj",)))
_CROSS = ("attention", "encoder_attn", (("q_proj",), ("k_proj", "v_proj"), ("out_proj",)))

Weights = dict[str, NDArray[Any]]


def read(source: Path) -> Weights:
    """The variables of a CTranslate2 model.bin by name, as stored.

    Raises:
        ModelError: the file is of another version, or ends early.
    """
    try:
        with source.open("rb") as file:
            (version,) = _take(file, "I")
            if version != 6:
                raise ModelError(f"{source} is of CTranslate2 version {version}; only 6 is read")
            _text(file)
            _take(file, "I")
            weights = dict(_variables(file))
            for _ in range(_take(file, "I")[0]):
                alias = _text(file)
                weights[alias] = weights[_text(file)]
            return weights
    except (struct.error, ValueError, KeyError) as error:
        raise ModelError(f"{source} is no complete CTranslate2 model.bin ({error})") from error


def _take(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))


def _text(file: BinaryIO) -> str:
    return file.read(_take(file, "H")[0])[:-1].decode()


def _variables(file: BinaryIO) -> Iterator[tuple[str, NDArray[Any]]]:
    for _ in range(_take(file, "I")[0]):
        name = _text(file)
        shape = _take(file, f"{_take(file, 'B')[0]}I")
        kind, size = _take(file, "BI")
        yield name, np.frombuffer(file.read(size), _TYPES[kind]).reshape(shape)


def convert(source: Path, target: Path) -> None:
    """Convert the folder `source` (model.bin, config.json, tokenizer.json)."""
    import torch
    from transformers import (
        GenerationConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    stored = read(source / "model.bin")
    config = _config(stored)
    settings = json.loads((source / "config.json").read_text(encoding="utf-8"))
    model = WhisperForConditionalGeneration(config)
    weights = {name: torch.from_numpy(a.astype(np.float32)) for name, a in _rename(stored, config)}
    model.load_state_dict(weights, strict=True)
    model.generation_config = GenerationConfig.from_dict(_IDS | _generation(settings))
    model.save_pretrained(target)

    mels = config.num_mel_bins
    extractor = WhisperFeatureExtractor(mels)  # type: ignore[no-untyped-call]
    extractor.save_pretrained(target)
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    end = "<|endoftext|>"
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _CONTEXT,
        **dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), end),
    }
    (target / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2), encoding="utf-8")


def _config(stored: Weights) -> WhisperConfig:
    from transformers import WhisperConfig

    def layers(side: str) -> int:
        pattern = re.compile(rf"{side}/layer_\d+/")
        return len({match[0] for match in map(pattern.match, stored) if match})

    vocab_size, d_model = stored["decoder/embeddings/weight"].shape
    return WhisperConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        encoder_layers=layers("encoder"),
        decoder_layers=layers("decoder"),
        encoder_attention_heads=int(stored["encoder/num_heads"]),
        decoder_attention_heads=int(stored["decoder/num_heads"]),
        encoder_ffn_dim=stored["encoder/layer_0/ffn/linear_0/weight"].shape[0],
        decoder_ffn_dim=stored["decoder/layer_0/ffn/linear_0/weight"].shape[0],
        num_mel_bins=stored["encoder/conv1/weight"].shape[1],
        max_source_positions=stored["encoder/position_encodings/encodings"].shape[0],
        max_target_positions=stored["decoder/position_encodings/encodings"].shape[0],
        **_IDS,
    )


def _generation(settings: dict[str, Any]) -> dict[str, Any]:
    """What generation needs to know of the English-only vocabulary."""
    return {
        "is_multilingual": False,
        "no_timestamps_token_id": 50362,
        "prev_sot_token_id": 50360,
        "return_timestamps": False,
        "max_initial_timestamp_index": 50,
        "max_length": _CONTEXT,
        "suppress_tokens": settings["suppress_ids"],
        "begin_suppress_tokens": settings["suppress_ids_begin"],
        "alignment_heads": settings["alignment_heads"],
    }


def _rename(stored: Weights, config: WhisperConfig) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every weight under transformers' name."""
    for conv in ("conv1", "conv2"):
        for kind in ("weight", "bias"):
            yield f"model.encoder.{conv}.{kind}", stored[f"encoder/{conv}/{kind}"]
    embeddings = stored["decoder/embeddings/weight"]
    yield "model.decoder.embed_tokens.weight", embeddings
    yield "proj_out.weight", embeddings
    counts = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for side, count in counts.items():
        prefix = f"model.{side}."
        yield prefix + "embed_positions.weight", stored[f"{side}/position_encodings/encodings"]
        yield from _norm(stored, f"{side}/layer_norm", prefix + "layer_norm")
        for layer in range(count):
            blocks = (_SELF,) if side == "encoder" else (_SELF, _CROSS)
            old, new = f"{side}/layer_{layer}/", f"{prefix}layers.{layer}."
            for theirs, ours, packed in blocks:
                yield from _attention(stored, old + theirs, new + ours, packed)
            yield from _norm(stored, old + "ffn/layer_norm", new + "final_layer_norm")
            for index, name in enumerate(("fc1", "fc2")):
                for kind in ("weight", "bias"):
                    yield f"{new}{name}.{kind}", stored[f"{old}ffn/linear_{index}/{kind}"]


def _norm(stored: Weights, old: str, new: str) -> Iterator[tuple[str, NDArray[Any]]]:
    for kind, theirs in _NORM.items():
        yield f"{new}.{kind}", stored[f"{old}/{theirs}"]


def _attention(
    stored: Weights, old: str, new: str, packed: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[str, NDArray[Any]]]:
    yield from _norm(stored, f"{old}/layer_norm", f"{new}_layer_norm")
    for index, names in enumerate(packed):
        for kind in ("weight", "bias"):
            parts = np.split(stored[f"{old}/linear_{index}/{kind}"], len(names))
            for name, part in zip(names, parts, strict=True):
                if (name, kind) != ("k_proj", "bias"):
                    yield f"{new}.{name}.{kind}", part
