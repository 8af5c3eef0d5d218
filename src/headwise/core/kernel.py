"""The compiled CPU kernel: attention and the statistics of its patterns in one walk, where it fits the call.

The kernel is built when headwise is installed and a compiler is there, for AVX-512 and AVX2 at once; which of
the two runs is chosen when it is first used. `HEADWISE_KERNEL=avx512`, `avx2` or `off` forces the choice. It
covers float32 and bfloat16, heads of 16 to 256, and masks that show each query one run of keys. It has no
gradients; `portable` computes the same everywhere else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from headwise.core.scores import Scores
from headwise.core.spans import Span, spans
from headwise.core.streaming import Statistics, Wanted
from headwise.names import ConfigError

__all__ = ["KernelStatus", "UnfitError", "attention", "measure", "refuses", "status"]

VARIABLE = "HEADWISE_KERNEL"
SETS = ("avx512", "avx2")
LEAST_DIM, MOST_DIM, MOST_TOP, MOST_POOL = 16, 256, 32, 256
_MOST_LENGTH = 2**24
"""Positions are counted in float32, which is exact so far."""


@dataclass(frozen=True)
class KernelStatus:
    """Which code computes statistics on this CPU: "avx512", "avx2" or "portable", and why."""

    path: str
    why: str

    @property
    def runs(self) -> bool:
        """Whether the compiled kernel is in use."""
        return self.path in SETS


def status() -> KernelStatus:
    """Which path is in use for calls that fit the kernel, and why.

    Raises:
        ConfigError: HEADWISE_KERNEL names no path.
    """
    return _status(os.environ.get(VARIABLE, ""))


@cache
def _status(forced: str) -> KernelStatus:
    if forced not in ("", "off", *SETS):
        raise ConfigError(
            f"{VARIABLE}={forced!r} is no path; set it to {', '.join(SETS)} or off, or leave it out"
        )
    if forced == "off":
        return KernelStatus("portable", f"{VARIABLE}=off")
    module, why = module_or_why()
    if module is None:
        return KernelStatus("portable", why)
    here = module.sets(True)
    if forced:
        if forced in here:
            return KernelStatus(forced, f"{VARIABLE}={forced}")
        lack = (
            "this CPU has not" if forced in module.sets(False) else "the kernel was built without"
        )
        return KernelStatus("portable", f"{VARIABLE}={forced}, which {lack}")
    if not here:
        return KernelStatus("portable", "this CPU has neither AVX-512 nor AVX2")
    return KernelStatus(here[0], f"this CPU has {here[0]}")


@cache
def module_or_why() -> tuple[Any, str]:
    """The compiled module, or None and why there is none."""
    try:
        return import_module("headwise._kernel"), ""
    except ModuleNotFoundError:
        return (
            None,
            "the kernel is not built: there was no C++ compiler when headwise was installed",
        )
    except ImportError as error:
        return None, f"the kernel cannot be loaded: {error}"


class UnfitError(ConfigError):
    """A call the kernel does not fit, and why."""


def refuses(scores: Scores, v: Tensor, wanted: Wanted) -> str | None:
    """Why the kernel does not fit this call; None where it does."""
    try:
        _fit(scores, v, wanted)
    except UnfitError as why:
        return str(why)
    return None


def _fit(scores: Scores, v: Tensor, wanted: Wanted | None = None) -> Span:
    """The keys each query sees, where the kernel fits the call.

    Raises:
        UnfitError: it does not.
    """
    for why in (_refuses_tensors(scores, v), _refuses_wanted(wanted)):
        if why is not None:
            raise UnfitError(why)
    _, _, queries, keys = scores.shape
    span = spans(scores.mask, queries, keys, scores.query_offset)
    if span is None:
        raise UnfitError(
            "the mask shows some query more than one run of keys, or tells heads apart"
        )
    return span


def _refuses_tensors(scores: Scores, v: Tensor) -> str | None:
    if torch.compiler.is_compiling():
        return "torch.compile traces the call"
    at = status()
    if not at.runs:
        return at.why
    q, k = scores.q, scores.k
    if not (q.device.type == k.device.type == v.device.type == "cpu"):
        return f"the kernel runs on the CPU, q is on {q.device}"
    if q.dtype not in (torch.float32, torch.bfloat16) or not q.dtype == k.dtype == v.dtype:
        return f"the kernel takes float32 and bfloat16, q is {str(q.dtype).removeprefix('torch.')}"
    for name, size in (("head_dim", q.shape[-1]), ("v_dim", v.shape[-1])):
        if not LEAST_DIM <= size <= MOST_DIM:
            return f"the kernel takes a {name} from {LEAST_DIM} to {MOST_DIM}, came {size}"
    if max(q.shape[2], k.shape[2]) + abs(scores.query_offset) > _MOST_LENGTH:
        return f"the call is longer than {_MOST_LENGTH} positions"
    for name, extra in (("bias", scores.bias), ("softcap", scores.softcap), ("sink", scores.sink)):
        if extra is not None:
            return f"the kernel has no {name}"
    return None if _plain(q, k, v) else "the tensors are traced, transformed or hold no memory"


def _refuses_wanted(wanted: Wanted | None) -> str | None:
    if wanted is None:
        return None
    if wanted.functions:
        return "functions of one's own need the whole pattern"
    if wanted.top > MOST_TOP:
        return f"top={wanted.top} is more than {MOST_TOP}"
    if wanted.pool > MOST_POOL:
        return f"pool={wanted.pool} is more than {MOST_POOL}"
    return None


def _plain(*tensors: Tensor) -> bool:
    """Whether these are tensors in memory and nothing watches what is done to them."""
    return (
        all(type(x) in (Tensor, nn.Parameter) and x.layout is torch.strided for x in tensors)
        and not any(x.is_neg() for x in tensors)
        and torch._C._get_tracing_state() is None
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.maybe_current_level() is None
        and torch.autograd.forward_ad._current_level < 0
    )


@torch.no_grad()
def attention(scores: Scores, v: Tensor) -> Tensor:
    """z alone, [batch, head, query, v_dim], a view of memory [batch, query, head, v_dim].

    Raises:
        UnfitError: the kernel does not fit the call.
    """
    call = _Call(scores, v, _fit(scores, v))
    return call.run()


@torch.no_grad()
def measure(scores: Scores, v: Tensor, wanted: Wanted) -> tuple[Tensor, Statistics]:
    """The head outputs and statistics of one call; `streaming.measure` says what they mean.

    Raises:
        UnfitError: the kernel does not fit the call.
    """
    span = _fit(scores, v, wanted)
    _, _, queries, keys = scores.shape
    call = _Call(scores, v, span)
    for name in ("entropy", "distance", "largest"):
        call.result(name, queries)
    _ask(call, wanted, queries, keys)
    z = call.run()
    found = call.results
    found["visible"] = (span[1] - span[0]).long()[:, None]
    if wanted.probes is not None:
        low, high = (end[:, None].long() for end in span)
        found["named_seen"] = ((wanted.probes >= low) & (wanted.probes < high))[:, None]
    if wanted.received:
        found["seen_by"] = _seen_by(span, wanted.query_lengths, keys)[:, None]
    return z, Statistics(**found, path="kernel")  # type: ignore[arg-type]  # `own` stays empty


def _ask(call: _Call, wanted: Wanted, queries: int, keys: int) -> None:
    """Tell the kernel what is wanted beside the numbers of each row."""
    job = call.job
    if wanted.probes is not None:
        count = wanted.probes.shape[-2]
        job.probes = count
        job.probe_batch = call.reads("probe", wanted.probes.long())
        call.result("mass", count, queries)
        call.result("hits", count, queries, dtype=torch.bool)
    if wanted.top:
        job.top, job.apart = wanted.top, min(wanted.apart, 2 * _MOST_LENGTH)
        if wanted.eligible is not None:
            job.eligible_batch = call.reads("eligible", wanted.eligible)
        call.result("top_keys", queries, wanted.top, dtype=torch.long)
        call.result("top_weights", queries, wanted.top)
    if wanted.query_lengths is not None:
        call.reads("query_lengths", wanted.query_lengths.long())
    if wanted.key_lengths is not None:
        call.reads("key_lengths", wanted.key_lengths.long())
    if wanted.pool:
        job.pool = wanted.pool
        call.result("pooled", wanted.pool, wanted.pool)
        call.result("pooled_max", wanted.pool, wanted.pool)
    if wanted.received:
        call.result("received", keys)


class _Call:
    """One call for the kernel, and the tensors whose addresses it carries, which live as long as it does."""

    def __init__(self, scores: Scores, v: Tensor, span: Span) -> None:
        q, k, v = (_rows_in_one_piece(x) for x in (scores.q, scores.k, v))
        self.batch, self.heads, queries, keys = scores.shape
        self.job = job = module_or_why()[0].Job()
        self.kept = [q, k, v, *span]
        self.results: dict[str, Tensor] = {}
        job.batch, job.heads, job.kv_heads = self.batch, self.heads, k.shape[1]
        job.queries, job.keys, job.dim, job.v_dim = queries, keys, q.shape[-1], v.shape[-1]
        job.offset, job.scale, job.bf16 = (
            scores.query_offset,
            scores.scale,
            q.dtype is torch.bfloat16,
        )
        job.threads = torch.get_num_threads()
        job.set_q(q.data_ptr(), *q.stride()[:3])
        job.set_k(k.data_ptr(), *k.stride()[:3])
        job.set_v(v.data_ptr(), *v.stride()[:3])
        job.lo, job.hi = span[0].data_ptr(), span[1].data_ptr()
        job.span_batch = queries if span[0].shape[0] > 1 else 0
        self.z = q.new_empty(self.batch, queries, self.heads, v.shape[-1])
        job.z = self.z.data_ptr()

    def reads(self, name: str, x: Tensor) -> int:
        """Give the kernel a tensor to read; its batch stride, 0 where one is for all."""
        x = x.cpu().contiguous()
        self.kept.append(x)
        setattr(self.job, name, x.data_ptr())
        return x[0].numel() if x.shape[0] > 1 else 0

    def result(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        """Make a tensor [batch, head, *shape] for the kernel to write."""
        made = self.z.new_empty(self.batch, self.heads, *shape, dtype=dtype)
        self.results[name] = made
        setattr(self.job, name, made.data_ptr())

    def run(self) -> Tensor:
        """Let the kernel work; z [batch, head, query, v_dim]."""
        module_or_why()[0].run(self.job, status().path)
        return self.z.transpose(1, 2)


def _rows_in_one_piece(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _seen_by(span: Span, real: Tensor | None, keys: int) -> Tensor:
    """How many real queries see each key, [batch or 1, key]: +1 where a run begins, -1 after its end."""
    low, high = (x.long() for x in span)
    one = torch.ones_like(low)
    if real is not None:
        one = (torch.arange(low.shape[1], device="cpu") < real.cpu()[:, None]).long()
    low, high, one = torch.broadcast_tensors(low, high, one)
    steps: Tensor = low.new_zeros(low.shape[0], keys + 1)
    steps.scatter_add_(1, low, one).scatter_add_(1, high, -one)
    return steps.cumsum(1)[:, :keys]
