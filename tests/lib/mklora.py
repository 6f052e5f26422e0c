"""Low-rank adapters as PEFT and llama.cpp keep them, with nothing of hk in it.

usage: mklora.py make DIR MODEL.json [CONFIG [SEED [MORE]]]
           a PEFT adapter of rank 2 for the llama whose sizes are in MODEL.json: {"layers", "width",
           "kv_width", "ffn"}; CONFIG (JSON) is put over adapter_config.json; MORE adds tensors:
           "magnitudes" those of a DoRA, "norm" the last norm, trained whole, "embedding" a pair of the
           embedding of 512 tokens
       mklora.py gguf DIR OUT HEADS KV_HEADS
           what llama.cpp's convert_lora_to_gguf makes of the PEFT adapter in DIR: of a llama, rows of
           query and key in pairs; HEADS 0 leaves them as they are
       mklora.py same A B
           whether two safetensors files have the same tensors as f32; copies of the base's are left out
"""
import array
import json
import random
import struct
import sys

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def write(path, tensors, metadata=None):
    """tensors: {name: (shape, floats)}."""
    header, raw = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, (shape, values) in tensors.items():
        data = struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(raw), len(raw) + len(data)]}
        raw += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + raw)


def read(path):
    """{name: (shape, floats)} and the metadata."""
    with open(path, "rb") as f:
        raw = f.read()
    n, = struct.unpack("<Q", raw[:8])
    header, at = json.loads(raw[8:8 + n]), 8 + n
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, t in header.items():
        data = raw[at + t["data_offsets"][0]:at + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
        kind = {"F32": "f", "BF16": "f", "F16": "e", "F64": "d"}[t["dtype"]]
        values = struct.unpack("<%d%s" % (len(data) // struct.calcsize(kind), kind), data)
        tensors[name] = (t["shape"], values)
    return tensors, metadata


def make(directory, model, config="{}", seed="1", more=""):
    m, rng, rank = json.load(open(model)), random.Random(int(seed)), 2
    width, kv, ffn = m["width"], m["kv_width"], m["ffn"]
    sizes = {"self_attn.q_proj": (width, width), "self_attn.k_proj": (kv, width),
             "self_attn.v_proj": (kv, width), "self_attn.o_proj": (width, width),
             "mlp.gate_proj": (ffn, width), "mlp.down_proj": (width, ffn)}
    tensors = {}
    for layer in range(m["layers"]):
        for name, (rows, cols) in sizes.items():
            at = "base_model.model.model.layers.%d.%s.lora_" % (layer, name)
            tensors[at + "A.weight"] = ([rank, cols], [rng.gauss(0, 0.1) for _ in range(rank * cols)])
            tensors[at + "B.weight"] = ([rows, rank], [rng.gauss(0, 0.1) for _ in range(rank * rows)])
            if more == "magnitudes":
                tensors[at + "magnitude_vector"] = ([rows], [1 + rng.random() for _ in range(rows)])
    if more == "embedding":
        at = "base_model.model.model.embed_tokens.lora_embedding_"
        tensors[at + "A"] = ([rank, 512], [rng.gauss(0, 0.1) for _ in range(rank * 512)])
        tensors[at + "B"] = ([width, rank], [rng.gauss(0, 0.1) for _ in range(rank * width)])
    if more == "norm":
        tensors["base_model.model.model.norm.weight"] = ([width], [rng.random() for _ in range(width)])
    write(directory + "/adapter_model.safetensors", tensors, {"format": "pt"})
    common = {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "bias": "none", "target_modules": ["q_proj"],
              "rank_pattern": {}, "alpha_pattern": {}, "use_rslora": False, "use_dora": False}
    with open(directory + "/adapter_config.json", "w") as f:
        json.dump({**common, **json.loads(config)}, f)


def into_pairs(shape, values, heads):
    """Rows of each head from halves to neighbours, as llama.cpp's permute() has them."""
    rows, cols = shape
    length, out = rows // heads, []
    for i in range(rows):
        at = i % length
        source = i - at + at // 2 + at % 2 * (length // 2)
        out += values[source * cols:(source + 1) * cols]
    return out


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(directory, out, heads, kv_heads):
    tensors, _ = read(directory + "/adapter_model.safetensors")
    config = json.load(open(directory + "/adapter_config.json"))
    head, data = b"", b""
    for name, (shape, values) in tensors.items():
        layer, module = name[len("base_model.model.model.layers."):].split(".", 1)
        module, part = module.rsplit(".lora_", 1)
        count = {"attn_q": int(heads), "attn_k": int(kv_heads)}.get(NAMES[module], 0)
        if part[0] == "B" and count:
            values = into_pairs(shape, values, count)
        head += text("blk.%s.%s.weight.lora_%s" % (layer, NAMES[module], part[0].lower()))
        head += struct.pack("<IQQIQ", 2, shape[1], shape[0], 0, len(data))
        data += struct.pack("<%df" % len(values), *values)
        data += bytes(-len(data) % 32)
    pairs = [(k, struct.pack("<I", 8) + text(v)) for k, v in
             (("general.architecture", "llama" if int(heads) else "qwen3"), ("general.type", "adapter"),
              ("adapter.type", "lora"))]
    pairs.append(("adapter.lora.alpha", struct.pack("<If", 6, config["lora_alpha"])))
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    raw += b"".join(text(k) + v for k, v in pairs) + head
    with open(out, "wb") as f:
        f.write(raw + bytes(-len(raw) % 32) + data)


def same(a, b):
    one, two = ({k: v for k, v in read(path)[0].items() if ".base_layer." not in k} for path in (a, b))
    assert one.keys() == two.keys(), set(one) ^ set(two)
    for name in one:
        assert one[name][0] == two[name][0], name
        assert array.array("f", one[name][1]) == array.array("f", two[name][1]), name


if __name__ == "__main__":
    {"make": make, "gguf": gguf, "same": same}[sys.argv[1]](*sys.argv[2:])
