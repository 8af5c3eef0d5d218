"""The roles of real models against gold annotations: python evidence FOLDER.

FOLDER holds en_pud.conllu and zh_pud.conllu (Parallel Universal Dependencies) and gap-development.tsv (GAP), which
are not part of this repository. Each study writes one table beside this file: for each probe the head chosen on one
half of the texts, and its score on the other. The speech for Whisper is read aloud by eSpeak NG (`speech`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import xarray as xr

import headwise as hw
from speech import RATE, Voice

HERE = Path(__file__).parent
FRAMES = 50
"""Positions a second of Whisper's encoder."""

LONGEST = 28.0
"""Seconds of speech that fit with room to spare."""

Study = Callable[[Path], tuple[hw.Roles, str]]


def syntax(name: str, file: str) -> Study:
    """Every relation of a treebank, the probes of tokens on its texts, and those on random tokens repeated."""

    def study(folder: Path) -> tuple[hw.Roles, str]:
        model, bank = hw.load(name), hw.probes.treebank(folder / file)
        probes = [*hw.probes.BUILT_IN, *hw.probes.relations(bank)]
        table = hw.profile(model, bank.texts, probes=probes, pool=0)
        seen = bank.coverage(model)
        note = f"{seen.links:,} links in the file, {seen.seen:,} of them between units of the model's tokens."
        return hw.roles([table, repeated(model)]), note

    return study


def repeated(model: hw.Model) -> xr.Dataset:
    """The probes on random tokens repeated."""
    rows = hw.probes.repeated_tokens((32, 96), model=model, rows=64)
    return hw.profile(model, rows, probes=hw.probes.ON_REPEATED, pool=0)


def coreference(name: str, most: int | None = None) -> Study:
    """The pronouns of GAP, in all texts or the first ones: among all words, and of the two names alone."""

    def study(folder: Path) -> tuple[hw.Roles, str]:
        model, gap = hw.load(name), hw.probes.mentions(folder / "gap-development.tsv")
        probes = [hw.probes.coreference(gap), hw.probes.coreference(gap, candidates=True)]
        texts = gap.texts[:most]
        table = hw.profile(model, texts, probes=probes, pool=0)
        return hw.roles(
            table
        ), f"{len(texts):,} of {len(gap.texts):,} texts; {gap.cases:,} have a name that corefers."

    return study


def alignment(name: str, file: str, sentences: int = 300) -> Study:
    """Speech whose words' times are known, and the text as the decoder reads it."""

    def study(folder: Path) -> tuple[hw.Roles, str]:
        model, texts = hw.load(name), hw.probes.treebank(folder / file).texts[:sentences]
        spoken = [one for one in map(Voice().read, texts) if len(one.samples) < LONGEST * RATE]
        said = hw.probes.aligned(
            [
                {
                    "target": one.text,
                    "spans": [
                        [
                            start,
                            end,
                            round(begin * FRAMES),
                            max(round(stop * FRAMES), round(begin * FRAMES) + 1),
                        ]
                        for start, end, begin, stop in one.words
                    ],
                }
                for one in spoken
            ]
        )
        inputs = heard(model, spoken)
        table = hw.profile(model, inputs, probes=[said.probe], pool=0)
        note = (
            f"{len(spoken)} sentences read aloud. Going ahead at an even pace, from the first word's time to the "
            f"last's, names {said.even_pace:.3f} of the words right: the baseline to hold the scores against."
        )
        return hw.roles(table), note

    return study


def heard(model: hw.Model, spoken: list[Any]) -> Iterator[Mapping[str, torch.Tensor]]:
    """Speech and its text as the model takes them, one at a time."""
    from transformers import WhisperFeatureExtractor

    extract = WhisperFeatureExtractor()
    assert model.tokenizer is not None
    start = model.module.config.decoder_start_token_id
    for one in spoken:
        ids = [start, *model.tokenizer.encode(f" {one.text}", add_special_tokens=False).ids]
        features = extract(one.samples, sampling_rate=RATE, return_tensors="pt")["input_features"]
        yield {"input_features": features, "decoder_input_ids": torch.tensor([ids])}


STUDIES: Mapping[str, Study] = {
    "smollm2-en": syntax("smollm2", "en_pud.conllu"),
    "minilm-en": syntax("minilm", "en_pud.conllu"),
    "e5-small-zh": syntax("e5-small", "zh_pud.conllu"),
    "smollm2-gap": coreference("smollm2", 600),
    "minilm-gap": coreference("minilm"),
    "whisper-tiny-en-speech": alignment("whisper-tiny-en", "en_pud.conllu"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=STUDIES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, study in STUDIES.items():
        if options.only in (None, name):
            found, note = study(options.folder)
            path = HERE / f"{name}.md"
            found.save(path)
            path.write_text(f"{path.read_text().rstrip()}\n\n{note}\n")
            print(f"{name}: {len(found.claimed)} claimed of {found.tried} tried")


if __name__ == "__main__":
    main()
