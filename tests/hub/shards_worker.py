"""One of two processes that share the heads of some tiny models: looks, gates and writes down what it saw."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import transformers
from tiny_models import inputs_of

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.hub.shards import global_heads


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        model = transformers.AutoModelForCausalLM.from_pretrained(path, tp_plan="auto")
        loaded, inputs = hw.load(model), inputs_of(path.name)
        (record,) = hw.look(loaded, inputs)
        seen = {str(head): record.weights(head) for head in record.heads()}
        layer = loaded.anatomy.layers[1].module
        ids: list[int] = []
        z: list[torch.Tensor] = []

        def observe(scores, v, out, layer=layer, ids=ids, z=z):
            ids.extend(global_heads(layer, scores.shape[1]))
            z.append(out)

        with loaded.open(), tapped({layer: Tap((observe,))}):
            loaded.run(inputs)
        table = hw.profile(loaded, torch.cat([inputs["input_ids"]] * 2), top=2, pool=3, positions=4)
        seen |= {f"table {variable}": values.values for variable, values in table.items()}
        seen["kv_group"] = table.kv_group.values
        gate = torch.linspace(-1, 1, 6)
        with loaded.open(), tapped({layer: Tap(gate=gate)}):
            gated = loaded.run({**inputs, "logits_to_keep": 0}).logits
        np.savez(
            folder / f"{path.name}.{rank}.npz",
            ids=np.array(ids),
            z=z[0].numpy(),
            gated=gated.numpy(),
            verified=record.verified,
            **seen,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
