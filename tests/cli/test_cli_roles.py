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
    assert "next: what is named lies ahead, where this model may not look" in shown
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
    assert "obj in trees.conllu: the dependent looks" in " ".join(twice.out.split())


def test_a_limit_counts_for_each_source(
    cli: Cli, folder: Path, trees: Path, tmp_path: Path
) -> None:
    """Four sentences, three texts with coreference, two lines: none keeps another from being read."""
    coref, more, out = tmp_path / "c.jsonl", tmp_path / "more.txt", tmp_path / "r.nc"
    entry = '{{"text": "{0} saw {0}.", "clusters": [[[0, 3], [8, 11]]]}}'
    coref.write_text("\n".join(entry.format(name) for name in NAMES), encoding="utf-8")
    more.write_text("Ann saw it.\nSomeone else.\nMore.\nAnd more.\n", encoding="utf-8")
    arguments = ("--lines", "--conllu", trees, "--coref", coref, "-m", folder, "-o", out)
    answer = cli("roles", more, *arguments, "--limit", "4")
    assert answer.code == 0, answer.err
    assert "11 texts" in answer.out  # one of the lines is a sentence of the treebank
    found = hw.load_roles(out).evidence
    cases = found["cases"].sel(probe="coreference").values.max()
    assert 0 < cases <= 4


def test_two_treebanks_are_both_named(cli: Cli, folder: Path, trees: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.conllu"
    other.write_text(trees.read_text(encoding="utf-8").replace("saw", "sees"), encoding="utf-8")
    answer = cli("roles", "--conllu", trees, "--conllu", other, "-m", folder)
    shown = " ".join(answer.out.split())
    assert "32 texts" in shown
    assert "obj in trees.conllu and obj in other.conllu: the dependent looks at its head;" in shown


def test_probes_by_name(cli: Cli, folder: Path, trees: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.nc"
    names = ("--probe", "obj", "--probe", "induction_random")
    assert cli("roles", "--conllu", trees, "-m", folder, *names, "-o", out).code == 0
    assert hw.load_roles(out).probes == ["obj_to_head", "obj_to_dependent", "induction_random"]
    answer = cli("roles", "--conllu", trees, "-m", folder, "--probe", "iobj")
    assert answer.code == 1
    assert f"{trees}: no relation 'iobj' (it never occurs); there are: " in answer.err
    assert "nsubj" in answer.err
    assert "and other probes: previous, next" in answer.err
    assert "nsubj_to" not in answer.err


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
    assert "the role of the head; in brackets how many heads" in svg.read_text(encoding="utf-8")


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
    assert "\n1 text, " in answer.out
    told = "no role is claimed; give more texts (--lines reads each line of a file as one)"
    assert told in " ".join(answer.out.split())


def test_lines_are_no_advice_to_a_treebank(cli: Cli, folder: Path, trees: Path) -> None:
    answer = cli("roles", "--conllu", trees, "-m", folder, "--limit", "3")
    shown = " ".join(answer.out.split())
    assert "so no role is claimed; give more texts" in shown
    assert "too few texts to say" in shown
    assert "--lines" not in shown


def test_a_long_text_is_soon_shown(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("one two three " * 1500, encoding="utf-8")
    answer = cli("roles", path, "-m", folder, "--head", "1.0", "--context", "300")
    assert (answer.code, "…" in answer.out) == (0, True)


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


@pytest.mark.parametrize(
    ("broken", "last"), [(7, ""), (41, "1 more is left out"), (43, "3 more are")]
)
def test_every_broken_tree_is_named(
    cli: Cli, folder: Path, trees: Path, broken: int, last: str
) -> None:
    good = trees.read_text(encoding="utf-8")
    trees.write_text(good + "1\tOne\t_\n\n" * broken, encoding="utf-8")
    answer = cli("roles", "--conllu", trees, "-m", folder)
    named = [line for line in answer.err.splitlines() if ", line " in line]
    assert len(named) == min(broken, 40)
    assert named[-1].startswith(f"headwise: {trees}, line {97 + 2 * (len(named) - 1)}: ")
    assert (last in answer.err) if last else ("more" not in answer.err)


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
    written = out.read_text(encoding="utf-8")
    assert "| previous |" in written
    assert "on each probe" in answer.out
    shown = " ".join(answer.out.split())
    for told in (
        "interrupted: judged on the ",
        "induction_random, same_token_random: left out, interrupted before the random tokens were run",
        "interrupted before the strongest cases of 0.0 were looked for",
    ):
        assert (told in shown, told in written) == (True, True), told


def test_ctrl_c_while_cases_are_looked_for(
    cli: Cli, folder: Path, story: Path, monkeypatch, tmp_path
) -> None:
    import os
    import signal

    from headwise.see.roles.examples import Finder

    add = Finder.add

    def added(self: Finder, batch) -> None:
        add(self, batch)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("headwise.cli.roles.running.Finder.add", added)
    monkeypatch.setattr("headwise.cli.roles.running._check_head", lambda *_: None)
    monkeypatch.setattr("headwise.see.texts.packing.MOST_TOKENS", 200)
    out = tmp_path / "r.md"
    answer = cli("roles", story, "--lines", "-m", folder, "-o", out, "--head", "0.0")
    assert answer.code == 130
    told = "those shown are of a part of the texts"
    assert told in " ".join(answer.out.split())
    assert told in out.read_text(encoding="utf-8")
    assert "judged on the" not in answer.out
