"""All built-in statistics of every head against the plain forward pass of the same model.

The reference is the model of transformers with scaled_dot_product_attention and no logits. headwise runs the very
same module through `Profiler.add`, with every built-in probe, the eight strongest keys, the pooled map, mass
received, norms and shares of results: once with the compiled kernel, once in plain torch. Beside them stand what
people do today: eager attention with whole patterns and the same statistics, and TransformerLens' detector of
three kinds of heads (patterns cached once for all three; it makes the logits too).

    python benchmarks/heads.py [--threads 1] [--seconds 60] [--only smollm2]

HEADWISE_CACHE says where the converted default model lies; without one, the first run fetches it.
"""

from __future__ import annotations

import argparse
import copy
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import naive
from harness import Plan, Row, compare, machine, timed, write
from headwise.hub.get import get
from headwise.hub.load import Model, load
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import from_inputs

ROOT = Path(__file__).parent.parent
TEXTS = ("LICENSE", "README.md", "CONTRIBUTING.md", "docs/en/models.md", "benchmarks/README.md")
TOP, POOL = 8, 32
KERNEL, PORTABLE, EAGER, LENS = (
    "headwise, kernel",
    "headwise, portable",
    "eager + naive statistics",
    "TransformerLens, 3 scores",
)
BAR = 1.05
PORTABLE_BARS = {"gpt2, n 1024": 1.3, "gpt2, n 4096": 1.7}
MIB = 2**20
MOST_MIB = 150.0
ABOUT = (
    "# All statistics of every head against the plain forward pass\n\n"
    "Reference: the same module of transformers with `scaled_dot_product_attention`, batch 1, float32, no logits. "
    "`gpt2` and `llama` have random weights, `smollm2` trained ones and real text."
)
MEMORY = (
    "# Memory of all statistics\n\n"
    "Not a ratio: MiB of a process's peak beyond that of one that runs the plain forward pass (whose peak stands "
    "in place of ms), both from the system's count of resident memory."
)


@dataclass(frozen=True)
class Case:
    """A model, a text's ids, and which contenders are worth their time there."""

    name: str
    length: int
    module: nn.Module
    ids: Tensor
    eager: nn.Module | None = None
    lens: nn.Module | None = None


def gpt2(length: int) -> Case:
    """GPT-2 small's shape: 12 layers x 12 heads of 64, d_model 768."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_positions=8192)
    whole = GPT2LMHeadModel(config).eval()
    eager = copy.deepcopy(whole.transformer)
    eager.set_attn_implementation("eager")
    ids = torch.randint(config.vocab_size, (1, length))
    return Case(f"gpt2, n {length}", length, whole.transformer, ids, eager, lens_of(whole, config))


def llama(length: int) -> Case:
    """A Llama with grouped-query attention: SmolLM2's width, 9 query heads on 3 KV heads, 4 layers."""
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=4,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=length,
        vocab_size=49152,
    )
    ids = torch.randint(config.vocab_size, (1, length))
    return Case(f"llama GQA, n {length}", length, LlamaModel(config).eval(), ids)


def smollm2(length: int) -> Case:
    """SmolLM2 with its trained weights on the texts of this repository."""
    from tokenizers import Tokenizer
    from transformers import LlamaModel

    folder = get("smollm2")
    module = LlamaModel.from_pretrained(folder, dtype=torch.float32).eval()
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in TEXTS)
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids[:length]
    assert len(ids) == length
    return Case(f"smollm2, n {length}", length, module, torch.tensor([ids]))


CASES: tuple[tuple[Callable[[int], Case], int], ...] = (
    (gpt2, 256),
    (gpt2, 1024),
    (gpt2, 4096),
    (smollm2, 256),
    (smollm2, 1024),
    (smollm2, 4096),
    (llama, 16384),
)


def lens_of(whole: nn.Module, config: object) -> nn.Module | None:
    """A copy of the model in TransformerLens, None where it is not installed."""
    try:
        from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
    except ImportError:
        return None
    return build_bridge_from_module(copy.deepcopy(whole), "GPT2LMHeadModel", hf_config=config)


def plain(case: Case) -> None:
    """The reference."""
    with torch.no_grad():
        case.module(input_ids=case.ids, use_cache=False)


def profiled(case: Case) -> Callable[[], object]:
    """One more batch of a profile; the first, which also checks the model's own attention, is done."""
    model: Model = load(case.module)
    batch = from_inputs(model, {"input_ids": case.ids})
    profiler = Profiler(model, top=TOP, pool=POOL)
    profiler.add(batch)
    return lambda: profiler.add(batch)


def eager(case: Case) -> None:
    """Today's way: eager attention that returns all patterns, then the statistics of each layer."""
    assert case.eager is not None
    at = torch.arange(case.length)
    probes = torch.stack([at - 1, at, torch.zeros_like(at)])
    with torch.no_grad():
        out = case.eager(input_ids=case.ids, use_cache=False, output_attentions=True)
        naive.statistics_of(out.attentions, probes, TOP, POOL)


