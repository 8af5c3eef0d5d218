"""Small random models of three kinds, with a tokenizer that makes words and, of other scripts, bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

if TYPE_CHECKING:
    import headwise as hw
    from headwise.see.record import Record
    from headwise.show.page.scene import Scene

TEXT = "The animal didn't cross the street because it was too tired."
MIXED = "他看了 a book 👩‍🚀 ספר كتاب"
TARGET = "Das Tier war müde."
_SPECIAL = ["<s>", "</s>", "<pad>"]


def tokenizer(whole: bool = True) -> tokenizers.Tokenizer:
    """Byte-level pieces learned of TEXT; `whole`: between <s> and </s>."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=_SPECIAL,
        show_progress=False,
    )
    made.train_from_iterator([TEXT] * 4, trainer)
    if whole:
        ends = [(piece, made.token_to_id(piece)) for piece in _SPECIAL[:2]]
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=ends
        )
    return made


def decoder() -> hw.Model:
    """A Llama of 3 layers, 4 heads in 2 KV groups."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=330,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=2048,
    )
    return _loaded(LlamaForCausalLM(config), whole=False)


def encoder() -> hw.Model:
    """A BERT of 2 layers of 4 heads."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=330,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
    )
    return _loaded(BertModel(config))


def encoder_decoder() -> hw.Model:
    """A BART of 2 + 2 layers of 4 heads."""
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        vocab_size=330,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
    )
    return _loaded(BartForConditionalGeneration(config))


def records() -> dict[str, Record]:
    """What the three make of TEXT, and the decoder of several scripts."""
    import headwise as hw

    llama = decoder()
    return {
        "decoder": hw.look(llama, TEXT),
        "encoder": hw.look(encoder(), TEXT),
        "encoder-decoder": hw.look(encoder_decoder(), TEXT, target=TARGET),
        "mixed": hw.look(llama, MIXED),
    }


def scenes() -> dict[str, Scene]:
    """The same with all that a page can be told of them: the reach of masks, and the neurons that fire."""
    import headwise as hw
    from headwise.show.page.fires import told_fires
    from headwise.show.page.scene import Scene

    found = {}
    for name, model, text, target in (
        ("decoder", decoder(), TEXT, None),
        ("encoder", encoder(), TEXT, None),
        ("encoder-decoder", encoder_decoder(), TEXT, TARGET),
        ("mixed", decoder(), MIXED, None),
    ):
        record = hw.look(model, text, target=target)
        found[name] = Scene(record, told={"fires": told_fires(model, record)})
    return found


def _loaded(module: torch.nn.Module, whole: bool = True) -> hw.Model:
    """With weights spread wide, so that heads look somewhere."""
    import headwise as hw

    made = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.35, generator=made)
    return hw.load(module.eval(), tokenizer=tokenizer(whole))
