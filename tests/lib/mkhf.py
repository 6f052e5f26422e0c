#!/usr/bin/python3
"""Make a small Hugging Face model directory of random weights, and compute what it means.

usage: mkhf.py make [--family FAMILY] [--change JSON]... DIR
       mkhf.py logits DIR IDS OUT
       mkhf.py turns CONFIG

--change is a JSON object with any of
  config    {key: value} put into config.json; a value of "-" takes the key out
  drop      [tensor, ...] left out
  add       {tensor: shape} more
  shape     {tensor: shape} instead
  head      "same" | "other": lm_head.weight that is, or is not, the embedding
  metadata  {key: text} of __metadata__ beside "format"
  dtype     "F32" (default) or "BF16"

logits reads DIR as transformers does and writes the logits (f32) of the ids (u32) in IDS, computed in
double precision; turns prints what config.json CONFIG's rope turns a position by, pair by pair, and what
it stretches by. Both are written from the library's definitions and share nothing with hk.
"""
import array
import json
import math
import os
import random
import struct
import sys
from operator import mul

LAYERS, WIDTH, FFN, HEADS, KV, HEAD, VOCAB, CONTEXT = 2, 32, 48, 4, 2, 16, 64, 256
CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
           "qwen3": "Qwen3ForCausalLM"}


# ---- making ----

def config_of(family):
    c = {"architectures": [CLASSES[family]], "model_type": family, "hidden_act": "silu", "hidden_size": WIDTH,
         "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "num_key_value_heads": KV, "head_dim": HEAD, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": VOCAB}
    if family == "mistral":
        c["sliding_window"] = None
    return c


def shapes_of(family):
    q, kv = HEADS * HEAD, KV * HEAD
    out = {"model.embed_tokens.weight": [VOCAB, WIDTH], "model.norm.weight": [WIDTH]}
    for i in range(LAYERS):
        layer = {"input_layernorm.weight": [WIDTH], "self_attn.q_proj.weight": [q, WIDTH],
                 "self_attn.k_proj.weight": [kv, WIDTH], "self_attn.v_proj.weight": [kv, WIDTH],
                 "self_attn.o_proj.weight": [WIDTH, q], "post_attention_layernorm.weight": [WIDTH],
                 "mlp.gate_proj.weight": [FFN, WIDTH], "mlp.up_proj.weight": [FFN, WIDTH],
                 "mlp.down_proj.weight": [WIDTH, FFN]}
        if family == "qwen2":
            layer.update({"self_attn.q_proj.bias": [q], "self_attn.k_proj.bias": [kv],
                          "self_attn.v_proj.bias": [kv]})
        if family == "qwen3":
            layer.update({"self_attn.q_norm.weight": [HEAD], "self_attn.k_norm.weight": [HEAD]})
        out.update({"model.layers.%d.%s" % (i, name): shape for name, shape in layer.items()})
    return out


def values(name, shape):
    """By name, so that a change of one tensor leaves the others as they are."""
    rng = random.Random(name)
    count = math.prod(shape)
    if "norm" in name:
        return [1 + 0.2 * rng.gauss(0, 1) for _ in range(count)]
    if name.endswith("bias"):
        return [0.5 * rng.gauss(0, 1) for _ in range(count)]
    # Queries and keys large enough that attention is to few positions, and angles matter.
    scale = 1 if "embed" in name or "lm_head" in name else 1.5 / math.sqrt(shape[-1])
    return [scale * rng.gauss(0, 1) for _ in range(count)]


def encode(numbers, dtype):
    raw = array.array("f", numbers)
    if sys.byteorder == "big":
        raw.byteswap()
    data = raw.tobytes()
    if dtype == "BF16":
        data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return data


