"""Whisper's real weights in our blocks hear what they hear in transformers."""

from __future__ import annotations

import copy
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import resample_poly
from torch import Tensor
from torch.testing import assert_close

from headwise.nn import EncoderDecoder, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.models

SAID = "She went to school early this morning."


@pytest.fixture(scope="module")
def folder() -> Path:
    get = pytest.importorskip("headwise.hub.get")
    return Path(get.get("whisper-tiny-en"))


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import WhisperForConditionalGeneration

    return WhisperForConditionalGeneration.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def sound(folder: Path) -> Tensor:
    """Features of a sentence read aloud: spoken.wav, 8 bits at 8 kHz, by eSpeak NG."""
    from transformers import WhisperFeatureExtractor

    with wave.open(str(Path(__file__).parent / "spoken.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
    heard = resample_poly((samples.astype(np.float32) - 128) / 128, 2, 1)
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    features: Tensor = extractor(heard, sampling_rate=16000, return_tensors="pt").input_features
    return features


def written(model: EncoderDecoder, sound: Tensor, said: dict[str, Any]) -> list[int]:
    """What the model writes, the likeliest token each time, without those its authors forbid."""
    ids = torch.tensor([[said["decoder_start_token_id"], said["no_timestamps_token_id"]]])
    memory, cache = model.encode(sound), model.decoder.new_cache(40)
    found: list[int] = []
    for step in range(30):
        logits = model.decoder(ids, cache=cache, memory=memory)[0, -1]
        logits[said["suppress_tokens"]] = -torch.inf
        if step == 0:
            logits[said["begin_suppress_tokens"]] = -torch.inf
        ids = logits.argmax()[None, None]
        if int(ids) == said["eos_token_id"]:
            break
        found.append(int(ids))
    return found


@torch.no_grad()
def test_whisper_transcribes_as_in_transformers(folder: Path, theirs: Any, sound: Tensor) -> None:
    from tokenizers import Tokenizer

    ours = load_checkpoint(folder)
    expected = theirs.generate(sound, do_sample=False, num_beams=1)[0]
    found = written(ours, sound, theirs.generation_config.to_dict())
    assert found == expected.tolist()[-len(found) :]
    assert len(found) == 8
    told: str = Tokenizer.from_file(str(folder / "tokenizer.json")).decode(found)
    assert told.strip() == SAID
    target = torch.tensor([[50257, 50362, *found]])
    logits = theirs(input_features=sound, decoder_input_ids=target).logits
    assert_close(ours(sound, target), logits, atol=1e-4, rtol=0)


@torch.no_grad()
def test_encoder_states_in_double_precision(folder: Path, theirs: Any, sound: Tensor) -> None:
    """In single precision the two round apart by up to 3e-4, as each does from this."""
    encoder = copy.deepcopy(theirs.model.encoder).double()
    memory = load_checkpoint(folder, dtype=torch.float64).encode(sound.double())
    expected = encoder(sound.double()).last_hidden_state
    assert_close(memory, expected, atol=1e-9, rtol=0)


@torch.no_grad()
def test_whisper_saved_again_is_the_same(
    folder: Path, theirs: Any, sound: Tensor, tmp_path: Path
) -> None:
    from safetensors.torch import load_file
    from transformers import WhisperForConditionalGeneration

    assert save_checkpoint(load_checkpoint(folder), tmp_path) == "whisper"
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path))
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = WhisperForConditionalGeneration.from_pretrained(tmp_path).eval()
    target = torch.tensor([[50257, 50362, 383, 1751]])
    given = {"input_features": sound, "decoder_input_ids": target}
    assert torch.equal(again(**given).logits, theirs(**given).logits)
