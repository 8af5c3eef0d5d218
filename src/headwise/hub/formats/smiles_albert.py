"""RXNMapper: an ALBERT masked language model over SMILES, as an old PyTorch checkpoint.

The package's tokenizer finds the atoms and bonds with one regular expression, drops what does not
match and looks each up in vocab.txt; the same rule is written as a tokenizer.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["convert"]

# rxnmapper/smiles_utils.py, SMI_REGEX_PATTERN
SMILES = (
    r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$"
    r"|\%[0-9]{2}|[0-9]"
)
_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
# Defaults of generation that configurations of 2020 carried; an encoder has no use for them.
_OUTDATED = (
    *("do_sample", "eos_token_ids", "finetuning_task", "length_penalty", "max_length"),
    *("num_beams", "num_return_sequences", "output_past", "pruned_heads", "repetition_penalty"),
    *("temperature", "top_k", "top_p", "torchscript", "use_bfloat16", "bos_token_id"),
)

_NOT_OF_THE_MODEL = "albert.pooler."  # a masked language model has no use for the pooler


def convert(source: Path, target: Path) -> None:
    """Convert the folder `source` (config.json, pytorch_model.bin, vocab.txt)."""
    import torch
    from transformers import AlbertConfig, AlbertForMaskedLM

    fields = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config = AlbertConfig(**{k: v for k, v in fields.items() if k not in _OUTDATED})
    model = AlbertForMaskedLM(config)
    weights = torch.load(source / "pytorch_model.bin", map_location="cpu", weights_only=True)
    kept = {k: v.float() for k, v in weights.items() if not k.startswith(_NOT_OF_THE_MODEL)}
    model.load_state_dict(kept, strict=True)
    model.save_pretrained(target)

    _tokenizer(source / "vocab.txt").save(str(target / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.max_position_embeddings,
        **_SPECIAL,
    }
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _tokenizer(vocabulary: Path) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

    pieces = vocabulary.read_text(encoding="utf-8").splitlines()
    vocab = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(SMILES), behavior="removed", invert=True)
    tokenizer.add_special_tokens(list(_SPECIAL.values()))
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"])
    )
    tokenizer.decoder = decoders.Fuse()
    return tokenizer
