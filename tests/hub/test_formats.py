from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch

from headwise.hub.formats import convert
from headwise.names import ModelError

SMILES = "CC(C)[C@H](N)C(=O)O.Cl>>Br%12"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    return np.random.default_rng(0)


def folders(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    return source, target


# --- CTranslate2 --------------------------------------------------------------------------------


def tiny_whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 8, "num_mel_bins": 4}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 50300}
    sizes |= {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_source_positions": 6}
    ids = {"pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 2}
    config = WhisperConfig(**sizes, **ids, max_target_positions=10)
    return WhisperForConditionalGeneration(config).eval()


def ctranslate2_names(model):
    """The weights of a Whisper model as CTranslate2 names and packs them."""
    state = {name: t.detach().numpy() for name, t in model.state_dict().items()}
    out = {"encoder/num_heads": np.int16(2), "decoder/num_heads": np.int16(2)}
    out["decoder/embeddings/weight"] = state["model.decoder.embed_tokens.weight"]

    def norm(old, new):
        out[new + "/layer_norm/gamma"], out[new + "/layer_norm/beta"] = (
            state[old + ".weight"],
            state[old + ".bias"],
        )

    def linear(new, *olds):
        for kind in ("weight", "bias"):
            zeros = np.zeros(8, np.float32)
            out[f"{new}/{kind}"] = np.concatenate(
                [state.get(f"{old}.{kind}", zeros) for old in olds]
            )

    for conv in ("conv1", "conv2"):
        linear(f"encoder/{conv}", f"model.encoder.{conv}")
    for side, layers in (("encoder", 1), ("decoder", 2)):
        out[f"{side}/position_encodings/encodings"] = state[f"model.{side}.embed_positions.weight"]
        norm(f"model.{side}.layer_norm", side)
        for layer in range(layers):
            old, new = f"model.{side}.layers.{layer}.", f"{side}/layer_{layer}/"
            norm(old + "self_attn_layer_norm", new + "self_attention")
            heads = [old + f"self_attn.{p}_proj" for p in "qkv"]
            linear(new + "self_attention/linear_0", *heads)
            linear(new + "self_attention/linear_1", old + "self_attn.out_proj")
            norm(old + "final_layer_norm", new + "ffn")
            linear(new + "ffn/linear_0", old + "fc1")
            linear(new + "ffn/linear_1", old + "fc2")
            if side == "decoder":
                norm(old + "encoder_attn_layer_norm", new + "attention")
                linear(new + "attention/linear_0", old + "encoder_attn.q_proj")
                kv = [old + f"encoder_attn.{p}_proj" for p in "kv"]
                linear(new + "attention/linear_1", *kv)
                linear(new + "attention/linear_2", old + "encoder_attn.out_proj")
    return out


def write_ctranslate2(path, weights, version=6):
    def text(value):
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    data = struct.pack("<I", version) + text("WhisperSpec") + struct.pack("<II", 3, len(weights))
    for name, value in weights.items():
        array = np.asarray(value)
        kind = 2 if array.dtype == np.int16 else 0
        data += text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        data += struct.pack("<BI", kind, array.nbytes) + array.tobytes()
    alias = text("decoder/projection/weight") + text("decoder/embeddings/weight")
    path.write_bytes(data + struct.pack("<I", 1) + alias)


def test_ctranslate2_gives_the_model_it_was_made_from(tmp_path):
    from transformers import AutoModelForSpeechSeq2Seq

    source, target = folders(tmp_path)
    model = tiny_whisper()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) / 4)
    write_ctranslate2(source / "model.bin", ctranslate2_names(model))
    settings = {"suppress_ids": [3], "suppress_ids_begin": [4], "alignment_heads": [[1, 0]]}
    (source / "config.json").write_text(json.dumps(settings))
    (source / "tokenizer.json").write_text("{}")
    convert("ctranslate2", source, target)

    again = AutoModelForSpeechSeq2Seq.from_pretrained(target).eval()
    mel, ids = torch.randn(2, 4, 12), torch.tensor([[5, 6, 7]] * 2)
    with torch.no_grad():
        wanted = model(input_features=mel, decoder_input_ids=ids).logits
        torch.testing.assert_close(again(input_features=mel, decoder_input_ids=ids).logits, wanted)
    assert again.generation_config.alignment_heads == [[1, 0]]
    assert (target / "preprocessor_config.json").is_file()


@pytest.mark.parametrize(("version", "cut", "says"), [(5, None, "only 6"), (6, 2000, "complete")])
def test_ctranslate2_of_another_version_or_cut_short(tmp_path, version, cut, says):
    source, target = folders(tmp_path)
    write_ctranslate2(source / "model.bin", ctranslate2_names(tiny_whisper()), version)
    (source / "model.bin").write_bytes((source / "model.bin").read_bytes()[:cut])
    with pytest.raises(ModelError, match=says):
        convert("ctranslate2", source, target)


# --- the E5 pack --------------------------------------------------------------------------------

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁ab", "c", "a", "b", "é", "～", "中", "▁x"]


