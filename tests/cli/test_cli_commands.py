"""headwise --help names the commands in the order one meets them, each in one line."""

from __future__ import annotations

from cli_help import Cli

from headwise.cli import app

SEE = ["look", "generate", "serve", "profile", "roles", "circuits", "clusters", "neurons"]
CHECK = ["mask", "audit", "ledger"]
CUT = ["ablate", "rank", "prune", "regroup", "heal", "time"]
STUDY = ["train", "lab"]
ORDER = [*SEE, *CHECK, *CUT, *STUDY, "doctor"]


def test_the_commands(cli: Cli) -> None:
    answer = cli("--help")
    assert answer.code == 0
    listed = answer.out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == ORDER
    for line in listed:
        said = line.split(maxsplit=1)[1]
        assert said.endswith(".")
        assert not said.endswith("...")
        assert len(line) <= 80


def test_each_command_takes_one_result_and_the_same_model() -> None:
    for name in ("profile", "roles", "circuits", "clusters", "neurons"):
        options = {option.name: option for option in app.commands[name].params}
        assert options["out"].opts == ["-o", "--out"]
        assert options["model"].default == "smollm2"
        assert {"device", "dtype"} <= set(options)
