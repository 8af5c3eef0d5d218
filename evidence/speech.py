"""Speech whose words' times are known: read aloud by eSpeak NG, which tells when each word begins.

Needs the library libespeak-ng (Debian: apt install libespeak-ng1).
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass

import numpy as np
from scipy.signal import resample_poly

RATE = 16000
"""Samples a second that Whisper hears."""

_RETRIEVAL, _UTF8, _ENDED, _WORD = 1, 1, 0, 1


@dataclass(frozen=True, eq=False)
class Spoken:
    """A text read aloud: samples at RATE, and for each word its characters and seconds."""

    text: str
    samples: np.ndarray
    words: tuple[tuple[int, int, float, float], ...]


class _Id(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    ]


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class Voice:
    """Reads texts aloud, words a minute as given."""

    def __init__(self, name: str = "en-us", pace: int = 150) -> None:
        path = ctypes.util.find_library("espeak-ng")
        if path is None:
            raise SystemExit("libespeak-ng is missing; install it (Debian: libespeak-ng1)")
        self.library = ctypes.CDLL(path)
        self.rate = self.library.espeak_Initialize(_RETRIEVAL, 0, None, 0)
        self.library.espeak_SetVoiceByName(name.encode())
        self.library.espeak_SetParameter(1, pace, 0)
        self._heard: list[np.ndarray] = []
        self._begins: list[tuple[int, float]] = []
        self._callback = _CALLBACK(self._hear)
        self.library.espeak_SetSynthCallback(self._callback)

    def read(self, text: str) -> Spoken:
        """The text as speech."""
        self._heard, self._begins = [], []
        data = text.encode()
        self.library.espeak_Synth(data, len(data) + 1, 0, 1, 0, _UTF8, None, None)
        self.library.espeak_Synchronize()
        whole = np.concatenate(self._heard).astype(np.float32) / 32768
        samples = resample_poly(whole, RATE, self.rate).astype(np.float32)
        first: dict[int, float] = {}  # what begins at one place ("1990s") is read as several words
        for start, begin in self._begins:
            first.setdefault(start, begin)
        starts = [*sorted(first), len(text)]
        begins = [*(first[start] for start in starts[:-1]), len(whole) / self.rate]
        words = tuple(
            (start, start + len(text[start:stop].rstrip(' ,;:.!?”"')), begin, end)
            for start, stop, begin, end in zip(starts, starts[1:], begins, begins[1:], strict=False)
        )
        words = tuple(word for word in words if word[1] > word[0] and word[3] > word[2])
        return Spoken(text, samples, words)

    def _hear(
        self, wave: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_Event]
    ) -> int:
        if wave and count:
            self._heard.append(np.ctypeslib.as_array(wave, (count,)).copy())
        i = 0
        while events[i].type != _ENDED:
            event = events[i]
            if event.type == _WORD:
                at = event.text_position - 1
                self._begins.append((at, event.audio_position / 1000))
            i += 1
        return 0
