"""headwise roles on a small model: what it shows and writes, and each bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from cli_help import Cli

import headwise as hw
from headwise.see import probes

TREE = """# text = {dog} saw it.
1\t{dog}\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tsaw\t_\tVERB\t_\t_\t0\troot\t_\t_
3\tit\t_\tPRON\t_\t_\t2\tobj\t_\tSpaceAfter=No
4\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

"""
NAMES = [
    "Ann",
    "Bea",
    "Cid",
    "Dan",
    "Eve",
    "Fay",
    "Gus",
    "Hal",
    "Ida",
    "Jan",
    "Kim",
    "Leo",
    "Mia",
    "Ned",
    "Ole",
    "Pam",
]


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    path = tmp_path / "trees.conllu"
    path.write_text("".join(TREE.format(dog=name) for name in NAMES), encoding="utf-8")
    return path


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    lines = [f"{name} saw it and {name} sat at it, a cat too." for name in NAMES]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_what_is_shown(cli: Cli, folder: Path, story: Path) -> None:
    answer = cli("roles", story, "--lines", "-m", folder)
    assert answer.code == 0
    shown = " ".join(answer.out.split())
    assert "2 layers x 6 heads (2 KV heads)" in shown
    assert "16 texts" in shown
    assert "32 rows of random tokens" in shown
    assert f"previous: {probes.previous.says}; attention, baseline" in shown
    assert "induction_random: the token after the last earlier occurrence" in shown
    assert "pairs of probe and head tried" in shown
    assert "kv: heads between bars share keys and values" in shown
    assert "next: what they name lies ahead, where this model may not look" in shown
    assert "recomputed head outputs within" in answer.err


def test_what_is_written(cli: Cli, folder: Path, trees: Path, tmp_path: Path) -> None:
    for kind in ("json", "csv", "md", "nc"):
        out = tmp_path / f"roles.{kind}"
        answer = cli("roles", "--conllu", trees, "-m", folder, "-o", out)
        assert (answer.code, f"wrote {out}" in answer.err) == (0, True)
    found = hw.load_roles(tmp_path / "roles.nc")
    assert {"nsubj_to_dependent", "obj_to_head", "same_token_random"} <= set(found.probes)
    data = json.loads((tmp_path / "roles.json").read_text(encoding="utf-8"))
    assert set(data) == {"about", "probes", "heads"}
    assert [head["id"] for head in data["heads"]] == [f"{i}.{h}" for i in (0, 1) for h in range(6)]
    assert data["about"]["tried"] == found.tried
    rows = pd.read_csv(tmp_path / "roles.csv")
    assert len(rows) == len(list(found.pairs()))
    md = (tmp_path / "roles.md").read_text(encoding="utf-8")
    best = found.best("obj_to_head", 1)[0]
    assert f"| obj_to_head | {best.head} | {best.score:.3f} | accuracy |" in md


def test_the_same_text_is_run_once(cli: Cli, folder: Path, trees: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text("Ann saw it.\nSomeone else.\n", encoding="utf-8")
    answer = cli("roles", more, "--lines", "--conllu", trees, "-m", folder)
    assert "17 texts" in answer.out
    twice = cli("roles", trees, "--conllu", trees, "--conllu", trees, "-m", folder, "--limit", "9")
    assert "9 texts" in twice.out
    assert "obj_to_head" in twice.out


def test_probes_by_name(cli: Cli, folder: Path, trees: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.nc"
    names = ("--probe", "obj", "--probe", "induction_random")
    assert cli("roles", "--conllu", trees, "-m", folder, *names, "-o", out).code == 0
    assert hw.load_roles(out).probes == ["obj_to_head", "obj_to_dependent", "induction_random"]
    answer = cli("roles", "--conllu", trees, "-m", folder, "--probe", "iobj")
    assert answer.code == 1
    assert "there is no probe 'iobj' in what is read; there are previous" in answer.err


def test_all_of_one_head(cli: Cli, folder: Path, trees: Path) -> None:
    answer = cli("roles", "--conllu", trees, "-m", folder, "--head", "1.4", "--top", "2")
    assert answer.code == 0
    shown = " ".join(answer.out.split())
    assert "1.4" in shown
    assert "(KV group 1)" in shown
    for told in ("entropy, nats", "largest weight", "received by the first token", "obj_to_head"):
        assert told in shown
    assert shown.count("→") >= 2
    assert "[" in shown


def test_pictures(cli: Cli, folder: Path, story: Path, tmp_path: Path) -> None:
    png, svg = tmp_path / "r.png", tmp_path / "r.svg"
    answer = cli("roles", story, "--lines", "-m", folder, "--png", png, "--svg", svg)
    assert (answer.code, png.stat().st_size > 3000) == (0, True)
    assert "the role of the head (heads)" in svg.read_text(encoding="utf-8")


def test_chinese(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "书.txt"
    path.write_text("\n".join(f"小明把书还给了图书馆{i}。" for i in range(16)), encoding="utf-8")
    answer = cli("roles", path, "--lines", "-m", folder, "--head", "0.0")
    assert answer.code == 0
    assert "→" in answer.out
    assert "书" in answer.out


def test_a_single_text_is_too_few(cli: Cli, folder: Path, story: Path) -> None:
    answer = cli("roles", story, "-m", folder)
    assert answer.code == 0
    assert "fewer than 5 texts in a half, so no role is claimed; give more texts" in " ".join(
        answer.out.split()
    )


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ((), 2, "give texts: headwise roles FILE, or --conllu, --coref or --align FILE"),
        (("missing.txt",), 1, "missing.txt cannot be read: No such file"),
        (("empty.txt",), 1, "no text in empty.txt"),
        (("--conllu", "empty.txt"), 1, "no sentence in empty.txt"),
        (("--coref", "empty.jsonl"), 1, "no text with mentions in empty.jsonl"),
        (("--align", "empty.jsonl"), 1, "no alignment in empty.jsonl"),
        (("--align", "empty.jsonl", "x.txt"), 2, "--align brings its own texts and targets"),
        (("x.txt", "--head", "six"), 2, "'six' is no head id; write it as 18.6"),
        (("x.txt", "--head", "9.0"), 1, "there is no head 9.0: the layers of"),
        (("x.txt", "--head", "1.9"), 1, "there is no head 1.9: layer 1 has the heads 1.0 to 1.5"),
        (("x.txt", "-o", "r.xls"), 1, "must end in one of .csv, .json, .md, .nc"),
        (("x.txt", "-o", "no/r.md"), 1, "the table of roles cannot be written to no/r.md"),
        (("x.txt", "--png", "r.svg"), 1, "--png cannot write 'r.svg'"),
        (("x.txt", "--target", "x.txt"), 1, "reads one text and writes no other"),
        (("x.txt", "--probe", "nope"), 1, "there is no probe 'nope' in what is read"),
        (
            ("x.txt", "--probe", "induction_random", "--context", "6"),
            1,
            "induction_random: left out, the context of 6 tokens is too short",
        ),
    ],
)
def test_mistakes(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch, arguments, code: int, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("it is a text of words", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    answer = cli("roles", "-m", folder, *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert line in answer.err
    assert len([one for one in answer.err.splitlines() if line in one]) == 1


def test_a_probe_of_random_tokens_alone(cli: Cli, folder: Path, story: Path) -> None:
    asked = ("--probe", "induction_random")
    answer = cli("roles", story, "--lines", "-m", folder, *asked)
    assert answer.code == 0, answer.err
    assert "induction_random: the token after" in " ".join(answer.out.split())
    assert "previous:" not in answer.out
    answer = cli("roles", story, "--lines", "-m", folder, *asked, "--head", "0.0")
    assert answer.code == 0, answer.err
    assert "induction_random" in answer.out


def test_a_broken_tree_is_named_and_the_rest_used(cli: Cli, folder: Path, trees: Path) -> None:
    good = trees.read_text(encoding="utf-8")
    trees.write_text(good + "# text = One more.\n1\tOne\t_\n\n", encoding="utf-8")
    answer = cli("roles", "--conllu", trees, "-m", folder)
    assert answer.code == 0
    assert f"headwise: {trees}, line 98" in answer.err
    assert "16 texts" in answer.out


def test_ctrl_c_shows_what_is_done(
    cli: Cli, folder: Path, story: Path, monkeypatch, tmp_path
) -> None:
    """After the first of several batches; what was read by then is judged, shown and written."""
    import os
    import signal

    from headwise.see.profile.profiler import Profiler

    add = Profiler.add

    def added(self: Profiler, batch) -> None:
        add(self, batch)
        if self.batches == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Profiler, "add", added)
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 200)
    out = tmp_path / "r.md"
    answer = cli("roles", story, "--lines", "-m", folder, "-o", out, "--head", "0.0")
    assert answer.code == 130
    assert "headwise: interrupted; " in answer.err
    assert f"are done and judged and in {out}" in answer.err
    assert "| previous |" in out.read_text(encoding="utf-8")
    assert "on each probe" in answer.out
