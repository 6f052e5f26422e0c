#!/usr/bin/python3
"""A tokenizer of an npm package as a GGUF that holds only the vocabulary.

    vocab.py PRE TOKENIZER_JSON OUT_GGUF [BOS]    byte-level BPE; PRE is the value of tokenizer.ggml.pre
    vocab.py spm TOKENIZER_JSON OUT_GGUF BOS      SentencePiece in Hugging Face's form, without a dummy prefix
    vocab.py llama2 PIECES_JSON OUT_GGUF          the list of Llama 2's pieces

BOS is the text of the token put before a text.
"""
import json
import struct
import sys

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def string(s):
    raw = s.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def strings(values):
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(string, values))


def integers(values):
    return struct.pack("<IIQ", 9, 5, len(values)) + struct.pack("<%di" % len(values), *values)


def floats(values):
    return struct.pack("<IIQ", 9, 6, len(values)) + struct.pack("<%df" % len(values), *values)


def text(s):
    return struct.pack("<I", 8) + string(s)


def vocabulary(source):
    """Pieces and types by id. Added tokens win over the model's with the same id."""
    bytes_too = source["model"].get("byte_fallback", False)
    pieces = {}
    for piece, i in source["model"]["vocab"].items():
        is_byte = bytes_too and len(piece) == 6 and piece.startswith("<0x")
        pieces[i] = (piece, BYTE if is_byte else NORMAL)
    for token in source["added_tokens"]:
        kind = CONTROL if token["special"] else USER
        if token["content"] == source["model"]["unk_token"]:
            kind = UNKNOWN
        pieces[token["id"]] = (token["content"], kind)
    return [pieces.get(i, ("[UNUSED_%d]" % i, UNUSED)) for i in range(max(pieces) + 1)]


def bpe(source, pre):
    merges = [m if isinstance(m, str) else " ".join(m) for m in source["model"]["merges"]]
    return vocabulary(source), [("tokenizer.ggml.model", text("gpt2")), ("tokenizer.ggml.pre", text(pre)),
                                ("tokenizer.ggml.merges", strings(merges))]


def spm(source):
    tokens = vocabulary(source)
    return tokens, [("tokenizer.ggml.model", text("llama")),
                    ("tokenizer.ggml.scores", floats([-i for i in range(len(tokens))])),
                    ("tokenizer.ggml.add_space_prefix", struct.pack("<I?", 7, False)),
                    ("tokenizer.ggml.unknown_token_id",
                     struct.pack("<II", 4, [kind for _, kind in tokens].index(UNKNOWN)))]


def llama2(pieces):
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(pieces) - 259)
    blanks = "\u2581"
    scores = [0 if i < 259 else -1e9 if not p.strip(blanks) else 259 - i for i, p in enumerate(pieces)]
    return list(zip(pieces, kinds)), [("tokenizer.ggml.model", text("llama")),
                                      ("tokenizer.ggml.scores", floats(scores))]


def main():
    kind, path, out = sys.argv[1:4]
    with open(path, encoding="utf-8") as f:
        source = json.load(f)
    tokens, pairs = {"spm": spm, "llama2": llama2}.get(kind, lambda s: bpe(s, kind))(source)
    pieces = [piece for piece, _ in tokens]
    pairs += [("general.architecture", text("llama")), ("tokenizer.ggml.tokens", strings(pieces)),
              ("tokenizer.ggml.token_type", integers([kind for _, kind in tokens]))]
    if len(sys.argv) > 4:
        pairs.append(("tokenizer.ggml.bos_token_id", struct.pack("<II", 4, pieces.index(sys.argv[4]))))
    with open(out, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
        for key, value in pairs:
            f.write(string(key) + value)


main()
