"""headwise clusters: which heads look alike over a corpus."""

from __future__ import annotations

from pathlib import Path

import click

from headwise.names import OutputError
from headwise.see.texts.corpus import Corpus


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-m",
    "--model",
    default="smollm2",
    show_default=True,
    help="A known name, a hub id, a folder or a .gguf file.",
)
@click.option("--count", default=8, show_default=True, type=click.IntRange(1), help="Clusters.")
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
@click.option("--png", type=click.Path(path_type=Path), help="Draw the heads into a PNG file.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw the heads into an SVG file.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write the results: .nc or .json (everything), .csv or .parquet (one row per head).",
)
@click.option("--lines", is_flag=True, help="Plain text: each line is a text, not the whole file.")
@click.option("--field", metavar="NAME", help="JSON lines: the field that holds the text [text].")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Read at most N texts.")
@click.option(
    "--context", type=click.IntRange(3), metavar="N", help="Cut longer texts to N tokens."
)
@click.option("--device", help="Where to run, for instance cpu, cuda or mps.")
@click.option("--dtype", help="float32, bfloat16 or float16.")
def clusters(
    files: tuple[Path, ...],
    model: str,
    count: int,
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
    from headwise.files import check_writable
    from headwise.see.profile.files import check_kind

    for path, suffix in ((png, ".png"), (svg, ".svg")):
        if path is not None and path.suffix.lower() != suffix:
            option = f"--{suffix[1:]}"
            raise OutputError(f"{option} cannot write {path.name!r}: its name must end in {suffix}")
    if out is not None:
        check_kind(out)
    for path in (png, svg, out):
        if path is not None:
            check_writable(path, "the result")
    corpus = Corpus(files, lines, field, limit)
    corpus.check()
    from headwise.cli.weighing import Compared, show_clusters

    pictures = tuple(path for path in (png, svg) if path is not None)
    show_clusters(
        Compared(
            corpus, model, count, rows, seed, stream, tree, pictures, out, context, device, dtype
        )
    )
