#!/usr/bin/python3
"""Write what the fuzz targets start from: DIRECTORY/TARGET/NAME, small files of every form.

usage: seeds.py DIRECTORY

tests/fuzz/found/TARGET has inputs that once were findings; they are copied.
"""
import glob
import json
import os
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import mkhk  # noqa: E402  (in tests/lib)

SEPARATOR = b"\xf5\xf6\xf7\xf8"  # of parts.c
LARGEST = 16384  # bytes of a fixture that is taken as a seed

F8 = {"f32": [1, 2, 3, 4, 5, 6, 7, 8]}
BSR = {"cat": [{"hex": "020002000300000002000000"}, {"i32": [0, 1, 2]}, {"i32": [1, 0]}, F8]}
BLOCKS = {"q4_0": (32, 18), "q8_0": (32, 34), "q5_1": (32, 24), "q2_k": (256, 84),
          "q3_k": (256, 110), "q4_k": (256, 144), "q6_k": (256, 210), "q8_k": (256, 292),
          "iq1_m": (256, 56), "iq2_xs": (256, 74), "iq3_s": (256, 110), "iq4_xs": (256, 136),
          "tq1_0": (256, 54), "mxfp4": (32, 17), "nvfp4": (64, 36)}


def tensor(kind, shape, data, **more):
    return dict({"name": "t", "type": kind, "shape": shape, "data": data}, **more)


def containers():
    yield "small", mkhk.SMALL
    yield "empty", {}
    yield "dense", {"tensors": [
        tensor(k, [4], {"zero": 4 * n}, name=k)
        for k, n in (("f16", 2), ("bf16", 2), ("fp8_e4m3", 1), ("int64", 8), ("bool", 1))]}
    yield "blocks", {"tensors": [tensor(k, [n], {"zero": size}, name=k)
                                 for k, (n, size) in BLOCKS.items()]}
    yield "tiles", {"alignment": 4, "tensors": [
        tensor("f32", [3, 5], {"zero": 1024}, name="a", layout="tile_16x16"),
        tensor("f32", [3, 5], {"zero": 512}, name="b", layout="tile_16x8"),
        tensor("f32", [2, 4], F8, name="c", layout="col_major")]}
    yield "sparse", {"alignment": 4, "tensors": [
        tensor("f32", [4, 4], BSR, name="a", sparsity="csr"),
        tensor("f32", [4, 4], BSR, name="b", sparsity="bsr"),
        tensor("sparse_f16", [10], {"hex": "520000000000c03f000020c000006040"}, name="c"),
        tensor("sparse_2_4", [8], {"hex": "d80000000000c03f00002040000060c000009040"}, name="d"),
        tensor("f32", [8], F8, name="e", sparsity="bitmask")]}
    yield "dual", {"alignment": 1, "tensors": [
        tensor("dq4", [5], {"zero": 3}, name="a", scales={"f32": [1, 2]}, block_size=4,
               residual={"f32": [1, 2, 3, 4, 5]}),
        tensor("dq8", [5], {"zero": 5}, name="b", scales={"f32": [1]}),
        tensor("dqt", [5], {"zero": 2}, name="c", scales={"f32": [1]}),
        tensor("iq4_nl", [4], {"zero": 2}, name="d", scales={"f32": [1]}, block_size=4),
        tensor("mxfp4", [32], {"zero": 16}, name="e", scales={"zero": 1})]}
    yield "references", {"tensors": [
        tensor("f32", [8], F8, name="a"), {"name": "n", "type": "null_ref", "shape": [3, 3]},
        {"name": "s", "type": "shared_ref", "shape": [2, 4], "shared": 0},
        {"name": "u", "type": "shared_ref", "shape": [8]}, tensor("dq6", [4], {"zero": 3}, name="o")]}
    yield "records", {"tensors": [tensor("f32", [8], F8)], "appendix": [
        {"name": "a", "target": "t", "data": "payload", "crc": True},
        {"type": "topology_head", "data": "{}", "parent": "legacy", "generation": 2},
        {"name": "c", "data": {"zero": 9}, "flags": 3, "generation": 3}]}
    yield "values", {"metadata": [
        ["hk.gguf.types", "json", {"a": "array<u64>", "n": "array<array<i8>>", "u": "u8"}],
        ["a", "json", [1, 18446744073709551615]], ["n", "json", [[1], [2, 3]]],
        ["u", "int64", 7], ["s", "json", ["x", "y"]], ["f", "float64", 0.1],
        ["b", "bytes", {"f32_blob": [1, 2]}], ["i", "bytes", {"i32_blob": [1, -2]}]]}


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


