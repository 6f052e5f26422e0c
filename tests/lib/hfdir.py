#!/usr/bin/python3
"""Compare model directories, and see whether transformers would take one.

usage: hfdir.py same A B          the same tensors, bit for bit
       hfdir.py values A B        the same tensors by value, whatever their types
       hfdir.py json A B FILE...  files of that name are equal as JSON, or absent from both
       hfdir.py pad DIR N         give the embedding N rows beyond the vocabulary
       hfdir.py loads DIR         config.json has what its class needs, and the tensors fit it

Shares nothing with hk.
"""
import glob
import json
import os
import struct
import sys

import mkhf

SIZES = {"F32": 4, "F16": 2, "BF16": 2}
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def tensors(directory):
    """Name: (dtype, shape, bytes) of all safetensors files, which an index must list exactly."""
    out, where = {}, {}
    for path in glob.glob(os.path.join(glob.escape(directory), "*.safetensors")):
        with open(path, "rb") as f:
            head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
        assert head.pop("__metadata__")["format"] == "pt", path
        for name, entry in head.items():
            assert name not in out, name
            out[name] = (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            where[name] = os.path.basename(path)
    index = os.path.join(directory, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as f:
            assert json.load(f)["weight_map"] == where, index
    else:
        assert set(where.values()) == {"model.safetensors"}, where
    return out


def floats(tensor):
    dtype, _, data = tensor
    if dtype == "BF16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    kind = "e" if dtype == "F16" else "f"
    return struct.unpack("<%d%s" % (len(data) // struct.calcsize(kind), kind), data)


def same(a, b, by_value):
    a, b = tensors(a), tensors(b)
    assert a.keys() == b.keys() and a, a.keys() ^ b.keys()
    for name, tensor in a.items():
        assert tensor[1] == b[name][1], (name, tensor[1], b[name][1])
        if by_value:
            assert floats(tensor) == floats(b[name]), name
        else:
            assert tensor == b[name], name


def load(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def loads(directory):
    c, t = load(directory, "config.json"), tensors(directory)
    classes = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
               "qwen3": "Qwen3ForCausalLM"}
    assert c["architectures"] == [classes[c["model_type"]]], c["architectures"]
    assert c["hidden_act"] == "silu" and type(c["tie_word_embeddings"]) is bool
    # What the classes would otherwise make up.
    assert c["sliding_window"] is None and c["use_sliding_window"] is False
    assert type(c["rms_norm_eps"]) is float and type(c["rope_theta"]) is float
    assert c["model_type"] == "qwen2" or c["attention_bias"] is False
    width, ffn, heads, kv, head, vocab = (c[k] for k in (
        "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"))
    want = {"model.embed_tokens.weight": [vocab, width], "model.norm.weight": [width]}
    if not c["tie_word_embeddings"]:
        want["lm_head.weight"] = [vocab, width]
    for i in range(c["num_hidden_layers"]):
        layer = {"input_layernorm.weight": [width], "post_attention_layernorm.weight": [width],
                 "self_attn.q_proj.weight": [heads * head, width], "self_attn.k_proj.weight": [kv * head, width],
                 "self_attn.v_proj.weight": [kv * head, width], "self_attn.o_proj.weight": [width, heads * head],
                 "mlp.gate_proj.weight": [ffn, width], "mlp.up_proj.weight": [ffn, width],
                 "mlp.down_proj.weight": [width, ffn]}
        if c["model_type"] == "qwen2":
            layer.update({"self_attn.q_proj.bias": [heads * head], "self_attn.k_proj.bias": [kv * head],
                          "self_attn.v_proj.bias": [kv * head]})
        if c["model_type"] == "qwen3":
            layer.update({"self_attn.q_norm.weight": [head], "self_attn.k_norm.weight": [head]})
        want.update({"model.layers.%d.%s" % (i, name): shape for name, shape in layer.items()})
    assert {name: tensor[1] for name, tensor in t.items()} == want
    for name, (dtype, shape, data) in t.items():
        count = 1
        for n in shape:
            count *= n
        assert len(data) == count * SIZES[dtype], name
    weights = {}
    for dtype, _, data in t.values():
        weights[dtype] = weights.get(dtype, 0) + len(data) // SIZES[dtype]
    assert c["torch_dtype"] == DTYPES[max(weights, key=weights.get)], c["torch_dtype"]


def pad(directory, rows):
    """More rows of the embedding than there are tokens."""
    name, config, all_tensors = "model.embed_tokens.weight", load(directory, "config.json"), tensors(directory)
    dtype, (tokens, width), data = all_tensors[name]
    more = data[:rows * len(data) // tokens]
    all_tensors[name] = (dtype, [tokens + rows, width], data + more)
    mkhf.write_safetensors(os.path.join(directory, "model.safetensors"), all_tensors, {})
    config["vocab_size"] = tokens + rows
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def main(args):
    if args[0] in ("same", "values"):
        same(args[1], args[2], args[0] == "values")
    elif args[0] == "json":
        for name in args[3:]:
            assert load(args[1], name) == load(args[2], name), name
    elif args[0] == "pad":
        pad(args[1], int(args[2]))
    else:
        assert args[0] == "loads", args
        loads(args[1])


main(sys.argv[1:])
