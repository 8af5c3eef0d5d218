"""Answers of one line, and bodies of requests read up to a limit."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from headwise.names import HeadwiseError

__all__ = ["GoneSceneError", "RefusedError", "body_of", "line_of", "refused", "told"]

FAILED = "something failed here; the terminal says what"


class RefusedError(HeadwiseError):
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


GONE = "this view has been let go; look again"


class GoneSceneError(RefusedError):
    """A scene is asked for that is kept no more; nothing a page did wrong."""

    def __init__(self) -> None:
        super().__init__(410, GONE)


def refused(status: int, line: str) -> JSONResponse:
    """The answer to what is refused; the connection ends, as what it still sends is not read."""
    return JSONResponse({"error": line}, status, {"Connection": "close"})


def told(line: str) -> Response:
    """The answer to what was asked rightly and cannot be had: one line, and no failure of the request itself."""
    return Response(json.dumps({"error": line}) + "\n", media_type="application/x-ndjson")


def line_of(error: BaseException) -> str:
    """An error as one line for the page; what is no mistake of the user's says where to look."""
    if isinstance(error, HeadwiseError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "there is not enough memory for this text; take a shorter one"
    return FAILED


async def body_of(request: Request, most: int) -> dict[str, Any]:
    """The JSON object that a request brings; not read further than it may be long.

    Raises:
        RefusedError: it is too long (413), not JSON (415), or no object (400).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, f"requests bring application/json, came {kind or 'nothing'!r}")
    told = request.headers.get("content-length", "0")
    if not told.isdecimal() or int(told) > most:
        raise _too_long(most)
    read = bytearray()
    try:
        async for part in request.stream():
            read += part
            if len(read) > most:
                raise _too_long(most)
    except ClientDisconnect:
        raise RefusedError(400, "the request ended before all of it was sent") from None
    try:
        found = json.loads(read.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RefusedError(400, "the request is no JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise RefusedError(400, f"the request must be an object, came {type(found).__name__}")
    return found


def _too_long(most: int) -> RefusedError:
    return RefusedError(
        413, f"the text is too long: a request may hold {most / 1e6:g} MB; give a part of it"
    )
