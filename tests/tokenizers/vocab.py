#!/usr/bin/python3
"""A Hugging Face tokenizer.json of byte-level BPE as a GGUF that holds only the vocabulary.

    vocab.py PRE TOKENIZER_JSON OUT_GGUF [BOS]

PRE is the value of tokenizer.ggml.pre. BOS, if given, is the text of the token put before a text.
"""
import json
import struct
import sys

NORMAL, CONTROL, USER, UNUSED = 1, 3, 4, 5


def string(s):
    raw = s.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def strings(values):
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(string, values))


def integers(values):
    return struct.pack("<IIQ", 9, 5, len(values)) + struct.pack("<%di" % len(values), *values)


def vocabulary(source):
    """Pieces and types by id. Model vocabulary wins over added tokens with the same id."""
    pieces = {i: (piece, NORMAL) for piece, i in source["model"]["vocab"].items()}
    for token in source["added_tokens"]:
        kind = CONTROL if token["special"] else USER
        pieces[token["id"]] = (token["content"], kind)
    size = max(pieces) + 1
    return [pieces.get(i, ("[UNUSED_%d]" % i, UNUSED)) for i in range(size)]


def merges(source):
    return [m if isinstance(m, str) else " ".join(m) for m in source["model"]["merges"]]


def main():
    pre, path, out = sys.argv[1:4]
    with open(path, encoding="utf-8") as f:
        source = json.load(f)
    tokens = vocabulary(source)
    pieces = [piece for piece, _ in tokens]
    pairs = [
        ("general.architecture", struct.pack("<I", 8) + string("llama")),
        ("tokenizer.ggml.model", struct.pack("<I", 8) + string("gpt2")),
        ("tokenizer.ggml.pre", struct.pack("<I", 8) + string(pre)),
        ("tokenizer.ggml.tokens", strings(pieces)),
        ("tokenizer.ggml.token_type", integers([kind for _, kind in tokens])),
        ("tokenizer.ggml.merges", strings(merges(source))),
    ]
    if len(sys.argv) > 4:
        pairs.append(("tokenizer.ggml.bos_token_id",
                      struct.pack("<II", 4, pieces.index(sys.argv[4]))))
    with open(out, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
        for key, value in pairs:
            f.write(string(key) + value)


main()
