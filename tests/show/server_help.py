"""What the tests of the server share: a small model in a folder, and a server in this process or one of its own."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from starlette.testclient import TestClient

from headwise.show.server.app import served
from headwise.show.server.settings import Settings, offered

HOST = "http://localhost:8642"
CONTEXT = 1500
TEXT = "it sat at it"


def small_model(folder: Path, context: int = CONTEXT) -> Path:
    """A Llama over bytes in a folder: 2 layers of 6 heads in 2 KV groups."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: i for i, piece in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, head_dim=4, max_position_embeddings=context,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    return folder


class Asked:
    """A server in this process, asked as its page asks it."""

    def __init__(self, models: Path | None = None, **settings: Any) -> None:
        names, folder = offered([], models)
        self.app = served(Settings(names, **settings), folder)
        self.http = TestClient(self.app, base_url=HOST, raise_server_exceptions=False)

    def lines(self, what: str, **body: Any) -> list[dict[str, Any]]:
        kind = {"content-type": "application/json"}
        answer = self.http.post(f"/api/{what}", content=json.dumps(body), headers=kind)
        return [json.loads(line) for line in answer.text.splitlines()]

    def result(self, what: str, **body: Any) -> dict[str, Any]:
        last = self.lines(what, **body)[-1]
        assert "result" in last, last
        found: dict[str, Any] = last["result"]
        return found

    def error(self, what: str, **body: Any) -> str:
        last = self.lines(what, **body)[-1]
        assert set(last) == {"error"}, last
        line: str = last["error"]
        assert line
        assert "\n" not in line
        return line


class Process:
    """`headwise serve` in a process of its own."""

    def __init__(self, *arguments: str | Path) -> None:
        path = os.pathsep.join(p for p in sys.path if p)
        command = [sys.executable, "-c", "from headwise.cli import main; main()", "serve"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().decode().strip()
        assert self.address, self.process.communicate()[1].decode()
        self.port = urlsplit(self.address).port or 0

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """One request, to the end of its answer."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        link.request(method, path, data, {**kind, **headers})
        answer = link.getresponse()
        text = answer.read().decode("utf-8", "replace")
        link.close()
        return answer.status, text

    def post(self, what: str, **body: Any) -> list[dict[str, Any]]:
        _, text = self.ask("POST", f"/api/{what}", body)
        return [json.loads(line) for line in text.splitlines()]

    def begin(self, what: str, body: Any) -> socket.socket:
        """A request that was sent, on the connection that awaits its answer."""
        data = json.dumps(body).encode()
        link = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        head = f"POST /api/{what} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        link.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return link


def refused_start(*arguments: str | Path) -> str:
    """The one line with which a server does not start."""
    path = os.pathsep.join(p for p in sys.path if p)
    command = [
        sys.executable,
        "-c",
        "from headwise.cli import main; main()",
        "serve",
        *map(str, arguments),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    said = done.stderr.decode()
    assert done.returncode in (1, 2)
    assert said.count("\n") == 1, said
    return said


@contextmanager
def process(*arguments: str | Path) -> Iterator[Process]:
    """A server that is ended, whatever happens."""
    made = Process(*arguments)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate(timeout=30)


def until(link: socket.socket, wanted: bytes) -> bytes:
    """What comes until these bytes are there."""
    read = b""
    while wanted not in read:
        part = link.recv(65536)
        assert part, read[-300:]
        read += part
    return read


def there(link: socket.socket) -> bytes:
    """What has come, without waiting for more."""
    link.setblocking(False)
    read = b""
    with suppress(BlockingIOError):
        while part := link.recv(1 << 20):
            read += part
    return read


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Another site: the files of a folder under an address of their own."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
