#!/usr/bin/env python3
"""mktypes.py DIR: a small model of each storage type in DIR, of blocks of random bytes with sound scales.

    DIR/TYPE.gguf    architecture llama, one layer of width 256, all matrices of TYPE, no vocabulary

The same bytes everywhere: nothing is quantised, so no float is ever rounded here.
"""
import os
import random
import struct
import sys

WIDTH, FFN, HEADS, KV_HEADS, TOKENS = 256, 256, 4, 2, 96

# Type in GGUF, elements and bytes of a block, and where in it lie scales: as many halves, about so large.
TYPES = {
    "f32": (0, 1, 4, ()),
    "f16": (1, 1, 2, ()),
    "bf16": (30, 1, 2, ()),
    "q4_0": (2, 32, 18, ((0, 0.012),)),
    "q4_1": (3, 32, 20, ((0, 0.012), (2, -0.09))),
    "q5_0": (6, 32, 22, ((0, 0.006),)),
    "q5_1": (7, 32, 24, ((0, 0.006), (2, -0.09))),
    "q8_0": (8, 32, 34, ((0, 0.0008),)),
    "q2_k": (10, 256, 84, ((80, 0.006), (82, 0.009))),
    "q3_k": (11, 256, 110, ((108, 0.002),)),
    "q4_k": (12, 256, 144, ((0, 0.0003), (2, 0.002))),
    "q5_k": (13, 256, 176, ((0, 0.00015), (2, 0.002))),
    "q6_k": (14, 256, 210, ((208, 0.00005),)),
    "iq2_xxs": (16, 256, 66, ((0, 0.0006),)),
    "iq2_xs": (17, 256, 74, ((0, 0.0006),)),
    "iq3_xxs": (18, 256, 98, ((0, 0.0006),)),
    "iq1_s": (19, 256, 50, ((0, 0.008),)),
    "iq4_nl": (20, 32, 18, ((0, 0.0008),)),
    "iq3_s": (21, 256, 110, ((0, 0.0003),)),
    "iq2_s": (22, 256, 82, ((0, 0.0006),)),
    "iq4_xs": (23, 256, 136, ((0, 0.00003),)),
    "iq1_m": (29, 256, 56, ()),
    "tq1_0": (34, 256, 54, ((52, 0.06),)),
    "tq2_0": (35, 256, 66, ((64, 0.06),)),
    "mxfp4": (39, 32, 17, ()),
    "nvfp4": (40, 64, 36, ()),
}


def half_near(rng, size):
    """A half within a factor of two of SIZE, of which only the exponent's choice takes a float."""
    bits = struct.unpack("<H", struct.pack("<e", size))[0]
    return struct.pack("<H", (bits & 0xFC00) | rng.getrandbits(10))


def block(rng, name):
    number, _, size, scales = TYPES[name]
    b = bytearray(rng.getrandbits(8 * size).to_bytes(size, "little"))
    for at, about in scales:
        b[at:at + 2] = half_near(rng, about)
    if name in ("f16", "bf16", "f32"):  # the exponent of 2^-5 or 2^-4
        exponent = 122 + rng.getrandbits(1)
        if name == "f16":
            return struct.pack("<H", rng.getrandbits(1) << 15 | (exponent - 112) << 10 | rng.getrandbits(10))
        bits = rng.getrandbits(1) << 31 | exponent << 23 | rng.getrandbits(23)
        return struct.pack("<I", bits)[-size:]
    if name == "iq1_m":  # the scale's nibbles are the highest of four words
        scale = struct.unpack("<H", half_near(rng, 0.008))[0]
        for i in range(4):
            b[48 + 2 * i + 1] = (b[48 + 2 * i + 1] & 0x0F) | (scale >> 4 * i & 15) << 4
    if name == "mxfp4":
        b[0] = 120 + rng.getrandbits(1)
    if name == "nvfp4":  # 2^-5 to 2^-4
        for i in range(4):
            b[i] = 0x10 | rng.getrandbits(3)
    return bytes(b)


def matrix(rng, name, rows, cols):
    """Rows begin anywhere in one long one, which saves time."""
    _, elems, size, _ = TYPES[name]
    n = cols // elems
    pool = b"".join(block(rng, name) for _ in range(16 * n))
    starts = (size * rng.randrange(15 * n) for _ in range(rows))
    return b"".join(pool[at:at + size * n] for at in starts)


def vector(rng, n):
    """Numbers from 1 to 1.25."""
    return b"".join(struct.pack("<I", 127 << 23 | rng.getrandbits(21)) for _ in range(n))


def tensors(rng, name):
    head = WIDTH // HEADS
    yield "token_embd.weight", (TOKENS, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    for part, shape in (("attn_norm", (WIDTH,)), ("attn_q", (WIDTH, WIDTH)), ("attn_k", (head * KV_HEADS, WIDTH)),
                        ("attn_v", (head * KV_HEADS, WIDTH)), ("attn_output", (WIDTH, WIDTH)), ("ffn_norm", (WIDTH,)),
                        ("ffn_gate", (FFN, WIDTH)), ("ffn_up", (FFN, WIDTH)), ("ffn_down", (WIDTH, FFN))):
        yield "blk.0.%s.weight" % part, shape


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def metadata():
    yield text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for key, value in (("block_count", 1), ("context_length", 1024), ("embedding_length", WIDTH),
                       ("feed_forward_length", FFN), ("attention.head_count", HEADS),
                       ("attention.head_count_kv", KV_HEADS)):
        yield text("llama." + key) + struct.pack("<II", 4, value)
    yield text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 2.0 ** -17)


def model(name):
    rng = random.Random(TYPES[name][0])
    infos, data = b"", b""
    parts = list(tensors(rng, name))
    for tensor, shape in parts:
        number = TYPES[name][0] if len(shape) > 1 else 0
        infos += text(tensor) + struct.pack("<I", len(shape))
        infos += struct.pack("<%dQ" % len(shape), *reversed(shape)) + struct.pack("<IQ", number, len(data))
        data += matrix(rng, name, *shape) if len(shape) > 1 else vector(rng, *shape)
        data += bytes(-len(data) % 32)
    pairs = list(metadata())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(parts), len(pairs)) + b"".join(pairs) + infos
    return head + bytes(-len(head) % 32) + data


def main():
    for name in TYPES:
        with open(os.path.join(sys.argv[1], name + ".gguf"), "wb") as f:
            f.write(model(name))


main()
