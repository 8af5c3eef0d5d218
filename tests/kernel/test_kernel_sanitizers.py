"""The kernel's own sources under AddressSanitizer and UBSan: thousands of random calls in tight memory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "kernel"
FLAGS = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"],
}
ROUNDS = 1500
SANITIZED = ["-std=c++17", "-g", "-O1", "-w", "-DHEADWISE_X86", "-fsanitize=address,undefined"]


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler (g++ or clang++)")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"the kernel is for x86-64, this is {platform.machine()}")
    folder = tmp_path_factory.mktemp("fuzz")
    common = [compiler, *SANITIZED, "-fno-sanitize-recover=all"]
    compiling = [
        subprocess.Popen(
            [*common, *flags, "-c", str(SOURCES / f"{name}.cpp"), "-o", f"{name}.o"], cwd=folder
        )
        for name, flags in FLAGS.items()
    ]
    assert [one.wait() for one in compiling] == [0, 0]
    rest = [str(SOURCES / name) for name in ("run.cpp", "threads.cpp", "fuzz.cpp")]
    link = [*common, *rest, *(f"{name}.o" for name in FLAGS), "-o", "fuzz", "-ldl", "-lpthread"]
    subprocess.run(link, cwd=folder, check=True)
    return folder / "fuzz"


@pytest.mark.parametrize("name", FLAGS)
def test_random_calls_stay_in_their_memory_and_are_right(fuzz: Path, name: str) -> None:
    seed = "1" if "CI" in os.environ else str(int.from_bytes(os.urandom(4), "big"))
    done = subprocess.run([fuzz, name, str(ROUNDS), seed], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    said = f"fuzz {name} {ROUNDS} {seed}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, said
    assert "0 failures" in done.stdout, said