TYPED = {"i": ["int64", "-7"], "f": ["float64", "0.1"], "n": ["float64", "nan:fff8000000000001"],
         "b": ["bool", "true"], "j": ["json", "[1]"], "y": ["bytes", "AAEC"],
         "s": ["array<string>", '["a","\\u00e9"]'], "r": ["array<f32>", '[0.1,"inf"]'],
         "d": ["array<i32>", "[-1,2]"], "x": ["string<base64>", "/w=="], "z": ["json<base64>", "/w=="]}


def safetensors():
    """(name, header text, size of the data)"""
    yield "st-empty", "{}", 0
    yield "st-dense", json.dumps({
        "b": entry("F32", [2, 1], 2, 10), "a\u00e9\"": entry("BF16", [], 0, 2),
        "c": entry("F8_E4M3", [0, 3], 10, 10), "d": entry("BOOL", [3], 10, 13)}), 13
    yield "st-text", json.dumps({"__metadata__": {"format": "pt", "k": "\u00e9\n\U0001f600"}}) + "  ", 0
    yield "st-types", json.dumps({
        "__metadata__": dict({k: v for k, (_, v) in TYPED.items()},
                             **{"hk.types": json.dumps({k: t for k, (t, _) in TYPED.items()})}),
        "t": entry("I8", [4], 0, 4)}), 4


# ---- the whole of small files ----

def fixtures(*patterns):
    """(name, content) of small files under tests/fixtures."""
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(HERE, "..", "fixtures", pattern))):
            if os.path.isfile(path) and os.path.getsize(path) <= LARGEST:
                with open(path, "rb") as f:
                    yield os.path.basename(path), f.read()


def files():
    for name, header, size in safetensors():
        yield name, struct.pack("<Q", len(header)) + header.encode() + bytes(range(size))
    for name, description in containers():
        yield name, bytes(mkhk.build(description).data)
    yield from fixtures("malformed/*.gguf", "malformed/*.safetensors", "cases/*.gguf",
                        "cases/*.safetensors", "cases/hostile/*.hk", "cases/hostile/fz-open-*.bin")


def headers():
    for name, header, _ in safetensors():
        yield name, header.encode()
    for name, content in fixtures("malformed/*.safetensors", "cases/*.safetensors"):
        yield name, content[8:8 + int.from_bytes(content[:8], "little")]


# ---- inputs of several parts ----

def edits():
    """Scripts of fuzz_edit.c: sets, deletes, appends, a rollback."""
    scripts = {"set": b"\x00\x00\x05\x04newkfour", "grow": b"\x00\x00\xc5\x04newk\xff\x00\x00\xc5\x04newk\x10",
               "delete": b"\x00\x00\x00\x00\x00\x00\x00\x01",
               "several": b"\x01\x02\x05\x01a12345\x00\x00\x05\x01b54321",
               "append": b"\x04\x00\x00\x01\x04name\x02to\x08contents\x04\x05\x00\x01\x01b\x00\x04more"
                         b"\x00\x00\xc5\x04newk\xff\x06\x01",
               "bound": b"\x05\x01\x01\x00\x02ab\x00\x06papers\x00\x00\x05\x01a12345\x06\x00\x07\x00"}
    for i, (name, content) in enumerate((n, c) for n, c in files() if c[:4] == b"HKNT"):
        for k, (script, code) in enumerate(scripts.items()):
            if name in ("small", "records") or (i + k) % len(scripts) == 0:
                yield "%s-%s" % (name, script), code + SEPARATOR + content


