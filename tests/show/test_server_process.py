"""`headwise serve` as it runs: a second user, a client that goes away, long bodies, ports, tokens and Ctrl-C."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_help import TEXT, Process, process, refused_start, small_model, there, until

LONG = "it sat at it. " * 560
"""A text that a small model looks at for some seconds."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    small_model(folder / "small", context=8000)
    return folder


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Process]:
    with process("--models", models) as made:
        made.post("look", model="small", text=TEXT)  # loads the model
        yield made


def test_a_second_user_is_served_while_one_computes(server: Process) -> None:
    scene = server.post("look", model="small", text=TEXT)[-1]["result"]["scene"]
    busy = server.begin("look", {"model": "small", "text": LONG})
    until(busy, b'"done"')
    assert server.ask("GET", "/")[0] == 200
    assert server.ask("GET", f"/api/chunk/{scene}/0.1")[0] == 200
    assert server.ask("GET", f"/api/rows/{scene}/0.1?from=0&to=4")[0] == 200
    waiting = server.begin("look", {"model": "small", "text": TEXT})
    assert b'{"waiting":1}' in until(waiting, b'"waiting"')
    assert b'"result"' not in there(busy)  # all of that before the first was done
    busy.close()
    assert b'"result"' in until(waiting, b'"result"')
    waiting.close()


def test_work_of_a_client_that_goes_away_is_dropped(server: Process) -> None:
    for _ in range(3):  # one runs, two wait
        link = server.begin("look", {"model": "small", "text": LONG})
        until(link, b"\r\n\r\n")
        link.close()
    lines = server.post("look", model="small", text=TEXT)
    assert "result" in lines[-1]
    assert [line for line in lines if "waiting" in line][-1:] in ([], [{"waiting": 1}])


def test_a_long_paste_is_refused_before_it_is_read(server: Process) -> None:
    link = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    head = "POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    link.sendall(f"{head}Content-Length: 10000000\r\n\r\n".encode() + b"a" * 1000)
    assert b" 413 " in until(link, b"MB")  # no more of it was sent
    link.close()
    link = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    link.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    for _ in range(12):
        link.sendall(b"186a0\r\n" + b"a" * 100_000 + b"\r\n")
    assert b" 413 " in until(link, b"MB")
    link.close()
    assert "result" in server.post("look", model="small", text=TEXT)[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_at_once_also_while_it_computes(models: Path, kind: signal.Signals) -> None:
    with process("--models", models) as made:
        busy = made.begin("look", {"model": "small", "text": LONG})
        until(busy, b'"done"')
        made.process.send_signal(kind)
        _, said = made.process.communicate(timeout=20)
        assert made.process.returncode == 0
        assert b"Traceback" not in said
        assert b"ERROR" not in said
        busy.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_a_half_sent_body_neither_holds_the_end_up_nor_fails(models: Path) -> None:
    head = "POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    half = f"{head}Content-Length: 1000\r\n\r\n{{".encode()
    with process("--models", models) as made:
        gone = socket.create_connection(("127.0.0.1", made.port), timeout=60)
        gone.sendall(half)
        made.ask("GET", "/api/index")
        gone.close()
        link = socket.create_connection(("127.0.0.1", made.port), timeout=60)
        link.sendall(half)
        made.ask("GET", "/api/index")
        made.process.send_signal(signal.SIGINT)
        assert b"the server was ended" in until(
            link, b"ended"
        )  # told, and not cut off after a wait
        _, said = made.process.communicate(timeout=20)
        assert made.process.returncode == 0
        assert said.decode().splitlines()[2:] == []
        link.close()


def test_a_port_that_is_taken_is_one_line(server: Process) -> None:
    said = refused_start("--port", str(server.port))
    assert f"port {server.port}" in said
    assert "--port 0" in said


def test_for_other_machines_there_is_a_token(models: Path) -> None:
    with process("--models", models, "--host", "0.0.0.0") as made:
        path, _, token = made.address.partition("?token=")
        assert len(token) >= 32
        assert path.endswith(f":{made.port}/")
        assert made.ask("GET", "/")[0] == 403
        assert made.ask("GET", "/api/index")[0] == 403
        assert made.ask("GET", f"/?token={token}")[0] == 200
        status, text = made.ask("GET", "/api/index", None, **{"X-Headwise-Token": token})
        assert status == 200
        assert "small" in json.loads(text)["live"]["models"]


def test_on_this_machine_there_is_none(server: Process) -> None:
    assert server.address == f"http://127.0.0.1:{server.port}/"
