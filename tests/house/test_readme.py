"""What the README says works: its Python runs, its commands run, and both languages say the same."""

import re

import pytest

from pages_help import ROOT, blocks, prepare, run

READMES = ("README.md", "README.zh-CN.md")


def commands(name: str) -> list[str]:
    lines = [line for block in blocks(name, "bash") for line in block.splitlines()]
    return [without_remarks(line) for line in lines]


def without_remarks(code: str) -> str:
    return "\n".join(re.sub(r"\s*#.*", "", line) for line in code.splitlines())


def test_both_readmes_have_the_same_code():
    english, chinese = READMES
    assert commands(english) == commands(chinese)
    ours = [without_remarks(block) for block in blocks(english, "python")]
    theirs = [without_remarks(block) for block in blocks(chinese, "python")]
    assert ours == theirs


def test_both_readmes_have_the_same_headings():
    counts = [
        len(re.findall(r"^#+ ", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE))
        for name in READMES
    ]
    assert counts[0] == counts[1]


def test_the_first_two_commands_do_everything():
    assert commands("README.md")[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()))
def test_links_lead_somewhere(path):
    assert (ROOT / path).exists()


@pytest.mark.models
def test_the_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what the page saves
    code = "\n".join(blocks("README.md", "python"))
    assert code
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.models
def test_the_probe_of_words_on_the_page_gives_what_records_show():
    import headwise as hw

    (page,) = [block for block in blocks("docs/en/profile.md", "python") if "units=words" in block]
    held = {"hw": hw, "model": hw.load("smollm2")}
    exec(compile(page, "docs/en/profile.md", "exec"), held)
    one, other = (
        record.pattern("1.2", words=True) for record in hw.look(held["model"], held["stories"])
    )
    wanted = (one.sel(query="he", key="Bob") + other.sel(query="she", key="Eve")) / 2
    named = held["named"].sel(layer=1, head=2)
    assert float(named["last_name"]) == pytest.approx(float(wanted), abs=1e-5)
    assert int(named["last_name_count"]) == 2


def test_the_page_on_profiles_names_every_statistic():
    from headwise.see import probes
    from headwise.see.profile.asking import Settings

    page = (ROOT / "docs/en/profile.md").read_text(encoding="utf-8")
    names = [probe.name for probe in probes.BUILT_IN]
    kept = Settings((), {}, 1, 1, 1).statistics
    for name in (*names, *kept, "received", "pooled", "pooled_max"):
        assert f"`{name}`" in page, name


def test_the_page_on_roles_names_every_column():
    from dataclasses import fields

    from headwise.see.roles.role import Role

    page = " ".join((ROOT / "docs/en/roles.md").read_text(encoding="utf-8").split())
    names = [part.name for part in fields(Role) if part.name != "head"]
    assert f"stream, layer, head, {', '.join(names)}." in page


@pytest.mark.parametrize("page", ["profile", "roles", "circuits", "neurons", "audit"])
def test_the_pages_are_linked(page):  # and from the Chinese README those of docs/zh-CN: test_twins
    assert f"](docs/en/{page}.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_on_circuits_names_every_number():
    page = (ROOT / "docs/en/circuits.md").read_text(encoding="utf-8")
    for name in ("copying", "ov_norm", "qk_norm", *(f"{x}_composition" for x in "qkv")):
        assert f"`{name}`" in page, name


def test_the_page_on_neurons_names_every_variable():
    from headwise.see.neurons.found import _SAYS

    page = (ROOT / "docs/en/neurons.md").read_text(encoding="utf-8")
    for name in (*_SAYS, "norm", "share", "raises"):
        assert f"`{name}`" in page, name


def test_the_page_on_audits_names_every_dimension_verdict_and_argument():
    import inspect
    from typing import get_args

    import headwise as hw
    from headwise.check.telling.report import DIMENSIONS, Verdict

    page = (ROOT / "docs/en/audit.md").read_text(encoding="utf-8")
    arguments = [name for name in inspect.signature(hw.audit).parameters if name != "model"]
    for name in (*DIMENSIONS, *get_args(Verdict), *arguments):
        assert f"`{name}`" in page, name


@pytest.mark.models
def test_the_commands_run(tmp_path, monkeypatch, capsys):
    prepare(tmp_path, "README.md")
    monkeypatch.chdir(tmp_path)
    ran = [run(line, capsys) for line in commands("README.md") if line]
    assert sum(ran) >= 3
