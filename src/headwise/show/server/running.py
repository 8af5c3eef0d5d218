"""The server under way: it listens, says where, and ends at once on Ctrl-C, also in the midst of a computation."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from headwise.show.server.app import Served
from headwise.show.server.settings import Settings

__all__ = ["address_of", "serve"]

_PATIENCE = 1.0
"""Seconds that a computation has to come to its next tick when the server ends."""


def _worth_telling(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's is more than that open connections end with the server."""
    ends = record.exc_info is not None and record.exc_info[0] is asyncio.CancelledError
    return not ends and not str(record.msg).startswith("Cancel %s running")


class _Quiet(uvicorn.Server):
    """A server that ends without another word when it is asked to, and whatever it computes with it."""

    def __init__(self, config: uvicorn.Config, state: Served) -> None:
        super().__init__(config)
        self._state = state

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            self._captured_signals.clear()  # the end that was asked for, and no error


def address_of(listener: socket.socket, host: str, token: str | None) -> str:
    """What to open in a browser."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/{f'?token={token}' if token else ''}"


def serve(
    settings: Settings, listener: socket.socket, address: str, folder: Path | None, opens: bool
) -> None:
    """Serve until Ctrl-C.

    Args:
        settings: what is served.
        listener: a socket that listens.
        address: what is opened in a browser.
        folder: of models, where one was given.
        opens: whether to open a browser.
    """
    state = Served(settings, folder)
    config = uvicorn.Config(
        state.app(), log_level="error", access_log=False, lifespan="off", ws="none", http="h11",
        timeout_graceful_shutdown=1, server_header=False, h11_max_incomplete_event_size=32_768,
    )  # fmt: skip
    logging.getLogger("uvicorn.error").addFilter(_worth_telling)
    if opens:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    _Quiet(config, state).run(sockets=[listener])
    if not state.work.ended(
        _PATIENCE
    ):  # it computes where nothing ticks: nothing else is left to do
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
