"""The options of `headwise look` that are of its page: --html, and what stands beside the text in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headwise.cli.look.page import PageRequest

__all__ = ["page_asked", "page_options"]

F = TypeVar("F", bound=Callable[..., Any])

_ONLY = {
    "beside": "--beside",
    "beside_models": "--beside-model",
    "without": "--without",
    "with_": "--with",
    "flow": "--flow",
}


def page_options(command: F) -> F:
    """--html, and what the page compares and is coloured by."""
    for option in reversed(
        (
            click.option(
                "--html",
                type=click.Path(path_type=Path),
                help="Write one page that shows all of it in a browser, without a network.",
            ),
            click.option(
                "--beside",
                multiple=True,
                metavar="TEXT",
                help="In the page: another text; repeatable.",
            ),
            click.option(
                "--beside-model",
                "beside_models",
                multiple=True,
                metavar="NAME",
                help="In the page: the same text by another model; repeatable.",
            ),
            click.option(
                "--without",
                multiple=True,
                metavar="HEADS",
                help="In the page: the same text with these heads at zero, for instance 18.6,17.*; repeatable.",
            ),
            click.option(
                "--flow",
                is_flag=True,
                help="In the page: measure which tokens really move which, layer by layer, beside the masks.",
            ),
            click.option(
                "--with",
                "with_",
                multiple=True,
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="In the page: colour heads by a profile, roles or an importance saved as .nc; repeatable.",
            ),
        )
    ):
        command = option(command)
    return command


def page_asked(
    given: Mapping[str, Any],
    ffn: bool,
    target: str | None,
    device: str | None,
    dtype: str | None,
) -> PageRequest | None:
    """What page is asked for; what is known to fail is refused before a model is loaded.

    Raises:
        UsageError: an option of the page without --html.
        OutputError: a path at which no page can be written.
        ModelError: a file of --with that is no table of heads.
    """
    html: Path | None = given["html"]
    if html is None:
        for name, option in _ONLY.items():
            if given[name]:
                raise click.UsageError(f"{option} goes with --html")
        return None
    from headwise.show.page.saving import check_page

    check_page(html)
    from headwise.cli.look.page import PageRequest
    from headwise.show.page.tables import load_table

    return PageRequest(
        path=html,
        beside=given["beside"],
        models=given["beside_models"],
        without=given["without"],
        tables=tuple(load_table(path) for path in given["with_"]),
        flow=given["flow"],
        ffn=ffn,
        target=target,
        device=device,
        dtype=dtype,
    )
