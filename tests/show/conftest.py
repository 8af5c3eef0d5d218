"""What tests of the server start from: a folder with a small model, a server in this process or its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from server_help import Asked, Process


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from server_help import small_model

    folder = tmp_path_factory.mktemp("models")
    small_model(folder / "small")
    return folder


@pytest.fixture(scope="module")
def asked(models: Path) -> Asked:
    from server_help import Asked

    return Asked(models)


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Process]:
    from server_help import process

    with process("--models", models) as made:
        yield made
