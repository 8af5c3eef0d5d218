"""What the guides say works: every block runs, every picture has its command; test_twins holds both languages."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from headwise.lab.claims import CLAIMS
from pages_help import ROOT, blocks, guides, prepare, run, statements, text_of

GIVEN = {
    "docs/en/page.md": "import headwise as hw\nmodel, text = hw.load('mini'), 'And there was light'",
}
"""What a page takes as given before its first line of Python."""

ELSEWHERE = {
    "docs/en/models.md": "tests/hub/test_torch_attention_models.py",
    "docs/en/blocks.md": "tests/nn/test_nn_page.py",
    "docs/en/reach.md": "tests/house/test_reach_page.py",
}
"""Pages whose blocks another test runs, which looks at what they give too."""

RUNS = {"bash", "python", "toml"}
SHOWN = {"", "text", "console", "yaml", "python shown", "bash shown"}
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
BYTES = 150 * 1024


def pages_with(language: str) -> list[str]:
    return [page for page in guides() if blocks(page, language) and page not in ELSEWHERE]


def images() -> list[tuple[str, str]]:
    pages = [*guides(), *guides("zh-CN"), "README.md", "README.zh-CN.md"]
    return [(page, image) for page in pages for image in PICTURE.findall(text_of(page))]


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_pages_run_elsewhere_are(page, test):
    assert Path(page).stem in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.models
@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_of_a_guide_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join([GIVEN.get(page, ""), *blocks(page, "python")])
    exec(compile(code, page, "exec"), {})


@pytest.mark.models
@pytest.mark.parametrize("page", pages_with("bash"))
def test_the_commands_of_a_guide_run(page, tmp_path, monkeypatch, capsys):
    prepare(tmp_path, page)
    monkeypatch.chdir(tmp_path)
    ran = [run(line, capsys) for block in blocks(page, "bash") for line in statements(block)]
    assert any(ran)
    for made in (ROOT / "docs/en/pictures").iterdir():
        if f"docs/en/pictures/{made.name}" in "".join(blocks(page, "bash")):
            assert (tmp_path / "docs/en/pictures" / made.name).stat().st_size > 0


@pytest.mark.parametrize("page", [*guides(), *guides("zh-CN")])
def test_every_fence_says_whether_it_runs(page):
    opened = re.findall(r"^```(.*)\n(?:.*\n)*?```$", text_of(page), flags=re.MULTILINE)
    assert set(opened) <= RUNS | SHOWN


@pytest.mark.parametrize(
    ("page", "image"), images() or [pytest.param("", "", marks=pytest.mark.skip)]
)
def test_every_picture_is_there_small_and_made_by_a_command_on_its_page(page, image):
    path = ((ROOT / page).parent / image).resolve()
    assert path.stat().st_size < BYTES
    place = path.relative_to(ROOT).as_posix()
    typed = [shlex.split(line) for block in blocks(page, "bash") for line in statements(block)]
    assert any(place in writes(words) for words in typed), f"no command on {page} writes {place}"


def writes(words: list[str]) -> list[str]:
    """What a command names; of a course, the picture of each claim, which it puts beside the page."""
    if "--course" not in words:
        return words
    page = Path(words[words.index("-o") + 1])
    return [(page.parent / "pictures" / f"{name}.svg").as_posix() for name in CLAIMS]


@pytest.mark.parametrize(("language", "place"), [("en", "docs/en"), ("zh-CN", "docs/zh-CN")])
def test_the_picture_of_the_inside_is_what_its_command_draws(language, place):
    spec = importlib.util.spec_from_file_location("inside", ROOT / "docs/inside.py")
    assert spec is not None
    assert spec.loader is not None
    inside = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inside)
    drawn = (ROOT / place / "pictures/inside.svg").read_text(encoding="utf-8")
    assert drawn == inside.picture(language)


def reference() -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / "docs/reference").glob("*.md")))


def public() -> list[str]:
    import headwise as hw

    names = [f"headwise.{name}" for name in hw.__all__ if name not in ("masks", "nn", "probes")]
    for room in ("masks", "nn", "probes"):
        names += [f"headwise.{room}.{name}" for name in getattr(hw, room).__all__]
    return names


@pytest.mark.parametrize("name", public())
def test_every_public_name_is_in_the_reference_and_documented(name):
    told = re.findall(rf"^\.\. \S+:: {re.escape(name)}$", reference(), flags=re.MULTILINE)
    assert len(told) == 1
    import headwise as value

    for part in name.split(".")[1:]:
        value = getattr(value, part)
    assert (value.__doc__ or "").strip()


def test_the_site_lists_every_guide():
    contents = (ROOT / "docs/site/contents.py").read_text(encoding="utf-8")
    for page in guides():
        assert f'"{Path(page).stem}"' in contents, f"{page} is on no page of contents"
