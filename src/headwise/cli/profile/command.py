"""headwise profile: what every head does over a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import (
    check_out,
    corpora,
    corpus_options,
    device_options,
    files_argument,
    model_option,
    out_option,
    probe_option,
)
from headwise.see.texts.corpus import Corpus


@dataclass(frozen=True)
class ProfileRequest:
    """What was asked for on the command line."""

    corpus: Corpus
    targets: Corpus | None
    model: str
    probes: tuple[str, ...]
    context: int | None
    pool: int
    out: Path | None
    resume: bool
    device: str | None
    dtype: str | None


@click.command(short_help="What every head does over a corpus.")
@files_argument()
@model_option
@out_option("Write the results: .nc (everything), .json, .csv or .parquet (one row per head).")
@corpus_options
@probe_option
@click.option(
    "--pool",
    default=32,
    show_default=True,
    type=click.IntRange(0, 256),
    help="Cells per side of the pooled maps; 0 leaves them out.",
)
@click.option("--resume", is_flag=True, help="Go on where a run with this --out was stopped.")
@device_options
def profile(
    files: tuple[Path, ...],
    model: str,
    out: Path | None,
    lines: bool,
    field: str | None,
    limit: int | None,
    target: Path | None,
    probes: tuple[str, ...],
    context: int | None,
    pool: int,
    resume: bool,
    device: str | None,
    dtype: str | None,
) -> int:
    """Profile every head over the texts in FILES: what it looks at, how far, how sharply, and what it adds.

    Plain text files are one document each, without its last line end (or, with --lines, one text per line);
    .jsonl and .ndjson hold one object per line; of .conllu the sentences are read; .gz is unpacked; - is the
    standard input.

    Ctrl-C stops after the batch that runs and keeps what is done, in --out and beside it; --resume goes on from
    there. A run that is killed keeps all but about its last minute and the batch that ran: batches done are
    saved beside --out after 10 seconds, then every minute. Several processes: torchrun --nproc-per-node 2
    -m headwise profile ...

    \b
    headwise profile story.txt
    headwise profile corpus.jsonl --field body -o heads.nc
    headwise profile en_pud.conllu --probe previous --probe induction -o heads.csv
    """
    corpus, targets = corpora(files, lines, field, limit, target)
    request = ProfileRequest(
        corpus, targets, model, probes, context, pool, out, resume, device, dtype
    )
    _check(request)
    from headwise.cli.profile.running import run

    return run(request)


def _check(request: ProfileRequest) -> None:
    """Refuse what cannot be read or written before a model is loaded."""
    from headwise.see.profile.files import KINDS
    from headwise.see.profile.together import several

    if several() and any(str(path) == "-" for path in request.corpus.files):
        raise click.UsageError("several processes cannot share the standard input; give files")
    if request.resume and request.out is None:
        raise click.UsageError("--resume goes with -o, the result of the run to go on with")
    check_out(request.out, KINDS, "the profile")
