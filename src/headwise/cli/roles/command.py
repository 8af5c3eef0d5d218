"""headwise roles: what each head is, with the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import (
    check_id,
    check_out,
    checked_pictures,
    corpora,
    corpus_options,
    device_options,
    files_argument,
    model_option,
    out_option,
    picture_options,
    probe_option,
)
from headwise.see.texts.corpus import Corpus

_ANNOTATED = click.Path(path_type=Path)


@dataclass(frozen=True)
class RolesRequest:
    """What was asked for on the command line."""

    corpus: Corpus
    conllu: tuple[Path, ...]
    coref: tuple[Path, ...]
    align: Path | None
    targets: Corpus | None
    model: str
    probes: tuple[str, ...]
    context: int | None
    head: str | None
    top: int
    out: Path | None
    pictures: tuple[Path, ...]
    device: str | None
    dtype: str | None


@click.command(short_help="What each head is, with the evidence for it.")
@files_argument(required=False)
@model_option
@click.option(
    "--conllu", multiple=True, type=_ANNOTATED, metavar="FILE", help="Relations of a treebank."
)
@click.option(
    "--coref",
    multiple=True,
    type=_ANNOTATED,
    metavar="FILE",
    help="Coreference: GAP's table, or JSON lines of spans.",
)
@click.option(
    "--align",
    type=_ANNOTATED,
    metavar="FILE",
    help="Word alignment, for an encoder-decoder: JSON lines of source, target and links.",
)
@probe_option
@click.option("--head", metavar="ID", help="All that is known of this head, for instance 18.6.")
@click.option(
    "--top",
    default=3,
    show_default=True,
    type=click.IntRange(1, 50),
    help="How many heads of each role, or examples of the head, to show.",
)
@corpus_options
@out_option(
    "Write a table: .csv (each head and probe), .json, .md (the best head of each) or .nc (all)."
)
@picture_options("the grid of heads by role")
@device_options
def roles(
    files: tuple[Path, ...],
    model: str,
    conllu: tuple[Path, ...],
    coref: tuple[Path, ...],
    align: Path | None,
    probes: tuple[str, ...],
    head: str | None,
    top: int,
    lines: bool,
    field: str | None,
    limit: int | None,
    target: Path | None,
    context: int | None,
    out: Path | None,
    png: Path | None,
    svg: Path | None,
    device: str | None,
    dtype: str | None,
) -> int:
    """Say what each head is: the best heads for each probe over the texts in FILES, beside what chance gives.

    The texts of --conllu, --coref and --align are read too, each text once, so that FILES may be left out; rows of
    random tokens, each repeated, are always run beside them. Heads are chosen on one half of the texts and judged
    on the other: a role is claimed where a head beats the baseline beyond chance, with all that were tried. --limit
    counts for each file of annotations, and for FILES together.

    Ctrl-C stops after the batch that runs and shows what is done.

    \b
    headwise roles story.txt --lines
    headwise roles --conllu en_pud.conllu -o roles.md --png roles.png
    headwise roles --conllu en_pud.conllu --coref gap-development.tsv --head 18.6
    """
    _check(files, conllu, coref, align, target)
    if head is not None:
        check_id(head, parts=2, example="18.6")
    from headwise.see.roles.files import KINDS

    pictures = checked_pictures(png, svg)
    check_out(out, KINDS, "the table of roles")
    corpus, targets = corpora(files, lines, field, limit, target)
    Corpus((*conllu, *coref, *((align,) if align else ()))).check()
    from headwise.cli.roles.running import run

    return run(
        RolesRequest(
            corpus=corpus,
            conllu=conllu,
            coref=coref,
            align=align,
            targets=targets,
            model=model,
            probes=probes,
            context=context,
            head=head,
            top=top,
            out=out,
            pictures=pictures,
            device=device,
            dtype=dtype,
        )
    )


def _check(
    files: tuple[Path, ...],
    conllu: tuple[Path, ...],
    coref: tuple[Path, ...],
    align: Path | None,
    target: Path | None,
) -> None:
    """Refuse what gives no texts, or texts of which some have no target."""
    if not (files or conllu or coref or align):
        raise click.UsageError(
            "give texts: headwise roles FILE, or --conllu, --coref or --align FILE"
        )
    if align and (files or conllu or coref or target):
        raise click.UsageError(
            "--align brings its own texts and targets; leave FILES, --conllu, --coref and --target out"
        )
    if target and (conllu or coref):
        raise click.UsageError("--target goes with FILES alone: each text needs one")