def lens(case: Case) -> None:
    """TransformerLens' three detectors on one cache that keeps the patterns alone."""
    from transformer_lens.head_detector import detect_head

    bridge = case.lens
    assert bridge is not None
    object.__setattr__(bridge, "to_tokens", lambda _: case.ids)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(
            case.ids,
            remove_batch_dim=True,
            names_filter=lambda name: name.endswith("hook_pattern"),
        )
        for kind in ("previous_token_head", "duplicate_token_head", "induction_head"):
            detect_head(bridge, "the ids above", kind, cache=cache)


@contextmanager
def forced(path: str) -> Iterator[None]:
    """With HEADWISE_KERNEL set to `path` for the time of the `with`."""
    before = os.environ.get("HEADWISE_KERNEL")
    os.environ["HEADWISE_KERNEL"] = path
    try:
        yield
    finally:
        os.environ.pop("HEADWISE_KERNEL")
        if before is not None:
            os.environ["HEADWISE_KERNEL"] = before


def in_torch(call: Callable[[], object]) -> Callable[[], object]:
    """The same call without the compiled kernel."""

    def without() -> None:
        with forced("off"):
            call()

    return without


def check(case: Case) -> float:
    """Largest difference between kernel, portable and naive statistics of this case, entropy in nats."""
    found = []
    for path in ("", "off"):
        with forced(path) if path else forced(""):
            model = load(case.module)
            profiler = Profiler(model, top=TOP, pool=POOL)
            profiler.add(from_inputs(model, {"input_ids": case.ids}))
            found.append(profiler.dataset())
    kernel, portable = found
    worst = max(
        float(np.nanmax(np.abs(kernel[name].values - portable[name].values)))
        for name in ("entropy", "largest", "previous", "pooled")
    )
    assert worst < 1e-4, f"kernel and portable statistics differ by {worst} on {case.name}"
    return worst


def measured(case: Case, threads: int, seconds: float) -> list[Row]:
    """The rows of one case."""
    ours = profiled(case)
    calls: dict[str, Callable[[], object]] = {
        "plain": lambda: plain(case),
        KERNEL: ours,
        PORTABLE: in_torch(ours),
    }
    if case.eager is not None:
        calls[EAGER] = lambda: eager(case)
    if case.lens is not None and case.length <= 1024:  # beyond, minutes a round
        calls[LENS] = lambda: lens(case)
    slow = case.length >= 4096  # half a minute a round and more: fewer, and no warming up
    if case.length > 4096:
        del calls[PORTABLE]
    plan = Plan(seconds=seconds, least=3, warm=int(not slow), rare=(EAGER, LENS))
    runs = {name: timed(call, threads) for name, call in calls.items()}
    bars = {KERNEL: BAR}
    if case.name in PORTABLE_BARS:
        bars[PORTABLE] = PORTABLE_BARS[case.name]
    return compare(case.name, runs, "plain", bars, plan)


def memory(make: str, length: int, threads: int) -> Row:
    """Peak of a process that profiles, beyond that of one that runs the plain forward pass."""
    peaks = {what: _peak(what, make, length, threads) for what in ("plain", "profile")}
    extra = peaks["profile"] - peaks["plain"]
    return Row(
        f"memory, {make}, n {length}",
        KERNEL,
        *[extra] * 5,
        1,
        peaks["plain"],
        MOST_MIB,
    )


def _peak(what: str, make: str, length: int, threads: int) -> float:
    here = [sys.executable, __file__, "--peak", what, "--make", make]
    arguments = ["--length", str(length), "--threads", str(threads)]
    done = subprocess.run([*here, *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def peak(what: str, make: str, length: int) -> None:
    """Print the peak of this process after one pass, in MiB."""
    case = {"gpt2": gpt2, "llama": llama, "smollm2": smollm2}[make](length)
    if what == "plain":
        plain(case)
    else:
        model = load(case.module)
        Profiler(model, top=TOP, pool=POOL).add(from_inputs(model, {"input_ids": case.ids}))
    status = (
        Path("/proc/self/status").read_text().split("VmHWM:")[1]
    )  # maxrss would count the parent's too
    print(int(status.split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="per case")
    parser.add_argument(
        "--only", default="", help="cases that begin so; writes nothing but with --into"
    )
    parser.add_argument(
        "--into", default="", help="name of the results to write; heads where all is run"
    )
    parser.add_argument("--peak", choices=("plain", "profile"), help=argparse.SUPPRESS)
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak:
        return peak(options.peak, options.make, options.length)
    rows: list[Row] = []
    worst = 0.0
    for make, length in CASES:
        if not f"{make.__name__}, n {length}".startswith(options.only):
            continue
        case = make(length)
        if length <= 1024:
            worst = max(worst, check(case))
        rows += measured(case, options.threads, options.seconds)
        print(*(f"{r.case} {r.contender} {r.ratio:.3f} {r.verdict}" for r in rows[-6:]), sep="\n")
        del case
    if options.only in ("", "memory"):
        row = memory("llama", 16384, options.threads)
        write("heads-memory", MEMORY, [row], machine(options.threads))
    if not rows or (options.only and not options.into):
        return None
    about = f"{ABOUT} Largest difference between kernel and portable statistics: {worst:.1e}."
    name = "heads" if options.threads == 1 else f"heads-{options.threads}-threads"
    return write(options.into or name, about, rows, machine(options.threads))


if __name__ == "__main__":
    main()
