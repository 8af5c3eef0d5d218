"""What a run says while it is under way, and how it hears Ctrl-C."""

from __future__ import annotations

import os
import signal

import pytest

from headwise.cli import progress, stopping
from headwise.cli.progress import RunProgress, StepProgress
from headwise.cli.stopping import Stopping


def test_the_first_asks_and_the_second_stops_at_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopping("stopping soon") as heard:
        assert heard.asked == 0
        os.kill(os.getpid(), signal.SIGINT)
        assert (heard.asked, heard.code) == (signal.SIGINT, 130)
        os.kill(os.getpid(), signal.SIGINT)  # the same, passed on by a launcher
        monkeypatch.setattr(stopping, "_ONE", -1.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr().err == "\nstopping soon\n"


def test_without_a_terminal_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunProgress(10, 2, 2, True) as shown:
        shown.add(1, 30, 1)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(progress, "_EVERY", -1.0)
        shown.add(1, 1200, 1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("4 texts (40%), 1,230 tokens, ")
    assert err.endswith(" tokens/s\n")
    with RunProgress(None, 0, 0, False) as shown:
        shown.add(1, 30, 1)
    assert capsys.readouterr().err == ""


def test_with_a_terminal_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with RunProgress(4, 0, 0, True) as shown:
        shown.add(3, 30, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3 texts (75%), 30 tokens, " in err
    assert "━" in err


def test_one_text_is_one(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(progress, "_EVERY", -1.0)
    with RunProgress(1, 0, 0, True) as shown:
        shown.add(1, 30, 1)
    assert capsys.readouterr().err.startswith("1 text (100%), 30 tokens, ")


def test_a_long_step_is_told_in_its_midst(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_STEP_EVERY", 0.01)
    with StepProgress(10) as shown:
        shown.at(1, "padding, after future: clean")
        err = ""
        while "now padding" not in err:
            err += capsys.readouterr().err
    assert "1 of 10 done, now padding, after future: clean (0 s)\n" in err
    capsys.readouterr()
    assert shown._clock is not None
    assert not shown._clock.is_alive()
