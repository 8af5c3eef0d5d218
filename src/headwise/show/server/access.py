"""Who may ask: this machine's own page, and with a token others; never another site's page.

A page of another site can make a browser send requests here. It is told by the Host it was led to (DNS
rebinding), by its Origin and by Sec-Fetch-Site, and refused before anything is read.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.show.server.saying import refused
from headwise.show.server.settings import is_loopback

__all__ = ["Access"]

_TOKEN = "x-headwise-token"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Access:
    """Refuses who may not ask, and lets every answer say what a browser may do with it.

    Args:
        app: what is asked where one may.
        token: that every request must bring; None = none, and then only this machine's names may be asked for.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        why = self._refusal(scope)
        answer = self._app if why is None else refused(403, why)
        await answer(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._token is None and not is_loopback(_name(host)):
            return "this page is asked for by another name than this machine's own; open the address it printed"
        if scope["path"] != "/" and not _own_page(headers, host):
            return (
                "another site's page may not ask here; open the address that headwise serve printed"
            )
        if scope["path"] == "/" and headers.get("sec-fetch-dest", "document") != "document":
            return "this page does not stand inside another"
        if self._token is not None and not self._brings_token(scope, headers):
            return "the token is missing or wrong; open the address that headwise serve printed, with its token"
        return None

    def _brings_token(self, scope: Scope, headers: Headers) -> bool:
        assert self._token is not None
        given = headers.get(_TOKEN, "")
        if scope["path"] == "/":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self._token.encode())


def _own_page(headers: Mapping[str, str], host: str) -> bool:
    """Whether a request comes from a page of this server, or from no page at all."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or _netloc(origin) == host


def _netloc(origin: str) -> str | None:
    """The name and port of an Origin; None where it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
