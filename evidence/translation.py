"""A translation from English to Chinese, learned from message catalogues: python evidence/translation.py FOLDER.

Reads the catalogues of a system's programs (/usr/share/locale/zh_CN/LC_MESSAGES/*.mo, see --catalogues), trains
the model of translation.toml in FOLDER/run with `headwise train` (a run that is there goes on to its end),
translates the messages that were held out, and writes translation.md beside this file: chrF of the model and of
what needs none, and which cross heads look at the word that is being translated (`linking`). Needs sacrebleu.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import torch

import headwise as hw
from headwise import nn
from headwise.nn.building import read_configuration
from headwise.train.data import byte_bpe, pairs_feed, read_pairs, split_pairs
from headwise.train.data.pairs_read import Pair
from linking import Likely, Link, unchanged
from translated import scored, translations, without_model

HERE = Path(__file__).parent
CATALOGUES = Path("/usr/share/locale/zh_CN/LC_MESSAGES")
LONGEST = 80
"""Characters of a message that is taken, of its translation three quarters as many."""

HELD_OUT = 0.03
COPIED = 3
VOCABULARY = 4096
WIDER = 3
SHOWN = 12
"""Messages that the page shows."""

LINKS = """`unchanged` are words that stand once on either side, letter by letter: names, options, `%s`. `model 1`
are the links that IBM's model 1, fitted on the training messages, is sure of in both directions. A word is scored
at the position that predicts it, which reads the token before: does the head look at the linked word most?
"""
ROLES = """The head is the best one on one half of the messages, its score is of the other half. The baseline is the
larger of chance and of even pace, the word at the same part of the message's length.
"""

Links = Callable[[str, str], list[Link]]


def messages(catalogues: Path) -> Iterator[Pair]:
    """The different short messages of all catalogues, each with its translation."""
    found = read_pairs(sorted(catalogues.glob("*.mo")))
    for source, target in dict.fromkeys(found):
        short = len(source) <= LONGEST and len(target) <= LONGEST * 3 // 4
        if short and "\n" not in source + target and any(map(str.isalpha, source)):
            yield source, target


def prepared(catalogues: Path, folder: Path) -> tuple[list[Pair], list[Pair]]:
    """What is trained on and what is held out, in two files of the folder.

    Besides, the translations of a third of the messages stand as their own sources (Currey et al. 2017): from
    copying, the cross heads learn early to look at the word that comes next.
    """
    kept, held = split_pairs(list(messages(catalogues)), HELD_OUT)
    drawn = Random(0).sample(kept, len(kept) // COPIED)
    copied = [(target, target) for _, target in drawn]
    for name, pairs in (("train", kept + copied), ("held-out", held)):
        lines = (json.dumps({"source": s, "target": t}, ensure_ascii=False) for s, t in pairs)
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return kept, held


def started(kept: Sequence[Pair], folder: Path) -> None:
    """The model before the first step: GPT-2's start, but wider, for it is meant for models much wider than this.

    After 250 steps (of messages alone) the loss of the held-out ones was 5.60 so, and 6.05 otherwise.
    """
    config = read_configuration(HERE / "translation.toml")
    tokenizer = byte_bpe([text for pair in kept for text in pair], VOCABULARY)
    torch.manual_seed(0)
    model = nn.build({**config, "vocab_size": tokenizer.get_vocab_size()})
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter *= WIDER
    nn.save_checkpoint(model, folder, tokenizer=tokenizer)


def trained(folder: Path) -> None:
    """`headwise train`, to its end."""
    run = folder / "run"
    command = [sys.executable, "-m", "headwise", "train"]
    if run.exists():
        command += ["--resume", str(run)]
    else:
        command += [str(folder / "train.jsonl"), "--held-out", str(folder / "held-out.jsonl")]
        command += ["--init", str(folder / "start"), "-o", str(run)]
        command += ["--config", str(HERE / "translation.toml")]
    subprocess.run(command, check=True)


@dataclass(frozen=True)
class Heads:
    """The cross heads by some links, on real translations.

    Attributes:
        role: the line of the best one in the table of roles.
        each: one line for each.
        note: how many links there are.
    """

    role: str
    each: list[str]
    note: str


def heads(model: hw.Model, pairs: Sequence[Pair], links: Links, name: str) -> Heads:
    """Score them."""
    given = [{"source": s, "target": t, "links": links(s, t)} for s, t in pairs if s != t]
    said = hw.probes.aligned(given, ahead=True)
    probe = replace(said.probe, name=name)
    table = hw.profile(model, inputs(model, pairs), probes=[probe], pool=0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "roles.md"
        hw.roles(table).save(path)
        role = next(x for x in path.read_text().splitlines() if x.startswith(f"| {name} | cross"))
    each = []
    for layer, head in product(table["layer"].values, table["head"].values):
        if str(layer).startswith("cross"):
            one = table.sel(layer=layer, head=head)
            mass, hits = (
                f"{float(one[x]):.3f} ({float(one[f'{x}_low']):.3f} to {float(one[f'{x}_high']):.3f})"
                for x in (name, f"{name}_hits")
            )
            each.append(
                f"| {name} | {layer}.{head} | {mass} | {hits} | {int(one[f'{name}_count'])} |"
            )
    count = sum(len(one["links"]) for one in given)
    return Heads(
        role,
        each,
        f"{name}: {count:,} links; even pace gets {said.even_pace:.3f} of the words right.",
    )


def inputs(model: hw.Model, pairs: Sequence[Pair]) -> Iterator[Mapping[str, torch.Tensor]]:
    """Each pair as the model was trained to read it."""
    feed = pairs_feed(model.tokenizer, pairs, rows=1, longest=1000)
    for source, target in zip(feed.sources, feed.targets, strict=True):
        yield {
            "source_ids": torch.from_numpy(source.astype(np.int64))[None],
            "target_ids": torch.from_numpy(target.astype(np.int64))[None, :-1],
        }


def page(folder: Path, kept: Sequence[Pair], held: Sequence[Pair]) -> Iterator[str]:
    """What was learned, line by line."""
    model = hw.load(folder / "run")
    sources, targets = [source for source, _ in held], [target for _, target in held]
    made = {"the model": translations(model, sources, LONGEST), **without_model(kept, sources)}
    log = (folder / "run" / "log.csv").read_text().splitlines()
    size = sum(parameter.numel() for parameter in model.module.parameters())
    yield "# A translation from English to Chinese, learned from message catalogues\n"
    yield (
        f"{len(kept):,} messages of the programs of a system, and {len(held):,} held out, no source or target of "
        f"which (letters and digits alone compared) is among the others. The model has {size:,} parameters and was "
        f"trained for {len(log) - 1:,} steps (`translation.toml`, `translation-log.csv`).\n"
    )
    yield "## The held-out messages, translated\n"
    yield from scored(made, targets)
    shown = list(made)[:: len(made) - 1]
    yield "\n| message | translation | by the model | of the nearest source |\n| --- | --- | --- | --- |"
    for at in range(0, len(held), max(len(held) // SHOWN, 1)):
        texts = (*held[at], *(made[name][at] for name in shown))
        yield "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
    yield "\n## Which cross heads look at the word that is translated\n"
    pairs, likely = list(dict.fromkeys(held)), Likely(kept)
    found = [
        heads(model, pairs, links, name)
        for name, links in (("unchanged", unchanged), ("model 1", likely.links))
    ]
    yield LINKS
    yield "| links | head | score | is | baseline | 95 % interval | sure | cases | texts | a role |"
    yield "|" + " --- |" * 10
    yield from (one.role for one in found)
    yield f"\n{ROLES}"
    yield from (f"- {one.note}" for one in found)
    yield "\nAll cross heads, on all of the held-out messages:\n"
    yield "| links | head | attention to the linked word | most attention to it | cases |"
    yield "|" + " --- |" * 5
    yield from (line for one in found for line in one.each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--catalogues", type=Path, default=CATALOGUES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    kept, held = prepared(options.catalogues, options.folder)
    if not (options.folder / "start").exists():
        started(kept, options.folder / "start")
    trained(options.folder)
    text = "\n".join(page(options.folder, kept, held))
    (HERE / "translation.md").write_text(text, encoding="utf-8")
    shutil.copy(options.folder / "run" / "log.csv", HERE / "translation-log.csv")
    print(text)


if __name__ == "__main__":
    main()
