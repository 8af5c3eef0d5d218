"""What release/check.py tells of archives and repositories that were made up, most of them broken."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "release"))

import archives  # noqa: E402
import check  # noqa: E402
import installing  # noqa: E402
import jobs  # noqa: E402
import state  # noqa: E402
from outcome import Outcome, failed, passed  # noqa: E402

KERNEL = "headwise/_kernel.cpython-311-x86_64-linux-gnu.so"
INFO = ("LICENSE", "METADATA", "WHEEL", "entry_points.txt", "RECORD")
WHEEL, ANYWHERE = "headwise-1.0-cp311-cp311-linux_x86_64.whl", "headwise-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    return state.tracked(ROOT)


def wheel(at: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(at, "w") as archive:
        for name in names:
            archive.writestr(name, b"something")
    return at


def sdist(at: Path, names: list[str], top: str = "headwise-1.0/") -> Path:
    with tarfile.open(at, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(top + name), io.BytesIO())
    return at


def whole(tracked: list[str]) -> list[str]:
    package = [name.removeprefix("src/") for name in tracked if name.startswith("src/")]
    info = [f"headwise-1.0.dist-info/{'licenses/' * (name == 'LICENSE')}{name}" for name in INFO]
    return [*package, *info, KERNEL]


def failures(found) -> str:
    return "\n".join(str(outcome) for outcome in found if not outcome.ok)


def test_a_whole_wheel_and_a_whole_sdist_pass(tmp_path, tracked) -> None:
    for name, files, compiler in (
        (WHEEL, whole(tracked), True),
        (ANYWHERE, [n for n in whole(tracked) if n != KERNEL], False),
    ):
        found = list(archives.wheel_outcomes(wheel(tmp_path / name, files), tracked, compiler))
        assert len(found) == 3
        assert not failures(found)
    made = sdist(tmp_path / "headwise-1.0.tar.gz", [*tracked, "PKG-INFO"])
    found = list(archives.sdist_outcomes(made, tracked))
    assert len(found) == 2
    assert not failures(found)


@pytest.mark.parametrize("pattern", archives.NEEDED_IN_WHEEL.values())
def test_a_wheel_without_what_it_needs_is_told(tmp_path, tracked, pattern) -> None:
    lost = archives.matching(whole(tracked), pattern)
    made = wheel(tmp_path / WHEEL, [name for name in whole(tracked) if name not in lost])
    assert lost
    assert pattern in failures(archives.wheel_outcomes(made, tracked, True))


@pytest.mark.parametrize("pattern", archives.NEEDED_IN_SDIST.values())
def test_an_sdist_without_what_it_needs_is_told(tmp_path, tracked, pattern) -> None:
    lost = archives.matching(tracked, pattern)
    kept = [name for name in tracked if name not in lost]
    made = sdist(tmp_path / "headwise-1.0.tar.gz", kept)
    assert lost
    assert pattern in failures(archives.sdist_outcomes(made, kept))


@pytest.mark.parametrize("stray", ["tests/conftest.py", "headwise/notes.txt", "secret.env"])
def test_stray_files_are_told(tmp_path, tracked, stray) -> None:
    made = wheel(tmp_path / WHEEL, [*whole(tracked), stray])
    assert f"1 stray: {stray}" in failures(archives.wheel_outcomes(made, tracked, True))
    made = sdist(tmp_path / "headwise-1.0.tar.gz", [*tracked, "dist/old.whl"])
    assert "1 stray: dist/old.whl" in failures(archives.sdist_outcomes(made, tracked))


def test_missing_files_are_told(tmp_path, tracked) -> None:
    names = [name for name in whole(tracked) if name != "headwise/names.py"]
    made = wheel(tmp_path / WHEEL, names)
    assert "1 missing: headwise/names.py" in failures(archives.wheel_outcomes(made, tracked, True))


@pytest.mark.parametrize(
    ("name", "kernels", "compiler", "said"),
    [
        (WHEEL, [], True, "and there is a compiler"),
        (WHEEL, [], False, "named for one platform"),
        (ANYWHERE, [KERNEL], True, "in a wheel for any platform"),
        (WHEEL, [KERNEL, KERNEL.replace("311", "312")], True, "2 of them"),
    ],
)
def test_a_kernel_and_a_name_that_do_not_fit_are_told(name, kernels, compiler, said) -> None:
    outcome = archives.kernel_outcome(name, kernels, compiler)
    assert not outcome.ok
    assert said in outcome.found


def test_archives_that_cannot_be_read_are_told(tmp_path, tracked) -> None:
    torn = tmp_path / WHEEL
    torn.write_bytes(wheel(tmp_path / "whole.whl", whole(tracked)).read_bytes()[:1000])
    assert "can be read" in failures(archives.wheel_outcomes(torn, tracked, True))
    data = bytearray(wheel(tmp_path / WHEEL, whole(tracked)).read_bytes())
    data[data.index(b"something")] ^= 1
    torn.write_bytes(data)
    assert "is damaged" in failures(archives.wheel_outcomes(torn, tracked, True))
    cut = tmp_path / "headwise-1.0.tar.gz"
    cut.write_bytes(sdist(tmp_path / "whole.tar.gz", tracked).read_bytes()[:500])
    assert "can be read" in failures(archives.sdist_outcomes(cut, tracked))
    outside = sdist(cut, ["LICENSE"], top="elsewhere/")
    assert "lies outside" in failures(archives.sdist_outcomes(outside, tracked))


def repository(at: Path, version: str, package: str, entry: str) -> Path:
    (at / "src/headwise").mkdir(parents=True)
    (at / "pyproject.toml").write_text(f'[project]\nname = "headwise"\nversion = "{version}"\n')
    (at / "src/headwise/__init__.py").write_text(f'__version__ = "{package}"\n')
    (at / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {entry}\n\n- Things.\n\n## 0.0.9 (2020-01-01)\n"
    )
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "Begin")):
        subprocess.run(["git", *command], cwd=at, check=True)
    return at


def test_a_repository_that_may_be_released_passes(tmp_path) -> None:
    root = repository(tmp_path, "0.1.0", "0.1.0", "0.1.0 (2026-11-30)")
    found = list(state.state_outcomes(root))
    assert len(found) == 4
    assert not failures(found)


def test_versions_that_differ_and_a_date_that_is_missing_are_told(tmp_path) -> None:
    one = repository(tmp_path / "one", "0.2.0", "0.1.0", "0.1.0 (unreleased)")
    told = failures(state.state_outcomes(one))
    assert "pyproject.toml 0.2.0, __version__ 0.1.0, CHANGELOG.md 0.1.0" in told
    assert "write the day" in told
    other = repository(tmp_path / "other", "0.2.0", "0.2.0", "0.1.0 (2026-11-30)")
    assert "CHANGELOG.md 0.1.0" in failures(state.state_outcomes(other))


def test_a_changed_tree_and_a_taken_tag_are_told(tmp_path) -> None:
    root = repository(tmp_path, "0.1.0", "0.1.0", "0.1.0 (2026-11-30)")
    subprocess.run(["git", "tag", "v0.1.0"], cwd=root, check=True)
    (root / "notes.txt").write_text("stray")
    told = failures(state.state_outcomes(root))
    assert "as notes.txt" in told
    assert "v0.1.0 is free: it is taken" in told


def test_the_versions_of_this_repository_agree() -> None:
    assert state.versions_outcome(ROOT, state.project_version(ROOT)).ok


LINES = {
    True: "statistics by  the compiled kernel (avx2): this CPU has avx2\nkernel         built for avx2; ...\n",
    False: "statistics by  plain torch: the kernel is not built\nkernel         the kernel is not built\n",
}


@pytest.mark.parametrize("kernel", [True, False])
def test_what_doctor_says_of_the_kernel_is_held_against_what_must_be(kernel) -> None:
    assert "statistics by" in jobs.doctor_said(LINES[kernel], kernel)
    with pytest.raises(ValueError, match="should"):
        jobs.doctor_said(LINES[not kernel], kernel)


def test_pictures_pages_and_tokens_that_are_none_are_told(tmp_path) -> None:
    (tmp_path / "maps.png").write_bytes(b"\x89PNG" + bytes(100))
    with pytest.raises(ValueError, match="no picture"):
        jobs.png(tmp_path / "maps.png")
    (tmp_path / "page.html").write_text(
        '<script src="https://cdn.example/d3.js"></script>' + "x" * 60_000
    )
    with pytest.raises(ValueError, match="loads from elsewhere"):
        jobs.page(tmp_path / "page.html")
    (tmp_path / "page.html").write_text("<script></script>")
    with pytest.raises(ValueError, match="is no page"):
        jobs.page(tmp_path / "page.html")


@pytest.mark.parametrize("lost", ["its text", "a token"])
def test_tokens_that_are_not_the_chinese_sentence_are_told(tmp_path, lost) -> None:
    tokens = [{"text": c, "start": i, "end": i + 1} for i, c in enumerate(jobs.CHINESE)]

    def found() -> str:
        (tmp_path / "zh.json").write_text(json.dumps({"tokens": tokens}), encoding="utf-8")
        return jobs.chinese(tmp_path)

    assert found() == "18 tokens, each its own characters"
    if lost == "a token":
        tokens.pop()
    else:
        tokens[3]["text"] = "\ufffd"
    with pytest.raises(ValueError, match="not the sentence"):
        found()


def job_told(tmp_path: Path, code: str) -> Outcome:
    """The outcome of a job that is this Python, in an environment without a venv."""
    place = installing.Place(tmp_path, tmp_path / "pip")
    place.desk.mkdir(exist_ok=True)
    job = installing.Job(
        "look", (sys.executable, "-c", code), lambda out, _: jobs.said(out, "fine")
    )
    return installing.job_outcome(place, job)


def test_jobs_are_judged_by_exit_code_traceback_and_words(tmp_path) -> None:
    assert job_told(tmp_path, "print('all is fine')").ok
    assert (
        "exit code 3: why"
        in job_told(
            tmp_path, "import sys; print('fine'); print('why', file=sys.stderr); sys.exit(3)"
        ).found
    )
    assert "Traceback" not in job_told(tmp_path, "print('fine')").found
    assert not job_told(
        tmp_path, "import sys; print('fine'); print('Traceback (most recent', file=sys.stderr)"
    ).ok
    assert "does not say 'fine'" in job_told(tmp_path, "print('well')").found


def test_nothing_comes_in_from_outside(tmp_path, monkeypatch) -> None:
    for name in ("PYTHONPATH", "HEADWISE_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "outside")
    found = installing.Place(tmp_path, tmp_path / "pip", installing.NO_COMPILER).environment()
    assert "outside" not in found.values()
    assert found["HOME"] == str(tmp_path / "home")
    assert found["CXX"] == "false"


def test_the_exit_code_is_1_where_any_check_fails(capsys) -> None:
    well, ill = passed("one", "this"), failed("two", "that")
    waived = Outcome(False, "three", waived=True)
    assert check.told([well, waived]) == 0
    assert check.told([well, ill]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok     one: this",
        "waived three",
        "nothing speaks against a release",
        "ok     one: this",
        "FAILED two: that",
        "1 failed",
    ]