LETTERS = [chr(b) if 0x20 < b < 0x7f or b > 0xa0 and b != 0xad else None for b in range(256)]
for _i, _b in enumerate([b for b in range(256) if LETTERS[b] is None]):
    LETTERS[_b] = chr(0x100 + _i)
BLANK = "\u2581"


def vocabularies():
    def one(options, tokens, merges=(), pre="", text=" the  other\nthing"):
        return SEPARATOR.join(part if isinstance(part, bytes) else "\n".join(part).encode() for part in (
            options, tokens, merges, (pre,), (text,)))
    merges = ["t h", "th e", "Ġ the", "Ġ t"]
    words = ["\x01 the", "\x01 th", "\x01 Ġthe", "\x01 Ġt"]
    added = ["\x03 <s>", "\x04\x03<tool>", "\x04\x08word", "\x04\x01 x"]
    yield "bpe", one(b"\x0b\x00\x01\xff\x00", words, merges, "gpt-2")
    yield "bpe-long", one(b"\x19\xff\xff\xff\x7f", words, merges, "llama-bpe")
    yield "bpe-pattern", one(b"\x09\x00\x01\xff\x00", words, merges, "/\\s+|\\p{L}+\n\\p{N}{1,3}", "a1 22 the12345")
    yield "bpe-added", one(b"\x4f\x00\x01\xff\x02", words + added, merges, "qwen2", " <s> a  <tool>  e\u0301 word x")
    yield "spm", one(b"\x08\x00\x01\x00\x00", ["\x01%c%s" % (i + 1, t) for i, t in enumerate(
        [BLANK, "t", "h", "e", "th", "the", BLANK + "the", BLANK + "t"])])
    few = ["\x02 <unk>", "\x01\x09" + BLANK, "\x01\x08ab", "\x01\x07a", "\x01\x07b", "\x05\x01abab"]
    yield "spm-added", one(b"\x8e\x01\x02\x00\x01\x10", few + added, text="ab abab <s>  x <tool>")
    yield "spm-cut", one(b"\x08\x00\x01\x00\x40", ["\x01 U", "\x01 S", "\x01 US", "\x04 USER", "\x01 " + BLANK],
                         text="USER ")


def metas():
    for kind, text in enumerate(['{"type":"string","value":"a\\u0000b"}', "text", "-12", "0.1", "true",
                                 '{"a":[1,2.5]}', "any", '["a","b"]', "[0.5,1e9]", "[1,-2]"]):
        yield "text-%d" % kind, bytes([kind]) + text.encode()
    for kind, raw in enumerate([b"a\xff\x00", bytes(8), struct.pack("<d", float("nan")), b"\x02", b"{]",
                                struct.pack("<IIIII", 1, 2, 0, 1, 2) + b"xy"]):
        yield "raw-%d" % kind, bytes([11 + kind]) + raw
    yield "base64", b'\x00{"type":"float","base64":"AAAAAAAA+H8="}'


SHAPES = {"attn_norm": [0], "attn_q": [0, 0], "attn_k": [2, 0], "attn_v": [2, 0], "attn_output": [0, 0],
          "ffn_norm": [0], "ffn_gate": [1, 0], "ffn_up": [1, 0], "ffn_down": [0, 1]}


