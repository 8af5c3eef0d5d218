"""The files of a folder of runs: the report and the picture of each claim, and the index of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwise.files import replacing
from headwise.lab.running import Run
from headwise.lab.words import Language
from headwise.names import OutputError
from headwise.show.lab.html import page_of
from headwise.show.lab.picture import draw_run
from headwise.show.lab.report import index_text, report_text
from headwise.show.pictures import save

__all__ = ["check_ours", "write_index", "write_report", "write_text"]

_ENDINGS = (".md", ".html", ".png", ".svg")


def check_ours(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder whose files a report would write over, and that are none of the lab's.

    Args:
        folder: the reports go there; it need not be there yet.
        names: of the claims that are to be run.

    Raises:
        OutputError: it is a file, or holds such files.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(
            f"{folder} is a file, and the lab writes a folder; choose another with -o"
        )
    run = any(folder.glob("*.jsonl")) if folder.is_dir() else False
    stems = [name for name in names if not (folder / f"{name}.jsonl").exists()]
    stems += [] if run else ["index"]
    for stem in stems:
        for ending in _ENDINGS:
            if (folder / f"{stem}{ending}").exists():
                raise OutputError(
                    f"{folder / stem}{ending} is there, and is no report of the lab; choose another folder with -o"
                )


def write_report(run: Run, folder: Path, language: Language) -> list[Path]:
    """Write NAME.md, NAME.html, NAME.png and NAME.svg of a run that is whole; the paths.

    Raises:
        OutputError: they cannot be written.
    """
    name = run.claim.name
    figure = draw_run(run, language)
    pictures = [folder / f"{name}{ending}" for ending in (".png", ".svg")]
    for path in pictures:
        save(figure, path)
    text = report_text(run, language, f"{name}.svg")
    page = page_of(text, language, {f"{name}.svg": pictures[1].read_text(encoding="utf-8")})
    write_text(folder / f"{name}.md", text)
    write_text(folder / f"{name}.html", page)
    return [folder / f"{name}.md", folder / f"{name}.html", *pictures]


def write_index(folder: Path, runs: Mapping[str, Run], language: Language) -> None:
    """Write index.md and index.html of the runs that the folder holds."""
    write_text(folder / "index.md", index_text(runs, language, ".md"))
    write_text(folder / "index.html", page_of(index_text(runs, language, ".html"), language))


def write_text(path: Path, text: str) -> None:
    """Write a report whole.

    Raises:
        OutputError: it cannot be written.
    """
    with replacing(path, "the report") as place:
        place.write_text(text, encoding="utf-8")
