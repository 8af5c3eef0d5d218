"""What `headwise serve` does once its arguments are read: check them, listen, and serve."""

from __future__ import annotations

import importlib.util

import click

from headwise.cli.printing import say
from headwise.cli.serve.command import ServeRequest
from headwise.names import ConfigError

__all__ = ["run"]

_NEEDED = ("starlette", "uvicorn")


def run(request: ServeRequest) -> None:
    """Serve until Ctrl-C.

    Raises:
        HeadwiseError: something is not installed, no such folder, or nowhere to listen.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"serve needs {' and '.join(missing)}, not installed here; pip install 'headwise[serve]'"
        )
    from headwise.show.server.settings import Settings, fresh_token, listening, offered

    models, folder = offered(request.models, request.folder)
    token = fresh_token(request.host)
    settings = Settings(models, token, request.device, request.dtype)
    with listening(request.host, request.port) as listener:
        from headwise.show.server.running import address_of, serve

        address = address_of(listener, request.host, token)
        say(f"serving {', '.join(list(models)[:4])}{' …' if len(models) > 4 else ''} at")
        click.echo(address)
        say("Ctrl-C ends it")
        serve(settings, listener, address, folder, request.opens)
