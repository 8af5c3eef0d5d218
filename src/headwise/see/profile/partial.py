"""A run that was stopped, on disk beside its result: the sums, and enough to go on exactly where it was.

One safetensors file, `heads.nc.partial`. What it was made with stands in it, and a chain of hashes over the
texts that were read, so that it never goes on with another model, other settings or other texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from headwise.files import replacing
from headwise.hub.load import Model
from headwise.names import ModelError, TextError

__all__ = [
    "OtherTextsError",
    "Partial",
    "Read",
    "ReadTexts",
    "check_made_with",
    "load_partial",
    "partial_of",
    "save_partial",
    "weights_of",
]

State = Mapping[str, "np.ndarray | str"]

_VERSION = 2
_SAMPLE = 64
"""How many numbers of each weight tell one model from another."""


class OtherTextsError(ModelError):
    """The texts are not those of the run to go on with."""


@dataclass(frozen=True)
class Read:
    """How far texts were read: how many, a chain of hashes over them, and whether that was all."""

    count: int = 0
    digest: str = ""
    ended: bool = False


@dataclass(frozen=True, eq=False)
class Partial:
    """What was done of a run.

    Attributes:
        made_with: the settings and the model, by what a person calls them.
        batches: which batches are in the sums.
        reads: how far texts (and targets) were read for them.
        state: the sums.
        breaks: after how many texts the corpus broke off, which closed a batch there.
    """

    made_with: Mapping[str, str]
    batches: frozenset[int]
    reads: tuple[Read, ...]
    state: State
    breaks: tuple[int, ...] = ()


def partial_of(result: Path) -> Path:
    """Where the rest of a run waits: beside its result."""
    return result.with_name(f"{result.name}.partial")


def save_partial(partial: Partial, path: Path) -> None:
    """Write it so that a failure leaves an older one as it was.

    Raises:
        OutputError: the file cannot be written.
    """
    arrays = {
        k: np.ascontiguousarray(v) for k, v in partial.state.items() if not isinstance(v, str)
    }
    shapes = {name: list(np.shape(partial.state[name])) for name in arrays}  # 0-d has become 1-d
    whole = 0  # batches are done nearly in order: a number, and the few beyond it
    while whole in partial.batches:
        whole += 1
    header = {
        "headwise_partial": str(_VERSION),
        "made_with": json.dumps(dict(partial.made_with)),
        "batches": json.dumps([whole, *sorted(b for b in partial.batches if b > whole)]),
        "reads": json.dumps([asdict(read) for read in partial.reads]),
        "breaks": json.dumps(partial.breaks),
        "shapes": json.dumps(shapes),
        "words": json.dumps({k: v for k, v in partial.state.items() if isinstance(v, str)}),
    }
    data = save(arrays, metadata=header)
    with replacing(path, "what is done of the run") as place:
        place.write_bytes(data)


def load_partial(path: Path) -> Partial | None:
    """Read what `save_partial` wrote; None where there is nothing.

    Raises:
        ModelError: the file is not one of these, or damaged.
    """
    if not path.exists():
        return None
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header.get("headwise_partial") != str(_VERSION):
            raise ValueError("it is of another version of headwise")
        shapes = json.loads(header["shapes"])
        state: dict[str, Any] = {n: a.reshape(shapes[n]) for n, a in arrays.items()}
        state |= json.loads(header["words"])
        whole, *beyond = json.loads(header["batches"])
        batches = frozenset([*range(whole), *beyond])
        reads = tuple(Read(**read) for read in json.loads(header["reads"]))
        breaks = tuple(json.loads(header["breaks"]))
        return Partial(json.loads(header["made_with"]), batches, reads, state, breaks)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelError(
            f"{path} cannot be read ({error}); remove it and start from the beginning"
        ) from None


def check_made_with(partial: Partial, made_with: Mapping[str, str], path: Path) -> None:
    """Refuse to go on with another model or other settings.

    Raises:
        ModelError: naming the first that differs.
    """
    for name in {**partial.made_with, **made_with}:
        was, now = partial.made_with.get(name, "none"), made_with.get(name, "none")
        if was != now:
            raise ModelError(
                f"{path} cannot go on: it was made with {name} {was}, this run has {now}; "
                "ask for the same as before, or remove it and start from the beginning"
            )


def weights_of(model: Model) -> str:
    """A short hash that tells models apart: names, shapes, dtypes and some numbers of every weight."""
    found = hashlib.sha256()
    for name, weight in sorted(model.module.state_dict().items()):
        if not isinstance(weight, torch.Tensor):
            continue
        found.update(f"{name} {list(weight.shape)} {weight.dtype};".encode())
        flat = weight.detach().reshape(-1)
        if flat.is_meta or not flat.numel():
            continue
        at = torch.linspace(0, flat.numel() - 1, min(_SAMPLE, flat.numel()), dtype=torch.float64)
        found.update(flat[at.long().to(flat.device)].double().cpu().numpy().tobytes())
    return found.hexdigest()[:12]


@dataclass
class ReadTexts:
    """Texts on their way to a model: ends at a fault, which it keeps, and follows what was read.

    Attributes:
        texts: where they come from.
        expected: what an earlier run had read, which these must begin with.
        name: what they are, as the error calls them.
        read: what was read.
        fault: why there are no more, where that is a fault.
    """

    texts: Iterable[str]
    expected: Read | None = None
    name: str = "texts"
    read: Read = Read()
    fault: TextError | None = None

    def __iter__(self) -> Iterator[str]:
        texts = iter(self.texts)
        while (text := self._next(texts)) is not None:
            digest = f"{self.read.digest}{len(text)} {text}".encode()
            self.read = Read(self.read.count + 1, hashlib.sha256(digest).hexdigest())
            self._compare()
            yield text
        if self.fault is None:
            self.read = replace(self.read, ended=True)
            self._compare()

    def _next(self, texts: Iterator[str]) -> str | None:
        try:
            return next(texts, None)
        except TextError as fault:
            self.fault = fault
            return None

    def _compare(self) -> None:
        """Refuse to go on with other texts than before."""
        if self.expected is None:
            return
        was, now = self.expected, self.read
        more = was.ended and now.count > was.count
        fewer = now.ended and now.count < was.count
        if more or fewer or (now.count == was.count and now.digest != was.digest):
            how = "are more" if more else "are fewer" if fewer else "are others"
            raise OtherTextsError(
                f"the {self.name} {how} than in the run to go on with, which had read {was.count}; give the "
                "same, or start from the beginning without what is saved"
            )
