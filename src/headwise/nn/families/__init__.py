"""Checkpoint families as tables: their fields and weights, ours, and nothing else."""

from __future__ import annotations

from headwise.nn.families.bart import BART, MBART
from headwise.nn.families.bert import BERT
from headwise.nn.families.gpt2 import GPT2
from headwise.nn.families.llama import LLAMA
from headwise.nn.families.marian import MARIAN
from headwise.nn.families.mistral import MISTRAL
from headwise.nn.families.qwen2 import QWEN2
from headwise.nn.families.qwen3 import QWEN3
from headwise.nn.families.t5 import T5
from headwise.nn.families.whisper import WHISPER

__all__ = ["FAMILIES"]

FAMILIES = {
    family.model_type: family
    for family in (
        *(LLAMA, QWEN2, QWEN3, MISTRAL, BERT, GPT2),
        *(BART, MBART, MARIAN, WHISPER, T5),
    )
}
