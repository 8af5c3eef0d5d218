"""What `headwise generate` does once its arguments are read: let the model write, and show it while it comes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from headwise.cli.generate.command import GenerateRequest
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import say
from headwise.cut.ablating.ablating import ablate
from headwise.hub.generating.generating import Written, write
from headwise.hub.load import Model, load
from headwise.nn.generating.drawing import Drawing

__all__ = ["run"]


def run(request: GenerateRequest) -> None:
    """Write, and show it.

    Raises:
        KeyboardInterrupt: Ctrl-C, once what was written till then is shown.
    """
    drawing = Drawing(request.temperature, request.top_k, request.top_p)
    model = load(request.model, request.device, request.dtype)
    shown = _Shown(request.texts, quiet=str(request.json) == "-")
    made: Sequence[Written] | None = None
    try:
        with ablate(model, list(request.without)) if request.without else nullcontext():
            made = write(
                model,
                request.texts,
                request.max_new_tokens,
                drawing,
                request.stops,
                request.seed,
                shown.add,
            )
    finally:
        if made is not None or any(shown.pieces):
            shown.finish()
            if request.json is not None:
                write_json(_as_json(model, request, made or shown.written()), request.json)
                if str(request.json) != "-":
                    say(f"wrote {request.json}")


class _Shown:
    """The texts on the standard output in their order: one as it comes, the others after it."""

    def __init__(self, texts: Sequence[str], quiet: bool) -> None:
        self.pieces: list[list[str]] = [[] for _ in texts]
        self._texts, self._quiet = texts, quiet
        self._head(0)

    def add(self, piece: str, row: int) -> None:
        """A piece of a row's text."""
        self.pieces[row].append(piece)
        if row == 0:
            self._print(piece)

    def finish(self) -> None:
        """All that is not shown yet."""
        self._print("\n")
        for row in range(1, len(self._texts)):
            self._head(row)
            self._print("".join(self.pieces[row]) + "\n")

    def written(self) -> list[Written]:
        """What there is of each, where it was broken off."""
        return [Written("".join(pieces)) for pieces in self.pieces]

    def _head(self, row: int) -> None:
        """Which text it is that goes on, where there are several."""
        if len(self._texts) > 1:
            text = " ".join(self._texts[row].split())
            short = text if len(text) <= 60 else f"...{text[-57:]}"
            self._print(("\n" if row else "") + f"[{row + 1}] {short}\n")

    def _print(self, text: str) -> None:
        if not self._quiet:
            sys.stdout.write(text)
            sys.stdout.flush()


def _as_json(model: Model, request: GenerateRequest, made: Sequence[Written]) -> dict[str, Any]:
    return {
        "model": model.name,
        "max_new_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "top_k": request.top_k,
        "top_p": request.top_p,
        "seed": request.seed,
        "stop": list(request.stops),
        "without": list(request.without),
        "texts": [
            {
                "text": text,
                "written": one.text,
                "tokens": one.tokens,
                "ended": one.ended or "broken off",
            }
            for text, one in zip(request.texts, made, strict=True)
        ],
    }
