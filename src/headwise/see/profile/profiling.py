"""profile: a corpus through a Profiler to the table, shared out where there are several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import TYPE_CHECKING

from headwise.core.streaming import PatternFunction
from headwise.hub.load import Model
from headwise.hub.shards import is_split
from headwise.see.probes import BUILT_IN, Probe
from headwise.see.profile.profiler import Profiler
from headwise.see.profile.running import Run, Word, united
from headwise.see.profile.together import Team, gathered
from headwise.see.texts.given import Texts

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["profile"]

Progress = Callable[[int, "int | None", int], None]


def profile(
    model: Model,
    texts: Texts,
    *,
    target: str | Iterable[str] | None = None,
    probes: Iterable[Probe | str] = BUILT_IN,
    functions: Mapping[str, PatternFunction] | None = None,
    top: int = 8,
    pool: int = 32,
    positions: int = 64,
    context: int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Statistics of every head over a corpus, as means with intervals and counts.

    Where torch.distributed is initialised, the processes share the work: each calls this with the same texts, and
    each is given the same table. Where a tensor parallel plan splits the model itself, all read every text.

    Args:
        model: from `load`.
        texts: a text; any iterable of texts, read as it is needed, empty ones left out and counted; a batch by
            name ({"input_ids": ...}, or {"src": vectors} for a module that reads vectors) or an iterable of such;
            or rows of ids, [batch, position] or a list of rows (tensors or lists of ints) of any lengths.
        target: for an encoder-decoder given texts, what the decoder reads for each; None = what it writes itself.
        probes, functions, top, pool, positions: what to ask of every head (`Profiler`).
        context: the most tokens of a piece of a text; None = what the model reads at most. A longer text is cut
            (`attrs["splitting"]`).
        progress: called as progress(texts done, texts in all or None, tokens done) after each batch.

    Returns:
        Dataset over (layer, head). For each of entropy (nats), evenness, distance (tokens), largest, top, every
        probe (mean mass; `previous_hits` the share of hits), every function of one's own, result_norm and
        result_share: the mean, with `_low` and `_high` its 95 % interval over texts (the pieces of a cut text are
        one; NaN with fewer than 5 texts) and `_count` the number of cases. Beside these `received` [.., position]
        and `pooled`, `pooled_max` [.., query_cell, key_cell]. The coordinate `kv_group` is the KV head a query
        head reads; each variable's long_name says what it is, `units` its unit; attrs hold the model, what was
        read and asked, the rules in words, and `verified`, the largest difference of recomputed from actual head
        outputs.

    Raises:
        TextError: no text, one without tokens, texts mixed with other things, a row longer than the model reads.
        ConfigError: settings that do not go together.
        ModelError: a model that cannot be looked into, or whose heads give NaN.
    """
    profiler = Profiler(
        model,
        probes=probes,
        functions=functions,
        top=top,
        pool=pool,
        positions=positions,
        context=context,
    )
    total = 1 if isinstance(texts, str) else len(texts) if isinstance(texts, Sized) else None
    team = Team() if is_split(model.module) else gathered()

    def tell() -> Word:
        if progress is not None:
            progress(profiler.texts, total, profiler.tokens)
        return Word.GOING

    run = Run(profiler, team, word=tell)
    run.through(profiler.read(texts, target))
    if team.size > 1:
        profiler, _ = united(team, profiler.state(), run.done, frozenset(), profiler.empty)
    return profiler.dataset()
