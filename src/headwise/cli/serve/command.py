"""headwise serve: a page on this machine where one looks at texts and turns heads off live."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import device_options


@dataclass(frozen=True)
class ServeRequest:
    """What was asked for on the command line."""

    models: tuple[str, ...]
    folder: Path | None
    host: str
    port: int
    opens: bool
    device: str | None
    dtype: str | None


@click.command(short_help="A page where one looks at texts and turns heads off live.")
@click.option(
    "-m", "--model", "models", multiple=True, metavar="NAME",
    help="Offer this model: a known name, a hub id, a folder or a .gguf file; repeatable. [the known names]",
)  # fmt: skip
@click.option(
    "--models", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Offer the models in this folder.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="NAME",
    help="Where to listen; others than this machine need the token that is then in the address.",
)  # fmt: skip
@click.option(
    "--port", default=8642, show_default=True, type=click.IntRange(0, 65535), metavar="N",
    help="0 = any free one.",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@device_options
def serve(
    models: tuple[str, ...],
    folder: Path | None,
    host: str,
    port: int,
    opens: bool,
    device: str | None,
    dtype: str | None,
) -> None:
    """Serve a page: type a text, pick a model, look at all of its heads, and turn some off.

    The page is for this machine alone. It offers the models named here and the known ones that read text; each is
    loaded when it is first asked for. Ctrl-C ends it.

    \b
    headwise serve --open
    headwise serve --model gpt2 --models ~/models --port 0
    """
    from headwise.cli.serve.running import run

    run(ServeRequest(models, folder, host, port, opens, device, dtype))
