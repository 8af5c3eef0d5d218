"""Imports go down the floors: a module may import its own floor to the left, or a floor below."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "headwise"

FLOORS = (
    (("names",), ("files",)),
    (("core",), ()),
    (("nn",), ("hub",)),
    (("see",), ("check",), ("cut",)),
    (("train",), ("lab",)),
    (("show",), ("cli",), ("__main__",)),
)
"""Bottom up; on a floor a group may import those before it, and rooms of a group each other not at all."""

ROOMS = {
    room: (floor, place)
    for floor, groups in enumerate(FLOORS)
    for place, group in enumerate(groups)
    for room in group
}

MODULES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "headwise" and len(parts) > 1 and parts[1] != "__version__":
                rooms.add(parts[1])
    return rooms


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is on no floor: give it one, or put the file in a room"
    for other in imported_rooms(path) - {room}:
        assert ROOMS[other] < ROOMS[room], (
            f"{path.name} in {room} imports {other}, which is not below"
        )


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_stay_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 350, f"{lines} lines: two things may live in one file"


def test_transformers_is_imported_only_inside_functions():
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            module = getattr(node, "module", "") or ""
            names = [alias.name for alias in getattr(node, "names", [])]
            top = {name.split(".")[0] for name in [module, *names]}
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "transformers" not in top, f"{path} imports transformers when it is imported"
