"""The server: a page, and what it asks."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headwise.names import HeadwiseError
from headwise.show.page.frame import closing, opening
from headwise.show.page.index import index_of
from headwise.show.server.access import Access
from headwise.show.server.answers import Answers, Task
from headwise.show.server.saying import (
    GoneSceneError,
    RefusedError,
    body_of,
    line_of,
    refused,
    told,
)
from headwise.show.server.settings import Settings
from headwise.show.server.shelf import Models, Shelf
from headwise.show.server.work import Work

__all__ = ["Served", "served"]

_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; style-src-attr 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_CELLS = 3
"""So many chunks are made at once."""


class Served:
    """One server's state and its routes.

    Args:
        settings: what it was started with.
        folder: of models, where one was given.
    """

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        self.settings, self.work = settings, Work()
        self.models, self.shelf = Models(settings, folder), Shelf(settings.kept_bytes)
        self.answers = Answers(self.models, self.shelf)
        self._ended = False
        self._reading: set[asyncio.Future[Any]] = set()
        self._making = asyncio.Semaphore(_CELLS)

    def app(self) -> Access:
        """What a server runs."""
        routes = [
            Route("/", self.page),
            Route("/api/index", self.index),
            Route("/api/scene/{scene}", self.scene),
            Route("/api/chunk/{scene}/{key:path}", self.chunk),
            Route("/api/rows/{scene}/{head}", self.rows),
            Route("/api/{what}", self.ask, methods=["POST"]),
        ]
        handlers: Any = {HeadwiseError: _one_line, Exception: _one_line}
        return Access(Starlette(routes=routes, exception_handlers=handlers), self.settings.token)

    async def page(self, request: Request) -> Response:
        """The page; nothing of it comes from elsewhere."""
        nonce = secrets.token_urlsafe(16)
        page = opening("headwise", nonce=nonce) + closing("served.js", nonce)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY.format(nonce=nonce)})

    async def index(self, request: Request) -> Response:
        """What can be asked here."""
        kinds = self.answers.kinds
        live: dict[str, Any] = {
            "rows": True,
            **{what: what in kinds for what in ("look", "cut", "flow", "fires")},
        }
        names = self.models.names
        most = self.settings.most_bytes
        live |= {
            "targets": self.models.writing,
            "models": names,
            "model": names[0],
            "text": self.settings.text,
            "most": most,
        }
        return JSONResponse(index_of([], live=live))

    async def scene(self, request: Request) -> Response:
        """The index of a scene that is kept."""
        kept = self.shelf.get(request.path_params["scene"])
        return JSONResponse(kept.index)

    async def chunk(self, request: Request) -> Response:
        """The cells of a head, or other data of a scene."""
        kept, key = self.shelf.get(request.path_params["scene"]), request.path_params["key"]
        return await self._bytes(lambda: kept.scene.chunk(key))

    async def rows(self, request: Request) -> Response:
        """All cells of some rows of a head: ?from=&to=."""
        kept, head = self.shelf.get(request.path_params["scene"]), request.path_params["head"]
        asked = [request.query_params.get(name, "") for name in ("from", "to")]
        if not all(text.isdecimal() and len(text) < 9 for text in asked):
            raise RefusedError(400, "rows are asked for as ?from=0&to=64")
        first, last = map(int, asked)
        longest = max(len(side.tokens) for side in kept.scene.record.sides)
        if not first < last <= longest:
            raise RefusedError(400, f"rows {first} to {last} are not there; there are {longest}")
        return await self._bytes(lambda: kept.scene.rows(head, first, last))

    async def ask(self, request: Request) -> Response:
        """Anything that is computed: lines of JSON, the last one its result or error."""
        kinds = self.answers.kinds
        what = request.path_params["what"]
        if what not in kinds:
            raise RefusedError(
                404, f"nothing here is called {what!r}; there are {', '.join(kinds)}"
            )
        body = await self._read(request)
        try:
            task = kinds[what](body)
        except RefusedError:
            raise
        except HeadwiseError as error:
            return told(line_of(error))
        return StreamingResponse(self._lines(task), media_type="application/x-ndjson")

    async def _read(self, request: Request) -> dict[str, Any]:
        """What a request brings; given up when the server ends before all of it has come."""
        reading = asyncio.ensure_future(body_of(request, self.settings.most_bytes))
        self._reading.add(reading)
        try:
            return await reading
        except asyncio.CancelledError:
            if not self._ended:
                raise
            raise RefusedError(503, "the server was ended") from None
        finally:
            reading.cancel()
            self._reading.discard(reading)

    def close(self) -> None:
        """End what runs and waits, and what has not come to its end."""
        self._ended = True
        self.work.close()
        for reading in self._reading:
            reading.cancel()

    async def _lines(self, task: Task) -> AsyncIterator[str]:
        lines = self.work.told(task)
        try:
            async for line in lines:
                yield await run_in_threadpool(_dumped, line)
        finally:
            await lines.aclose()  # type: ignore[attr-defined]

    async def _bytes(self, make: Callable[[], bytes]) -> Response:
        async with self._making:
            data = await run_in_threadpool(make)
        return Response(data, media_type="application/octet-stream")


def served(settings: Settings, folder: Path | None = None) -> Access:
    """The server of these settings, to be run by uvicorn or a test."""
    return Served(settings, folder).app()


def _dumped(line: dict[str, Any]) -> str:
    try:
        return json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    except (TypeError, ValueError) as error:  # of a number that JSON does not have
        traceback.print_exc(file=sys.stderr)
        return json.dumps({"error": line_of(error)}) + "\n"


async def _one_line(request: Request, error: Exception) -> Response:
    if isinstance(error, GoneSceneError):
        return told(line_of(error))
    status = error.status if isinstance(error, RefusedError) else 400
    if not isinstance(error, HeadwiseError):
        status = 500
    return refused(status, line_of(error))
