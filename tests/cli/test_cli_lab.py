"""headwise lab: claims listed, run, gone on with, refused."""

import json

import pytest

import lab_help
from headwise.lab.keeping import held


@pytest.fixture
def lessons(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lab_help.registered(monkeypatch, tmp_path / "lessons")


@pytest.fixture
def text(tmp_path):
    return lab_help.text_file(tmp_path)


def counted(monkeypatch):
    """How often the claim was measured."""
    calls = []

    def measure(bench, case, seed):
        calls.append((dict(case), seed))
        return lab_help.measure(bench, case, seed)

    monkeypatch.setattr(lab_help, "CLAIM", lab_help.claim(measure=measure))
    return calls


def test_the_list_names_each_claim(cli, lessons):
    answer = cli("lab")
    assert answer.code == 0
    assert answer.out.split()[-3:] == ["C99", "tiny", "Doubling"]
    assert cli("lab", "--json", "-").data["claims"][0]["row"] == "C99"


def test_a_run_tells_and_writes(cli, lessons, text, tmp_path):
    answer = cli("lab", "tiny", "--quick", "--text", text, "-o", "runs")
    assert answer.code == 0, answer.err
    for told in ("C99  Doubling", "What is twice", "Verdict: holds. It doubles", "grows by: 2.0"):
        assert told in answer.out
    names = {path.name for path in (tmp_path / "runs").iterdir()}
    assert names == {
        *(f"tiny.{ending}" for ending in ("jsonl", "md", "html", "png", "svg")),
        *("index.md", "index.html", ".headwise.lock"),
    }
    report = (tmp_path / "runs" / "tiny.md").read_text(encoding="utf-8")
    assert "def _doubled" in report
    assert "HALF = 0.5" in report
    assert "a fact" in report
    assert "def judge" not in report
    listed = cli("lab", "-o", "runs")
    assert listed.out.split()[-1] == "holds"


def test_nothing_is_measured_twice(cli, lessons, text, monkeypatch, tmp_path):
    calls = counted(monkeypatch)
    command = ("lab", "C99", "--quick", "--text", text, "-o", "runs")
    assert cli(*command).code == 0
    assert len(calls) == 4
    kept = tmp_path / "runs" / "tiny.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines(keepends=True)
    kept.write_text("".join(lines[:3]) + lines[3][:20], encoding="utf-8")  # killed in a line
    before = cli("lab", "-o", "runs")
    assert "unfinished" in before.out
    assert cli(*command).code == 0
    assert len(calls) == 6
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 5
    assert cli(*command).code == 0
    assert len(calls) == 6


def test_both_languages(cli, lessons, text, tmp_path):
    answer = cli("lab", "tiny", "--quick", "--text", text, "--lang", "zh-CN")
    assert "结论: 成立" in answer.out
    page = (tmp_path / "lab" / "tiny.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN">' in page
    assert "一个事实" in page
    assert "加倍" in (tmp_path / "lab" / "index.md").read_text(encoding="utf-8")


def test_json_holds_cases_and_verdict(cli, lessons, text):
    found = cli("lab", "all", "--quick", "--text", text, "--json", "-").data["claims"]["tiny"]
    assert found["verdict"] == "holds"
    assert [case["size"] for case in found["cases"]] == [1, 2]
    assert found["cases"][1]["double"]["mean"] == pytest.approx(4, abs=0.1)
    assert found["findings"][0]["holds"] is True


def test_two_folders_are_held_together(cli, lessons, text, tmp_path):
    for seed in "01":
        assert cli("lab", "tiny", "--text", text, "-o", seed, "--seed", seed).code == 0
    answer = cli("lab", "--compare", "0", "1", "--json", "found.json")
    assert answer.code == 0
    assert "growth" in answer.out
    assert json.loads((tmp_path / "found.json").read_text())["agree"] is True
    kept = tmp_path / "1" / "tiny.jsonl"
    head, *rows = kept.read_text(encoding="utf-8").splitlines()
    turned = [json.loads(row) for row in rows]
    for row in turned:
        row["numbers"]["double"] *= -1
    kept.write_text("\n".join([head, *map(json.dumps, turned)]) + "\n", encoding="utf-8")
    answer = cli("lab", "--compare", "0", "1")
    assert answer.code == 1
    assert "holds / fails here" in answer.out
    assert "differing: tiny" in answer.err


def test_the_course_has_every_lesson(cli, lessons, text, tmp_path):
    for seed in "01":
        assert cli("lab", "tiny", "--text", text, "-o", seed, "--seed", seed).code == 0
    answer = cli("lab", "--course", "0", "--second", "1", "-o", "claims.md")
    assert answer.code == 0, answer.err
    course = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert "| C99 | [tiny](#c99--doubling) | Doubling | holds | agrees |" in course
    assert "\n## C99 · Doubling\n" in course
    assert "\n```python shown\n" in course
    assert "\n### Code\n" in course
    assert "(pictures/tiny.svg)" in course
    assert "seed 1) agrees" in course
    assert (tmp_path / "pictures" / "tiny.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("heads7",), 1, "is no claim of the lab; there are tiny"),
        (("tiny", "--text", "nothing.txt"), 1, "nothing.txt"),
        (("tiny", "--text", "short.txt"), 1, "trains on 200,000 or more"),
        (("tiny", "--text", "TEXT", "--device", "nowhere"), 1, "device 'nowhere' cannot be used"),
        (("tiny", "--text", "TEXT", "-o", "short.txt"), 1, "is a file"),
        (("tiny", "--text", "TEXT", "-o", "notes"), 1, "index.md is there"),
        (("tiny", "--text", "TEXT", "-o", "other"), 1, "holds no measurements of the lab"),
        (("tiny", "--text", "TEXT", "-o", "/proc/lab"), 1, "/proc/lab"),
        (("-o", "nowhere"), 1, "is no folder"),
        (("-o", "notes"), 1, "holds no run of the lab"),
        (("--compare", "notes", "other"), 1, "holds no run"),
        (("--course", "notes", "-o", "c.md"), 1, "holds no run"),
        (("--course", "notes"), 2, "give -o FILE"),
        (("--second", "notes"), 2, "--second is of --course"),
        (("tiny", "--compare", "a", "b"), 2, "ask for one of them"),
        (("--quick",), 2, "name claims, or all"),
    ],
)
def test_mistakes_are_one_line(cli, lessons, text, tmp_path, arguments, code, says):
    (tmp_path / "short.txt").write_text("too short", encoding="utf-8")
    for name, file in (("notes", "index.md"), ("other", "tiny.jsonl")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("mine\n", encoding="utf-8")
    answer = cli("lab", *(str(text) if one == "TEXT" else one for one in arguments))
    assert answer.code == code
    assert says in answer.err
    assert code == 2 or len(answer.err.splitlines()) == 1
    for name, file in (("notes", "index.md"), ("other", "tiny.jsonl")):
        assert (tmp_path / name / file).read_text(encoding="utf-8") == "mine\n"


def test_a_second_process_in_the_folder_is_refused(cli, lessons, text, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    command = ("lab", "tiny", "--quick", "--text", text, "-o", "runs")
    with held(tmp_path / "runs"):
        answer = cli(*command)
    assert answer.code == 1
    assert "another process measures in runs" in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not calls
    assert cli(*command).code == 0
    assert len(calls) == 4


def test_another_run_in_the_folder_is_refused(cli, lessons, text):
    assert cli("lab", "tiny", "--quick", "--text", text).code == 0
    answer = cli("lab", "tiny", "--text", text)
    assert answer.code == 1
    assert "quick=True" in answer.err
