"""Several processes of one machine, joined by gloo, for the tests."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from headwise.see.profile.together import Team, joined


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _rank(rank: int, size: int, port: int) -> dict[str, str]:
    """What a launcher tells each process."""
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
    }


def _join(answer: Connection, told: dict[str, str], job: Callable[[Team], Any]) -> None:
    os.environ.update(told)
    with joined() as team:
        answer.send(job(team))


def forked(size: int, job: Callable[[Team], Any]) -> list[Any]:
    """What the job gives on each process of a team, copies of this one; None where it gave nothing."""
    context, port = multiprocessing.get_context("fork"), free_port()
    answers, processes = [], []
    for rank in range(size):
        mine, theirs = context.Pipe(duplex=False)
        told = _rank(rank, size, port)
        process = context.Process(target=_join, args=(theirs, told, job), daemon=True)
        process.start()
        theirs.close()
        answers.append(mine)
        processes.append(process)
    try:
        return [_answer(one) for one in answers]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _answer(answer: Connection) -> Any:
    assert answer.poll(60), "the process hangs"
    try:
        return answer.recv()
    except EOFError:
        return None


def start_team(size: int, *arguments: str) -> list[subprocess.Popen[str]]:
    """As a launcher starts them: the same command, each with its rank. Their streams are piped."""
    shared = {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "1",
    }
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **shared, **_rank(rank, size, port)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def ends_of(team: list[subprocess.Popen[str]]) -> list[Ended]:
    """How each ended, in order of rank; one that hangs is an error."""
    try:
        streams = [process.communicate(timeout=120) for process in team]
    finally:
        for process in team:
            process.kill()
    pairs = zip(team, streams, strict=True)
    return [Ended(process.returncode, out, err) for process, (out, err) in pairs]
