"""What is in a wheel and in an sdist, held against the files that git tracks."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from outcome import Outcome, failed, passed

SOURCE = "src/"
NEEDED_IN_WHEEL = {
    "its license": "headwise-*.dist-info/licenses/LICENSE",
    "the command": "headwise-*.dist-info/entry_points.txt",
    "the types' mark": "headwise/py.typed",
    "recipes": "headwise/train/recipes/*.toml",
    "mini's weights": "headwise/hub/mini/model.safetensors",
    "mini's tokenizer": "headwise/hub/mini/tokenizer.json",
    "the viewer's scripts": "headwise/show/web/viewer/*.js",
    "the viewer's styles": "headwise/show/web/viewer/shell/*.css",
}
NEEDED_IN_SDIST = {
    "its license": "LICENSE",
    "the kernel's build": "kernel/CMakeLists.txt",
    "the kernel's sources": "kernel/*.cpp",
    "the kernel's headers": "kernel/*.h",
    "the tested versions": "constraints.txt",
    "the changelog": "CHANGELOG.md",
    "both READMEs": "README*.md",
}
KERNEL = "headwise/_kernel"
SHOWN = 4


def wheel_outcomes(wheel: Path, tracked: Collection[str], compiler: bool) -> Iterator[Outcome]:
    """What is told of a wheel.

    Args:
        wheel: The file.
        tracked: The files that git tracks, relative to the repository's root.
        compiler: Whether a C++ compiler was there when it was built.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names, broken = archive.namelist(), archive.testzip()
    except zipfile.BadZipFile as error:
        yield failed(f"{wheel.name} can be read", str(error))
        return
    if broken:
        yield failed(f"{wheel.name} can be read", f"{broken} is damaged")
        return
    kernels = [n for n in names if n.startswith(KERNEL) and n.endswith((".so", ".pyd"))]
    held = {name for name in names if ".dist-info/" not in name} - set(kernels)
    wanted = {name.removeprefix(SOURCE) for name in tracked if name.startswith(SOURCE)}
    yield same("the wheel holds the package and nothing else", held, wanted)
    yield needed("the wheel holds what it needs", names, NEEDED_IN_WHEEL)
    yield kernel_outcome(wheel.name, kernels, compiler)


def kernel_outcome(wheel: str, kernels: list[str], compiler: bool) -> Outcome:
    """Whether the kernel is in the wheel where it can be, and whether the wheel's name says so."""
    what = "the wheel holds the kernel where a compiler is, and its name says so"
    anywhere = wheel.endswith("-none-any.whl")
    if len(kernels) > 1:
        return failed(what, f"{len(kernels)} of them: {', '.join(kernels)}")
    if kernels and anywhere:
        return failed(what, f"{kernels[0]} in a wheel for any platform, {wheel}")
    if compiler and not kernels:
        return failed(what, f"no kernel in {wheel}, and there is a compiler")
    if not kernels and not anywhere:
        return failed(what, f"no kernel in {wheel}, which is named for one platform")
    return passed(what, kernels[0] if kernels else f"no compiler, no kernel: {wheel}")


def sdist_outcomes(sdist: Path, tracked: Collection[str]) -> Iterator[Outcome]:
    """What is told of an sdist; `tracked` are the files that git tracks."""
    try:
        with tarfile.open(sdist) as archive:
            names = [member.name for member in archive.getmembers() if not member.isdir()]
    except (tarfile.TarError, EOFError, OSError) as error:
        yield failed(f"{sdist.name} can be read", str(error) or type(error).__name__)
        return
    top = sdist.name.removesuffix(".tar.gz") + "/"
    outside = [name for name in names if not name.startswith(top)]
    if outside:
        yield failed(f"{sdist.name} can be read", f"{outside[0]} lies outside {top}")
        return
    held = {name.removeprefix(top) for name in names} - {"PKG-INFO"}
    yield same("the sdist holds what git tracks and nothing else", held, set(tracked))
    yield needed("the sdist holds what it needs", held, NEEDED_IN_SDIST)


def same(what: str, held: Collection[str], wanted: Collection[str]) -> Outcome:
    """Whether the same files are held as wanted; else which are too many and which are missing."""
    stray, missing = sorted(set(held) - set(wanted)), sorted(set(wanted) - set(held))
    if not stray and not missing:
        return passed(what, f"{len(held)} files")
    said = [
        f"{len(files)} {how}: {', '.join(files[:SHOWN])}{', ...' if len(files) > SHOWN else ''}"
        for how, files in (("stray", stray), ("missing", missing))
        if files
    ]
    return failed(what, "; ".join(said))


def needed(what: str, names: Collection[str], patterns: dict[str, str]) -> Outcome:
    """Whether there is at least one file for each pattern."""
    lacking = [
        f"{name} ({pattern})" for name, pattern in patterns.items() if not matching(names, pattern)
    ]
    return (
        failed(what, f"not {', '.join(lacking)}") if lacking else passed(what, ", ".join(patterns))
    )


def matching(names: Collection[str], pattern: str) -> list[str]:
    """The names that are like the pattern, folder by folder."""
    depth = pattern.count("/")
    return [n for n in names if n.count("/") == depth and PurePosixPath(n).match(pattern)]