def model(arch="llama", width=8, ffn=12, vocab=4, kind="f32", block=(1, 4), more=(), metadata=()):
    """A .hk of one layer with two heads, one of keys and values; MORE adds (name, sizes) to the layer."""
    def one(name, shape):
        count, k, (elems, size) = 1, kind, block
        for n in shape:
            count *= n
        if len(shape) == 1 or shape[-1] % elems:
            k, elems, size = "f32", 1, 4
        data = {"repeat": [{"f32": [0.25]}, count]} if k == "f32" else {"repeat": ["\x11", count // elems * size]}
        return {"name": name, "type": k, "shape": shape, "data": data}
    sizes = [width, ffn, width // 2, vocab]
    layer = dict(SHAPES, **dict(more))
    keys = {"block_count": 1, "embedding_length": width, "feed_forward_length": ffn, "attention.head_count": 2,
            "attention.head_count_kv": 1, "rope.dimension_count": width // 2, "context_length": 16}
    return {"metadata": [["general.architecture", "string", arch]] +
            [[arch + "." + k, "int64", v] for k, v in keys.items()] +
            [[arch + ".attention.layer_norm_rms_epsilon", "float64", 1e-5]] + list(metadata),
            "alignment": 32,
            "tensors": [one("token_embd.weight", [vocab, width]), one("output_norm.weight", [width])] +
            [one("blk.0.%s" % (n if "." in n else n + ".weight"), [sizes[i] for i in shape])
             for n, shape in layer.items()]}


def models():
    biases = [("attn_q.bias", [0]), ("attn_k.bias", [2]), ("attn_v.bias", [2])]
    scaling = [["llama.rope.scaling.type", "string", "yarn"], ["llama.rope.scaling.factor", "float64", 4.0],
               ["llama.rope.scaling.original_context_length", "int64", 8]]
    wide = {"width": 32, "ffn": 64}
    for name, d in (("llama", model()), ("qwen2", model("qwen2", more=biases)),
                    ("qwen3", model("qwen3", more=[("attn_q_norm", [2]), ("attn_k_norm", [2])])),
                    ("yarn", model(metadata=scaling)), ("mistral", model("mistral", kind="f16", block=(1, 2))),
                    ("q8_0", model(kind="q8_0", block=(32, 34), **wide)),
                    ("q4_0", model(kind="q4_0", block=(32, 18), **wide)),
                    ("mxfp4", model(kind="mxfp4", block=(32, 17), **wide)),
                    ("bf16", model(kind="bf16", block=(1, 2), **wide))):
        yield name, bytes(mkhk.build(d).data)
    for name, content in fixtures("malformed/valid-base.gguf", "cases/hostile/*.hk"):
        yield name, content


def sets():
    def shard(i, count, name):
        return bytes(mkhk.build({"header": {"split_index": i, "split_count": count},
                                 "metadata": [["split_index", "int64", i], ["split_count", "int64", count],
                                              ["general.architecture", "string", "test"]][0 if i else 2:],
                                 "tensors": [tensor("f32", [8], F8, name=name)]}).data)

    def tensors(name):
        header = json.dumps({name: entry("F32", [2], 0, 8)}).encode()
        return struct.pack("<Q", len(header)) + header + bytes(8)

    def index(names, suffix, size):
        return json.dumps({"metadata": {"total_size": size}, "weight_map": {
            n: "m-%05d-of-%05d.%s" % (i + 1, len(names), suffix) for i, n in enumerate(names)}}).encode()
    yield "hk", SEPARATOR.join([index("ab", "hk", 64), shard(0, 2, "a"), shard(1, 2, "b")])
    yield "hk-3", SEPARATOR.join([b"", shard(0, 3, "a"), shard(1, 3, "b"), shard(2, 3, "c")])
    yield "safetensors", SEPARATOR.join([index("ab", "safetensors", 16), tensors("a"), tensors("b")])
    yield "single", SEPARATOR.join([index(["a.weight", "a.bias"], "hk", 48), bytes(mkhk.build(mkhk.SMALL).data)])
    base = dict(fixtures("malformed/valid-base.gguf"))["valid-base.gguf"]
    yield "gguf", SEPARATOR.join([b"", base, base])


def hf_header(width=4, ffn=6, vocab=260, dtype="F32", more=()):
    size, at, header = {"F32": 4, "BF16": 2}[dtype], 0, {"__metadata__": {"format": "pt"}}
    layer = {"input_layernorm": [0], "self_attn.q_proj": [0, 0], "self_attn.k_proj": [2, 0],
             "self_attn.v_proj": [2, 0], "self_attn.o_proj": [0, 0], "post_attention_layernorm": [0],
             "mlp.gate_proj": [1, 0], "mlp.up_proj": [1, 0], "mlp.down_proj": [0, 1]}
    shapes = {"model.embed_tokens.weight": [3, 0], "model.norm.weight": [0]}
    shapes.update({"model.layers.0.%s.weight" % n: s for n, s in layer.items()})
    shapes.update(more)
    for name, shape in shapes.items():
        shape = [[width, ffn, width // 2, vocab][i] for i in shape]
        n = size
        for k in shape:
            n *= k
        header[name] = entry(dtype, shape, at, at + n)
        at += n
    return json.dumps(header).encode()


def config(family="llama", name="LlamaForCausalLM", vocab=260, **more):
    c = {"model_type": family, "architectures": [name], "hidden_size": 4, "intermediate_size": 6,
         "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
         "vocab_size": vocab, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "bos_token_id": 258, "eos_token_id": 259, "hidden_act": "silu", "torch_dtype": "float32"}
    return json.dumps(dict(c, **more)).encode()


def token(i, content, **more):
    return dict({"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True}, **more)


def tokenizer_bpe(pre=None, normalizer=None):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": pre is None}
    vocab = {letter: i for i, letter in enumerate(LETTERS)}
    vocab.update({"th": 256, "the": 257})
    return json.dumps({
        "version": "1.0", "added_tokens": [token(258, "<s>"), token(259, "</s>", lstrip=True)],
        "normalizer": normalizer,
        "pre_tokenizer": level if pre is None else {"type": "Sequence", "pretokenizers": [pre, level]},
        "post_processor": None, "decoder": dict(level, use_regex=True),
        "model": {"type": "BPE", "vocab": vocab, "merges": ["t h", ["th", "e"]]}}, ensure_ascii=False).encode()


def tokenizer_spm():
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    vocab.update({"<0x%02X>" % b: 3 + b for b in range(256)})
    vocab[BLANK] = 259
    return json.dumps({
        "version": "1.0", "added_tokens": [token(i, t) for i, t in enumerate(("<unk>", "<s>", "</s>"))],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": BLANK}, {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}]},
        "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab,
                  "merges": []}}, ensure_ascii=False).encode()


def sentencepiece():
    """A tokenizer.model: pieces of text, score and type."""
    out = b""
    pieces = [("<unk>", 0, 2), ("<s>", -1, 3), ("</s>", -2, 3)] + [("<0x%02X>" % b, -3, 6) for b in range(256)]
    pieces += [(text, -4 - i, 1) for i, text in enumerate((BLANK, "t", "h", "th"))]
    for text, score, kind in pieces:
        text = text.encode()
        piece = b"\n" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind])
        out += b"\n" + bytes([len(piece)]) + piece
    trained = b"\x18\x02\x98\x02\x01\xc0\x02\0\xc8\x02\x01\xd0\x02\x02"  # BPE, byte fallback, ids 0, 1, 2
    return out + b"\x12" + bytes([len(trained)]) + trained + b"\x1a\x10\n\x08identity\x18\x01 \x00(\x01"


def directories():
    def one(config, tokenizer=b"", own=b"", template=b"", model=b"", header=hf_header()):
        return SEPARATOR.join([config, tokenizer, own, template, model, header])
    own = json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": True,
                      "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64,
                      "chat_template": "{{ messages }}"}).encode()
    split = {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\p{L}+|\\s+"}, "behavior": "Isolated",
             "invert": False}
    digits = {"type": "Digits", "individual_digits": True}
    biases = [("model.layers.0.self_attn.%s_proj.bias" % n, [i]) for n, i in (("q", 0), ("k", 2), ("v", 2))]
    norms = [("model.layers.0.self_attn.%s_norm.weight" % n, [2]) for n in "qk"]
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32}
    yield "bpe", one(config(), tokenizer_bpe(), own)
    yield "split", one(config(rope_scaling=rope), tokenizer_bpe(split, {"type": "NFC"}), b"{}",
                       b"{% for m in messages %}{{ m }}{% endfor %}", header=hf_header(dtype="BF16"))
    yield "spm", one(config(bos_token_id=1, eos_token_id=[2]), tokenizer_spm(), own)
    yield "sentencepiece", one(config(vocab=300, bos_token_id=1, eos_token_id=2), own=own, model=sentencepiece(),
                               header=hf_header(vocab=300))
    yield "qwen2", one(config("qwen2", "Qwen2ForCausalLM"), tokenizer_bpe(digits), header=hf_header(more=biases))
    yield "qwen3", one(config("qwen3", "Qwen3ForCausalLM", head_dim=2), tokenizer_bpe(),
                       header=hf_header(more=norms + [("lm_head.weight", [3, 0])]))
    yield "untokenized", one(config("mistral", "MistralForCausalLM", vocab=4, sliding_window=None),
                             header=hf_header(vocab=4))


def adapters():
    def header(tensors):
        at, out = 0, {"__metadata__": {"format": "pt"}}
        for name, shape in tensors.items():
            n = 4
            for k in shape:
                n *= k
            out["base_model.model." + name] = entry("F32", shape, at, at + n)
            at += n
        return json.dumps(out).encode()

    def settings(**more):
        return json.dumps(dict({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none",
                                "target_modules": ["q_proj"]}, **more)).encode()
    layer = "model.layers.0."
    q = {layer + "self_attn.q_proj.lora_A.weight": [2, 8], layer + "self_attn.q_proj.lora_B.weight": [8, 2]}
    down = {layer + "mlp.down_proj.lora_A.weight": [1, 12], layer + "mlp.down_proj.lora_B.weight": [8, 1]}
    yield "pair", settings() + SEPARATOR + header(q)
    yield "patterns", settings(rank_pattern={"down_proj": 1}, alpha_pattern={".*down_proj": 3}, use_rslora=True,
                               target_modules=["q_proj", "down_proj"]) + SEPARATOR + header(dict(q, **down))
    yield "dora", settings(use_dora=True) + SEPARATOR + header(
        dict(q, **{layer + "self_attn.q_proj.lora_magnitude_vector": [8]}))
    yield "whole", settings(modules_to_save=["norm", "lm_head"]) + SEPARATOR + header(
        {"model.norm.weight": [8], "lm_head.weight": [4, 8]})
    yield "embedding", settings(target_modules=["embed_tokens"]) + SEPARATOR + header(
        {"model.embed_tokens.lora_embedding_A": [2, 4], "model.embed_tokens.lora_embedding_B": [8, 2]})
    yield "tokens", settings(trainable_token_indices={"embed_tokens": [1, 2]}) + SEPARATOR + header(
        {"model.embed_tokens.token_adapter.trainable_tokens_delta": [2, 8]})
    yield "bias", settings(bias="all", fan_in_fan_out=False, init_lora_weights=True) + SEPARATOR + header(
        dict(q, **{layer + "self_attn.q_proj.bias": [8]}))

    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    words = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}
    pairs = [(k, struct.pack("<I", 8) + text(v)) for k, v in words.items()]
    pairs.append(("adapter.lora.alpha", struct.pack("<If", 6, 4.0)))
    head, data = b"", b""
    for name, rows, cols in (("blk.0.attn_q.weight.lora_a", 2, 8), ("blk.0.attn_q.weight.lora_b", 8, 2),
                             ("blk.0.ffn_down.weight.lora_a", 2, 12), ("blk.0.ffn_down.weight.lora_b", 8, 2)):
        head += text(name) + struct.pack("<IQQIQ", 2, cols, rows, 0, len(data))
        data += struct.pack("<f", 0.01) * (rows * cols)
        data += bytes(-len(data) % 32)
    raw = b"GGUF" + struct.pack("<IQQ", 3, 4, len(pairs)) + b"".join(text(k) + v for k, v in pairs) + head
    yield "gguf", SEPARATOR + raw + bytes(-len(raw) % 32) + data
    for name, content in fixtures("cases/*.gguf"):
        yield name, SEPARATOR + content


TARGETS = {"open": files, "convert": files, "safetensors": headers, "edit": edits, "vocab": vocabularies,
           "meta": metas, "model": models, "set": sets, "dir": directories, "adapter": adapters,
           "lora": adapters}


def main():
    for target, inputs in TARGETS.items():
        directory = os.path.join(sys.argv[1], target)
        os.makedirs(directory, exist_ok=True)
        for name, content in inputs():
            with open(os.path.join(directory, name), "wb") as f:
                f.write(content)
        for path in glob.glob(os.path.join(HERE, "found", target, "*")):
            shutil.copy(path, directory)


main()
