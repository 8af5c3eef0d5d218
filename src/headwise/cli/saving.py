"""What a command says of a model that it saved: where it is, and how it is read."""

from __future__ import annotations

from headwise.cut.saving.saving import Saved

__all__ = ["saved_words"]


def saved_words(saved: Saved | None) -> str:
    """A line of where the model is and how it is read; that it is nowhere, where it was not saved."""
    if saved is None:
        return "not saved; -o FOLDER saves the model"
    if saved.plain:
        return f'wrote {saved.folder}: read by hw.load("{saved.folder}") and by from_pretrained of transformers'
    return f'wrote {saved.folder}: read by hw.load("{saved.folder}"), as {saved.why}'
