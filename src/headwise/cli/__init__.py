"""The command line: `headwise COMMAND ...`, a folder for each command.

`command` reads the arguments, `running` does what they ask; what several share lies beside the folders.

Nothing here imports torch: help and mistakes in the arguments answer at once, and a command imports
what it needs when it runs.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from headwise import __version__
from headwise.cli.ablate.command import ablate as _ablate
from headwise.cli.audit.command import audit as _audit
from headwise.cli.circuits.command import circuits as _circuits
from headwise.cli.clusters.command import clusters as _clusters
from headwise.cli.doctor import doctor as _doctor
from headwise.cli.generate.command import generate as _generate
from headwise.cli.heal.command import heal as _heal
from headwise.cli.lab.command import lab as _lab
from headwise.cli.ledger.command import ledger as _ledger
from headwise.cli.look.command import look as _look
from headwise.cli.mask.command import mask as _mask
from headwise.cli.neurons.command import neurons as _neurons
from headwise.cli.profile.command import profile as _profile
from headwise.cli.prune.command import prune as _prune
from headwise.cli.rank.command import rank as _rank
from headwise.cli.regroup.command import regroup as _regroup
from headwise.cli.roles.command import roles as _roles
from headwise.cli.serve.command import serve as _serve
from headwise.cli.time.command import time as _time
from headwise.cli.train.command import train as _train
from headwise.names import HeadwiseError

_INTERRUPTED = 130


class _InOrder(click.Group):
    """Lists its commands as they were added, not by the alphabet."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96}
)
@click.version_option(__version__, prog_name="headwise")
def app() -> None:
    """See, check and cut every attention head of a Transformer."""


_SEE = (_look, _generate, _serve, _profile, _roles, _circuits, _clusters, _neurons)
_CHECK = (_mask, _audit, _ledger)
_CUT = (_ablate, _rank, _prune, _regroup, _heal, _time)
_MAKE = (_train, _lab)

for _command in (*_SEE, *_CHECK, *_CUT, *_MAKE, _doctor):
    app.add_command(_command)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; mistakes of the user's end in one line on stderr and exit code 1 or 2."""
    _open_outputs()
    try:
        code = app.main(args=arguments, prog_name="headwise", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = _fail("interrupted", _INTERRUPTED)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except HeadwiseError as error:
        code = _fail(str(error), 1)
    except KeyboardInterrupt:
        code = _fail("interrupted", _INTERRUPTED)
    except BrokenPipeError:  # the reader went away, as in `headwise look ... | head`
        _drop_output()
        code = 0
    except OSError as error:
        if error.filename is not None:
            raise
        _drop_output()
        code = _fail(f"the output cannot be written: {error.strerror or error}", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _open_outputs() -> None:
    """Let no character stop the output where its encoding lacks it, nor a stream that was closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere, so that nothing fails again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(line: str, code: int) -> int:
    click.echo(f"headwise: {line}", err=True)
    return code
