"""One of two processes that share the heads of some tiny models: ranks them and writes down what it found."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import transformers

import headwise as hw

METHODS = ("taylor", "mean-fisher", "leave-one-out")
ROWS = torch.randint(3, 40, (3, 9), generator=torch.Generator().manual_seed(1))


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        module = transformers.AutoModelForCausalLM.from_pretrained(path, tp_plan="auto")
        model = hw.load(module, quiet=True)
        found = {
            method: hw.importance(model, ROWS, method, quiet=True)["importance"].values  # type: ignore[arg-type]
            for method in METHODS
        }
        np.savez(folder / f"{path.name}.{dist.get_rank()}.npz", **found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