def quantise(weights):
    """Q4_0 blocks, and the weights they stand for."""
    blocks = weights.reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 7).astype(np.float16)
    steps = np.clip(np.round(blocks / np.where(scale, scale, 1).astype(np.float32)), -8, 7)
    codes = (steps + 8).astype(np.uint8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    data = np.concatenate([scale.view(np.uint8), packed], axis=1).tobytes()
    return data, (steps * scale.astype(np.float32)).astype(np.float32)


def write_pack(path, model):
    """An E5S1 file of a BertModel, into which the rounded weights are put back."""
    from headwise.hub.formats.e5_pack import _weight_names

    c = model.config
    sizes = (c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.intermediate_size)
    head = b"E5S1" + struct.pack("<I4i", 1, *sizes)
    head += struct.pack("<3ifi", c.vocab_size, c.max_position_embeddings, 1, c.layer_norm_eps, 32)
    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype(np.uint32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1])) + ends.tobytes()
    scores = [0.0] * 4 + [-3.0, -1.0] + [-2.0] * 7
    head += np.array(scores, np.float32).tobytes() + b"".join(texts)
    characters = {"\t": " ", "\x01": "", "ａ": "a"}
    body = b"".join(
        struct.pack(f"<IB{len(v)}I", ord(k), len(v), *map(ord, v)) for k, v in characters.items()
    )
    head += struct.pack("<iI", len(characters), len(body)) + body
    state, tensors = model.state_dict(), {}
    for ours, theirs in _weight_names(c.num_hidden_layers).items():
        array = state[ours].numpy()
        if array.ndim == 2 and "position" not in ours and "type" not in ours:
            tensors[theirs], rounded = quantise(array)
            state[ours].copy_(torch.from_numpy(rounded.reshape(array.shape)))
        else:
            tensors[theirs] = array.tobytes()
    start = len(head) + 4 + sum(2 + len(name) + 21 for name in tensors)
    head += struct.pack("<i", len(tensors))
    counts = {theirs: state[ours].numel() for ours, theirs in _weight_names(1).items()}
    for name, data in tensors.items():
        head += struct.pack(f"<H{len(name)}s", len(name), name.encode())
        head += struct.pack("<BIQQ", 0, counts[name], start, len(data))
        start += len(data)
    path.write_bytes(head + b"".join(tensors.values()))


def test_the_e5_pack_gives_the_model_and_the_tokens(tmp_path):
    from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

    source, target = folders(tmp_path)
    sizes = {"vocab_size": len(PIECES), "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2, "type_vocab_size": 1}
    model = BertModel(BertConfig(**sizes, max_position_embeddings=16), False).eval()
    write_pack(source / "pack.bin", model)
    convert("e5_pack", source / "pack.bin", target)

    again = AutoModel.from_pretrained(target, add_pooling_layer=False).eval()
    ids = torch.tensor([[0, 5, 6, 2]])
    with torch.no_grad():
        wanted = model(ids).last_hidden_state
        torch.testing.assert_close(again(ids).last_hidden_state, wanted)

    tokenizer = AutoTokenizer.from_pretrained(target)

    def pieces(text):
        return tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)

    assert pieces("abc") == ["<s>", "▁ab", "c", "</s>"]
    assert pieces("ａbc") == ["<s>", "▁ab", "c", "</s>"]  # the pack's map
    assert pieces("ab\t\t \x01x") == ["<s>", "▁ab", "▁x", "</s>"]  # its exceptions to NFKC
    assert pieces("ab～e\u0301中") == ["<s>", "▁ab", "～", "é", "中", "</s>"]  # kept, composed


def test_a_file_that_is_no_e5_pack(tmp_path):
    file = tmp_path / "pack.bin"
    file.write_bytes(b"GGUF....")
    with pytest.raises(ModelError, match="no E5S1 pack"):
        convert("e5_pack", file, tmp_path)


# --- ALBERT over SMILES -------------------------------------------------------------------------


def test_smiles_albert(tmp_path):
    from transformers import AlbertConfig, AlbertForMaskedLM, AutoModelForMaskedLM, AutoTokenizer

    source, target = folders(tmp_path)
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"C()NO=.", "[C@H]", "Cl", ">>", "Br"]
    sizes = {"vocab_size": len(vocab), "embedding_size": 8, "hidden_size": 16}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
    model = AlbertForMaskedLM(AlbertConfig(**sizes)).eval()
    weights = model.state_dict() | {"albert.pooler.weight": torch.zeros(16, 16)}
    torch.save(weights, source / "pytorch_model.bin")
    fields = model.config.to_dict() | {"output_past": True, "num_beams": 1}
    (source / "config.json").write_text(json.dumps(fields))
    (source / "vocab.txt").write_text("\n".join(vocab) + "\n")
    convert("smiles_albert", source, target)

    tokenizer = AutoTokenizer.from_pretrained(target)
    ids = tokenizer(SMILES + " *", return_tensors="pt").input_ids
    wanted = ["[CLS]", "C", "C", "(", "C", ")", "[C@H]", "(", "N", ")", "C", "(", "=", "O", ")"]
    wanted += ["O", ".", "Cl", ">>", "Br", "[UNK]", "[UNK]", "[SEP]"]
    assert tokenizer.convert_ids_to_tokens(ids[0].tolist()) == wanted
    again = AutoModelForMaskedLM.from_pretrained(target).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, model(ids).logits)
