"""Leak tests side by side: the audit and pangolinn's own test cases, on the same modules.

    python benchmarks/leak_tests.py

Each module is built anew for each seed and given to both: to pangolinn's CausalTestCase or
EncoderPaddingTestCase through a wrapper as its documentation has it, run as a test runner does, and to `hw.audit`.
Writes results/leak_tests.json, and (leak_pages.py) its tables into docs/*/pangolinn.md. Not timed.
"""

from __future__ import annotations

import json
import platform
import unittest
from collections import Counter
from importlib.metadata import version
from typing import Any

import torch
from pangolinn import seq2seq
from torch import Tensor, nn

import headwise as hw
from leak_cases import FAULTS, SOUND, Case
from leak_modules import VOCAB
from leak_pages import RESULTS, write

SEEDS = 5
TESTS = {
    False: ("test_gradient_not_flowing_from_future", "test_not_looking_at_the_future"),
    True: ("test_padding_area_is_zero", "test_batch_size_does_not_matter"),
}
"""pangolinn's two tests of a decoder, and of an encoder."""


def built(case: Case, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return case.build().eval()


def by_pangolinn(case: Case, seed: int) -> list[str]:
    """What each of its two tests says: "passes", "fails" (it accuses) or "error" (it cannot run)."""

    class Wrapper(seq2seq.PangolinnSeq2SeqModuleWrapper):
        num_input_channels = 1 if case.ids else case.width
        num_output_channels = VOCAB if case.ids else case.width
        input_dtype = torch.long if case.ids else torch.float
        max_value_allowed = VOCAB

        def build_module(self) -> nn.Module:
            return built(case, seed)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            if case.encoder:
                return self._module(x, lengths)
            return self._module(x.squeeze(-1) if case.ids else x)

    base = seq2seq.EncoderPaddingTestCase if case.encoder else seq2seq.CausalTestCase
    suite = type("Suite", (base,), {"module_wrapper_class": Wrapper})
    return [_run(suite(name)) for name in TESTS[case.encoder]]


def _run(test: unittest.TestCase) -> str:
    result = unittest.TestResult()
    test.run(result)
    return "error" if result.errors else "fails" if result.failures else "passes"


def by_audit(case: Case, seed: int) -> tuple[str, list[str]]:
    """Whether it is clean, leaks, differs with the way it is run, or could not be told; and where."""
    asked = dict(case.audit)
    torch.manual_seed(seed)
    shape = 1, asked.pop("length", 20)
    inputs = torch.randint(VOCAB, shape) if case.ids else torch.randn(*shape, case.width)
    found = hw.audit(built(case, seed), inputs=inputs, seed=seed, **asked)
    where = [f"{o.title}: {o.place}" if o.place else o.title for o in found.leaks]
    said = found.leaks[0].verdict if found.leaks else "clean" if found.clean else "unknown"
    return {"leak": "leaks"}.get(said, said), where


def measured(case: Case) -> dict[str, Any]:
    theirs: list[Counter[str]] = [Counter(), Counter()]
    ours: Counter[str] = Counter()
    where: Counter[str] = Counter()
    for seed in range(SEEDS):
        for counter, said in zip(theirs, by_pangolinn(case, seed), strict=True):
            counter[said] += 1
        verdict, places = by_audit(case, seed)
        ours[verdict] += 1
        where.update(places)
    print(case.name, *map(dict, theirs), dict(ours), dict(where), flush=True)
    return {
        "name": case.name,
        "sound": case.sound,
        "encoder": case.encoder,
        "pangolinn": [dict(counter) for counter in theirs],
        "audit": dict(ours),
        "where": dict(where.most_common()),
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = [measured(case) for case in (*FAULTS, *SOUND)]
    versions = {name: version(name) for name in ("headwise", "pangolinn", "torch")}
    held = {"versions": versions, "python": platform.python_version(), "seeds": SEEDS, "rows": rows}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(held, indent=1) + "\n")
    write(held)


if __name__ == "__main__":
    main()
