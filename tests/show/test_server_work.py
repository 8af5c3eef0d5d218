"""One computation at a time: others wait and are told, and what nobody listens to ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headwise.names import TextError
from headwise.show.server.work import GoneError, Job, Work

PATIENCE = 20.0


async def all_of(lines: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line async for line in lines]


def run(test: Any) -> Any:
    """The result of a test in a loop of its own; a browser may have one in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(asyncio.wait_for(test, PATIENCE))).result()


def test_progress_and_result_come_in_order() -> None:
    def task(job: Job) -> dict[str, Any]:
        job.says("loading")
        job.tick(1, 2)
        job.tick(2, 2)
        return {"x": 1}

    found = run(all_of(Work().told(task)))
    assert found == [
        {"doing": "loading"}, {"done": 1, "total": 2}, {"done": 2, "total": 2}, {"result": {"x": 1}},
    ]  # fmt: skip


def test_a_mistake_is_its_line_and_another_error_none(capfd: pytest.CaptureFixture[str]) -> None:
    def task(error: Exception) -> Any:
        def raises(job: Job) -> dict[str, Any]:
            raise error

        return raises

    work = Work()
    assert run(all_of(work.told(task(TextError("too\n long"))))) == [{"error": "too long"}]
    assert capfd.readouterr().err == ""
    (line,) = run(all_of(Work().told(task(KeyError("secret")))))
    assert line == {"error": "something failed here; the terminal says what"}
    assert "secret" in capfd.readouterr().err


def test_others_wait_in_line_and_are_told_their_place() -> None:
    together, most = [0], [0]
    free = threading.Event()

    def task(job: Job) -> dict[str, Any]:
        together[0] += 1
        most[0] = max(most[0], together[0])
        assert free.wait(PATIENCE)
        together[0] -= 1
        return {}

    async def test() -> list[list[dict[str, Any]]]:
        work = Work()
        asked = [asyncio.create_task(all_of(work.told(task))) for _ in range(3)]
        await asyncio.sleep(0.1)
        free.set()
        return list(await asyncio.gather(*asked))

    first, second, third = run(test())
    assert first == [{"result": {}}]
    assert next(line["waiting"] for line in second if "waiting" in line) == 1
    assert {line["waiting"] for line in third if "waiting" in line} == {1, 2}
    assert third[-1] == {"result": {}}
    assert most[0] == 1


def test_what_nobody_listens_to_ends_at_its_next_tick() -> None:
    began, ended = threading.Event(), threading.Event()

    def endless(job: Job) -> dict[str, Any]:
        began.set()
        try:
            while True:
                job.tick(0, 1)
                ended.wait(0.01)
        except GoneError:
            ended.set()
            raise

    async def test() -> list[dict[str, Any]]:
        work = Work()
        lines = work.told(endless)
        await anext(lines)
        assert began.is_set()
        await lines.aclose()
        return await all_of(work.told(lambda job: {"next": True}))

    assert run(test())[-1] == {"result": {"next": True}}
    assert ended.is_set()


def test_waiting_work_that_is_given_up_never_runs() -> None:
    free, ran = threading.Event(), []

    async def test() -> list[dict[str, Any]]:
        work = Work()
        first = asyncio.create_task(all_of(work.told(lambda job: {"x": free.wait(PATIENCE)})))
        await asyncio.sleep(0.05)
        second = work.told(lambda job: ran.append(1) or {})
        assert await anext(second) == {"waiting": 1}
        await second.aclose()
        free.set()
        await first
        return await all_of(work.told(lambda job: {}))

    assert run(test())[-1] == {"result": {}}
    assert ran == []


def test_a_model_is_not_free_before_what_was_given_up_has_ended() -> None:
    order: list[str] = []

    def slow(job: Job) -> dict[str, Any]:
        job.tick(0, 1)
        threading.Event().wait(0.3)  # where nothing ticks
        order.append("slow")
        return {}

    async def test() -> None:
        work = Work()
        lines = work.told(slow)
        await anext(lines)
        await lines.aclose()
        await all_of(work.told(lambda job: order.append("next") or {}))

    run(test())
    assert order == ["slow", "next"]


def test_at_the_end_all_are_told_and_what_runs_is_asked_to_end() -> None:
    async def test() -> tuple[list[dict[str, Any]], bool]:
        work = Work()

        def endless(job: Job) -> dict[str, Any]:
            while True:
                job.tick(0, 1)

        lines = work.told(endless)
        await anext(lines)
        work.close()
        return await all_of(lines), await asyncio.to_thread(work.ended, PATIENCE)

    lines, ended = run(test())
    assert lines[-1] == {"error": "the server was ended"}
    assert ended
    assert Work().ended(0)
