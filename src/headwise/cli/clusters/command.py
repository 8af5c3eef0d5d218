"""headwise clusters: which heads look alike over a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import (
    check_out,
    checked_pictures,
    corpora,
    corpus_options,
    device_options,
    files_argument,
    model_option,
    out_option,
    picture_options,
)
from headwise.see.texts.corpus import Corpus


@dataclass(frozen=True)
class ClustersRequest:
    """What was asked for on the command line."""

    corpus: Corpus
    targets: Corpus | None
    model: str
    count: int | None
    rows: int
    seed: int
    stream: str | None
    tree: bool
    context: int | None
    out: Path | None
    pictures: tuple[Path, ...]
    device: str | None
    dtype: str | None


@click.command(short_help="Which heads look alike over a corpus.")
@files_argument()
@model_option
@click.option("--count", type=click.IntRange(1), metavar="N", help="So many clusters. [8]")
@click.option(
    "--rows",
    default=2000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Compare what heads look at from N tokens, drawn from all.",
)
@click.option("--seed", default=0, show_default=True, help="Of the draw.")
@click.option("--stream", help="Of an encoder-decoder the stream to draw. [the first]")
@click.option("--tree", is_flag=True, help="Draw the tree that joins the heads, not the plane.")
@picture_options("the heads")
@out_option("Write the results: .nc or .json (everything), .csv or .parquet (one row per head).")
@corpus_options
@device_options
def clusters(
    files: tuple[Path, ...],
    model: str,
    count: int | None,
    rows: int,
    seed: int,
    stream: str | None,
    tree: bool,
    png: Path | None,
    svg: Path | None,
    out: Path | None,
    lines: bool,
    field: str | None,
    limit: int | None,
    target: Path | None,
    context: int | None,
    device: str | None,
    dtype: str | None,
) -> None:
    """Group the heads that look alike over the texts in FILES, by the Jensen-Shannon distance of their rows.

    FILES are read as `headwise profile` reads them.

    \b
    headwise clusters story.txt --png heads.png
    headwise clusters en_pud.conllu --rows 500 --tree --svg tree.svg -o clusters.csv
    """
    from headwise.see.profile.files import KINDS

    pictures = checked_pictures(png, svg)
    check_out(out, KINDS, "the clusters")
    corpus, targets = corpora(files, lines, field, limit, target)
    from headwise.cli.clusters.running import run

    run(
        ClustersRequest(
            corpus=corpus,
            targets=targets,
            model=model,
            count=count,
            rows=rows,
            seed=seed,
            stream=stream,
            tree=tree,
            context=context,
            out=out,
            pictures=pictures,
            device=device,
            dtype=dtype,
        )
    )
