"""Run in a process of its own: load each folder named, and write what its model answers to inputs.safetensors.

python save_reloading.py headwise FOLDER...      with headwise.load
python save_reloading.py transformers FOLDER...  with transformers, and headwise forbidden
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


class Forbidden(MetaPathFinder):
    """No headwise here."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] == "headwise":
            raise ImportError(name)


def by_headwise(folder: Path) -> None:
    from save_families import outputs

    import headwise as hw

    inputs = load_file(folder / "inputs.safetensors")
    save_file(outputs(hw.load(folder / "model", quiet=True), inputs), folder / "found.safetensors")


def by_transformers(folder: Path) -> None:
    import transformers

    names = transformers.AutoConfig.from_pretrained(folder / "model").architectures
    model, report = getattr(transformers, names[0]).from_pretrained(
        folder / "model", output_loading_info=True
    )
    assert not any(report.values()), report
    inputs = load_file(folder / "inputs.safetensors")
    how = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "num_beams": 1}
    with torch.no_grad():
        found = {"answer": model(**inputs).logits.contiguous()}
        found["written"] = model.generate(**inputs, **how)
    assert "headwise" not in sys.modules
    save_file(found, folder / "found.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    how, *folders = sys.argv[1:]
    if how == "transformers":
        sys.meta_path.insert(0, Forbidden())
    for name in folders:
        (by_headwise if how == "headwise" else by_transformers)(Path(name))
