"""Adapters of any tensors and settings, with nothing of hk in it.

usage: mkadapter.py peft DIR CONFIG TENSOR...
       mkadapter.py gguf OUT KEYS TENSOR...
           CONFIG is put over {"peft_type": "LORA", "r": 2, "lora_alpha": 4}; KEYS (JSON) over those of a
           llama's GGUF adapter, null takes one out.
           A tensor is NAME:SHAPE[:VALUES[:TYPE]]: shape 2x64 or 64, values a number to begin random ones
           with or a file of f32 ("" is 1), type f32, f16, bf16 or q8_0 (GGUF only).
       mkadapter.py want OUT W [TENSOR...]
           W (SHAPE:FILE) changed by TENSORS of the same notation, in order, as f32: A and B of a pair
           (with :SCALE behind A's name), EA and EB of an embedding's, M the magnitude of the A and B
           before it, ROWS=1,5 rows that are replaced, ALL the whole
       mkadapter.py near LEAST A B
           whether no value of two files of f32 differs by more than LEAST
"""
import array
import json
import math
import random
import struct
import sys

from mklora import text, write


def values_of(shape, source):
    n = math.prod(shape)
    if source and not source.isdigit():
        v = list(array.array("f", open(source, "rb").read()))
    else:
        rng = random.Random(int(source or 1))
        v = [struct.unpack("<f", struct.pack("<f", rng.gauss(0, 0.2)))[0] for _ in range(n)]
    assert len(v) == n, (len(v), shape)
    return v


def parse(word):
    name, shape, values, kind = (word.split(":") + ["", ""])[:4]
    shape = [int(n) for n in shape.split("x")]
    return name, shape, values_of(shape, values), kind or "f32"


def peft(directory, config, *words):
    tensors = {name: (shape, values) for name, shape, values, _ in map(parse, words)}
    write(directory + "/adapter_model.safetensors", tensors, {"format": "pt"})
    with open(directory + "/adapter_config.json", "w") as f:
        json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 4, **json.loads(config)}, f)


def bf16(v):
    bits, = struct.unpack("<I", struct.pack("<f", v))
    return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)


def q8_0(values):
    out = b""
    for i in range(0, len(values), 32):
        block = values[i:i + 32]
        d = max(map(abs, block)) / 127
        out += struct.pack("<e", d) + struct.pack("32b", *(round(v / d) if d else 0 for v in block))
    return out


CODES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}


def encode(kind, values):
    if kind == "q8_0":
        return q8_0(values)
    if kind == "bf16":
        return b"".join(map(bf16, values))
    return struct.pack("<%d%s" % (len(values), {"f32": "f", "f16": "e"}[kind]), *values)


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, list):
        return struct.pack("<IIQ", 9, 4, len(v)) + b"".join(struct.pack("<I", n) for n in v)
    return struct.pack("<I", 8) + text(v)


def gguf(out, keys, *words):
    pairs = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora",
             "adapter.lora.alpha": 4.0, **json.loads(keys)}
    pairs = {k: v for k, v in pairs.items() if v is not None}
    head, data = b"", b""
    for name, shape, values, kind in map(parse, words):
        head += text(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *reversed(shape), CODES[kind], len(data))
        data += encode(kind, values)
        data += bytes(-len(data) % 32)
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(words), len(pairs))
    raw += b"".join(text(k) + value(v) for k, v in pairs.items()) + head
    with open(out, "wb") as f:
        f.write(raw + bytes(-len(raw) % 32) + data)


def want(out, base, *words):
    shape, path = base.split(":")
    rows, cols = (int(n) for n in shape.split("x"))
    w, a, scale = values_of([rows, cols], path), None, 2.0
    for word in words:
        kind, given, v, _ = parse(word)
        if kind.split("*")[0] in ("A", "EA"):
            a, rank = v, given[0]
            scale = float(kind.split("*")[1]) if "*" in kind else 2.0
        elif kind == "B":
            for i in range(rows):
                for k in range(cols):
                    w[i * cols + k] += scale * sum(v[i * rank + r] * a[r * cols + k] for r in range(rank))
        elif kind == "EB":
            for i in range(rows):
                for k in range(cols):
                    w[i * cols + k] += scale * sum(a[r * rows + i] * v[k * rank + r] for r in range(rank))
        elif kind == "M":
            for i in range(rows):
                norm = math.sqrt(math.fsum(x * x for x in w[i * cols:(i + 1) * cols]))
                w[i * cols:(i + 1) * cols] = [x * v[i] / norm for x in w[i * cols:(i + 1) * cols]]
        elif kind == "ALL":
            w = list(v)
        else:
            for at, i in enumerate(kind.split("=")[1].split(",")):
                w[int(i) * cols:(int(i) + 1) * cols] = v[at * cols:(at + 1) * cols]
    array.array("f", w).tofile(open(out, "wb"))


def near(least, a, b):
    x, y = (array.array("f", open(p, "rb").read()) for p in (a, b))
    assert len(x) == len(y) > 0, (len(x), len(y))
    worst = max(abs(p - q) for p, q in zip(x, y))
    assert worst <= float(least), worst


{"peft": peft, "gguf": gguf, "want": want, "near": near}[sys.argv[1]](*sys.argv[2:])