def write_safetensors(path, tensors, metadata):
    head, at = {"__metadata__": dict({"format": "pt"}, **metadata)}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def make(directory, family, changes):
    change = {}
    for more in changes:
        change.update(json.loads(more))
    config = config_of(family)
    for key, value in change.get("config", {}).items():
        config[key] = value
        if value == "-":
            del config[key]
    shapes = shapes_of(family)
    shapes.update(change.get("shape", {}))
    shapes.update(change.get("add", {}))
    for name in change.get("drop", []):
        del shapes[name]
    dtype = change.get("dtype", "F32")
    tensors = {name: (dtype, shape, encode(values(name, shape), dtype)) for name, shape in shapes.items()}
    if "head" in change:
        source = "model.embed_tokens.weight" if change["head"] == "same" else "lm_head.weight"
        shape = shapes["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = (dtype, shape, encode(values(source, shape), dtype))
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
    write_safetensors(os.path.join(directory, "model.safetensors"), tensors, change.get("metadata", {}))


# ---- meaning ----

def rope(config):
    """Turns a position of each pair, and the stretch: transformers' modeling_rope_utils."""
    p = config.get("rope_scaling") or config.get("rope_parameters") or {}
    p = p.get("full_attention", p)
    kind = p.get("rope_type", p.get("type", "default"))
    base = p.get("rope_theta", config.get("rope_theta", 10000.0))
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    dim = int(head * p.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)))
    context = config["max_position_embeddings"]
    original = p.get("original_max_position_embeddings",
                     config.get("original_max_position_embeddings", context))
    factor = p.get("factor") or context / original
    plain = [base ** -(i / dim) for i in range(0, dim, 2)]
    if kind in ("default", "dynamic"):
        return plain, 1.0
    if kind == "linear":
        return [f / factor for f in plain], 1.0
    if kind == "llama3":
        low, high, out = p["low_freq_factor"], p["high_freq_factor"], []
        for f in plain:
            wave = 2 * math.pi / f
            smooth = (original / wave - low) / (high - low)
            if wave < original / high:
                out.append(f)
            elif wave > original / low:
                out.append(f / factor)
            else:
                out.append((1 - smooth) * f / factor + smooth * f)
        return out, 1.0
    assert kind == "yarn", kind

    def mscale(scale=1.0):
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    def border(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
    stretch = p.get("attention_factor")
    if stretch is None:
        both = p.get("mscale") and p.get("mscale_all_dim")
        stretch = mscale(p["mscale"]) / mscale(p["mscale_all_dim"]) if both else mscale()
    low = max(math.floor(border(p.get("beta_fast") or 32)), 0)
    high = min(math.ceil(border(p.get("beta_slow") or 1)), dim - 1)
    if low == high:
        high += 0.001
    out = []
    for i, f in enumerate(plain):
        keep = 1 - min(1, max(0, (i - low) / (high - low)))
        out.append(f / factor * (1 - keep) + f * keep)
    return out, stretch


def read_weights(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    out = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        raw = data[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        numbers = array.array("f", raw)
        if sys.byteorder == "big":
            numbers.byteswap()
        numbers = list(numbers)
        if len(entry["shape"]) == 2:
            n = entry["shape"][1]
            numbers = [numbers[i:i + n] for i in range(0, len(numbers), n)]
        out[name] = numbers
    return out


def dot(a, b):
    return sum(map(mul, a, b))


def times(w, x, bias=None):
    y = [dot(row, x) for row in w]
    return [a + b for a, b in zip(y, bias)] if bias else y


def norm(x, w, eps):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return [a * scale * b for a, b in zip(x, w)]


def turn(x, position, turns, stretch):
    half, out = len(turns), list(x)
    for i, f in enumerate(turns):
        c, s = math.cos(position * f) * stretch, math.sin(position * f) * stretch
        out[i], out[half + i] = x[i] * c - x[half + i] * s, x[half + i] * c + x[i] * s
    return out


def heads_of(x, size):
    return [x[i:i + size] for i in range(0, len(x), size)]


def attend(q, keys, vals):
    scores = [dot(q, k) / math.sqrt(len(q)) for k in keys]
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    total = sum(weights)
    return [dot(weights, column) / total for column in zip(*vals)]


class Layer:
    def __init__(self, config, weights, prefix):
        self.w = {name[len(prefix):]: w for name, w in weights.items() if name.startswith(prefix)}
        self.eps = config.get("rms_norm_eps", 1e-6)
        self.head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.share = config["num_attention_heads"] // config["num_key_value_heads"]
        self.keys, self.vals = [], []

    def project(self, x, which):
        name = "self_attn.%s_proj." % which
        out = heads_of(times(self.w[name + "weight"], x, self.w.get(name + "bias")), self.head)
        gain = self.w.get("self_attn.%s_norm.weight" % which)
        return [norm(h, gain, self.eps) for h in out] if gain else out

    def step(self, x, turns, stretch):
        h, at = norm(x, self.w["input_layernorm.weight"], self.eps), len(self.keys)
        q = [turn(v, at, turns, stretch) for v in self.project(h, "q")]
        self.keys.append([turn(v, at, turns, stretch) for v in self.project(h, "k")])
        self.vals.append(self.project(h, "v"))
        mixed = []
        for i, head in enumerate(q):
            kv = i // self.share
            mixed += attend(head, [k[kv] for k in self.keys], [v[kv] for v in self.vals])
        x = [a + b for a, b in zip(x, times(self.w["self_attn.o_proj.weight"], mixed))]
        h = norm(x, self.w["post_attention_layernorm.weight"], self.eps)
        gate, up = times(self.w["mlp.gate_proj.weight"], h), times(self.w["mlp.up_proj.weight"], h)
        h = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        return [a + b for a, b in zip(x, times(self.w["mlp.down_proj.weight"], h))]


def logits(directory, ids_path, out_path):
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as f:
        config = {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in json.load(f).items()}
    weights = read_weights(os.path.join(directory, "model.safetensors"))
    turns, stretch = rope(config)
    embedding = weights["model.embed_tokens.weight"]
    layers = [Layer(config, weights, "model.layers.%d." % i) for i in range(config["num_hidden_layers"])]
    with open(ids_path, "rb") as f:
        ids = [i for i, in struct.iter_unpack("<I", f.read())]
    out = []
    for token in ids:
        x = embedding[token]
        for layer in layers:
            x = layer.step(x, turns, stretch)
        x = norm(x, weights["model.norm.weight"], layers[0].eps)
        out += times(weights.get("lm_head.weight", embedding), x)
    with open(out_path, "wb") as f:
        f.write(encode(out, "F32"))


def main(args):
    command = args.pop(0)
    if command == "make":
        family, changes = "llama", []
        while args[0].startswith("--"):
            option, value = args.pop(0), args.pop(0)
            if option == "--family":
                family = value
            else:
                changes.append(value)
        make(args[0], family, changes)
    elif command == "logits":
        logits(*args)
    else:
        turns, stretch = rope(json.loads(args[0]))
        print(", ".join("%.17g" % t for t in turns), "stretch %.17g" % stretch)


if __name__ == "__main__":
    main(sys.argv[1:])
