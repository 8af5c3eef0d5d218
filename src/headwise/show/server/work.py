"""Work: one computation at a time, others wait in line; each says how far it is, and ends when nobody listens.

Models change while heads of them are off, so no two computations run at once. Each runs in a thread of its own, so
that the server goes on answering; it is ended at its next tick when its listener goes away.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from headwise.hub.load import Model
from headwise.names import HeadwiseError
from headwise.show.server.saying import line_of

__all__ = ["GoneError", "Job", "Work", "ticking"]

_Task = Callable[["Job"], dict[str, Any]]


class GoneError(BaseException):
    """Nobody listens any more; raised within a computation to end it."""


class Job:
    """One computation, as the code that runs it sees it.

    Args:
        tell: hears of progress, from any thread.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell, self._gone = tell, threading.Event()

    def tick(self, done: int, total: int) -> None:
        """So much is done.

        Raises:
            GoneError: nobody listens.
        """
        self.check()
        self._tell({"done": done, "total": total})

    def says(self, what: str) -> None:
        """What is being done, where it cannot be counted."""
        self.check()
        self._tell({"doing": what})

    def check(self) -> None:
        """End here if nobody listens.

        Raises:
            GoneError: nobody does.
        """
        if self._gone.is_set():
            raise GoneError

    def end(self) -> None:
        """Let it end at its next tick."""
        self._gone.set()


class Work:
    """The line of computations of one server."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._line: list[asyncio.Queue[dict[str, Any]]] = []
        self._last: threading.Thread | None = None
        self._heard: set[asyncio.Queue[dict[str, Any]]] = set()
        self._running: tuple[Job, threading.Thread, asyncio.Event] | None = None

    async def told(self, task: _Task) -> AsyncIterator[dict[str, Any]]:
        """What a computation says, line by line: how many are before it, how far it is, its result or error.

        When the iteration is given up, waiting work is dropped and running work ends at its next tick.
        """
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._line.append(heard)
        self._heard.add(heard)
        waiting = asyncio.ensure_future(self._run(task, heard))
        try:
            self._tell_places()
            while True:
                line = await heard.get()
                yield line
                if "result" in line or "error" in line:
                    return
        finally:
            if heard in self._line:
                self._line.remove(heard)
            self._heard.discard(heard)
            waiting.cancel()

    def close(self) -> None:
        """Tell all who listen that the server ends, and ask what runs to end."""
        for heard in self._heard:
            heard.put_nowait({"error": "the server was ended"})
        if self._running is not None:
            job, self._last, done = self._running
            job.end()
            done.set()  # nobody waits for it any more

    def ended(self, patience: float) -> bool:
        """Whether what ran when the server was closed ends within so many seconds."""
        if self._last is None:
            return True
        self._last.join(patience)
        return not self._last.is_alive()

    async def _run(self, task: _Task, heard: asyncio.Queue[dict[str, Any]]) -> None:
        async with self._turn:
            loop = asyncio.get_running_loop()
            done = asyncio.Event()

            def tell(line: dict[str, Any]) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(heard.put_nowait, line)

            def finished() -> None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(done.set)

            job = Job(tell)
            thread = threading.Thread(target=_done, args=(task, job, tell, finished), daemon=True)
            self._running = (job, thread, done)
            thread.start()
            try:
                await done.wait()
            except asyncio.CancelledError:
                job.end()
                await _in_spite(done)
                raise
            finally:
                self._running = None
                if heard in self._line:
                    self._line.remove(heard)
                self._tell_places()

    def _tell_places(self) -> None:
        for place, heard in enumerate(self._line):
            if place:
                heard.put_nowait({"waiting": place})


def _done(
    task: _Task, job: Job, tell: Callable[[dict[str, Any]], None], finished: Callable[[], None]
) -> None:
    """Do a task, and tell its result, or in one line why there is none."""
    try:
        tell({"result": task(job)})
    except GoneError:
        pass
    except BaseException as error:
        if not isinstance(error, HeadwiseError):
            traceback.print_exc(file=sys.stderr)
        tell({"error": line_of(error)})
    finally:
        finished()


async def _in_spite(done: asyncio.Event) -> None:
    """Wait for the end, whatever else is cancelled meanwhile: until then the model is not free."""
    ended = asyncio.ensure_future(done.wait())
    while not ended.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(ended)


@contextmanager
def ticking(model: Model, job: Job, passes: int = 1) -> Iterator[None]:
    """Within the `with` every attention layer of the model ticks when it begins.

    Args:
        model: that runs.
        job: that ticks.
        passes: of the model, counted as one; 0 = the job may end there, and something else counts.
    """
    modules = [layer.module for layer in model.anatomy.layers]
    total, done = len(modules) * passes, 0

    def tick(module: nn.Module, inputs: object) -> None:
        nonlocal done
        if not passes:
            return job.check()
        done = min(done + 1, total)
        return job.tick(done, total)

    handles = [module.register_forward_pre_hook(tick) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
