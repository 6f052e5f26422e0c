#!/usr/bin/python3
"""A tokenizer of an npm package as a GGUF that holds only the vocabulary.

    vocab.py PRE TOKENIZER_JSON OUT_GGUF [BOS]    byte-level BPE; PRE is the value of tokenizer.ggml.pre
    vocab.py spm TOKENIZER_JSON OUT_GGUF BOS      SentencePiece in Hugging Face's form, without a dummy prefix
    vocab.py llama2 PIECES_JSON OUT_GGUF          the list of Llama 2's pieces
    vocab.py tiktoken ENCODER_JSON OUT_GGUF       ranks of tokens in tiktoken's form, split as cl100k is

BOS is the text of the token put before a text.
"""
import base64
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


def own_keys(source):
    """What GGUF has no key for: the normalisation, and the flags of added tokens, as hk(5) describes them."""
    names = ("lstrip", "rstrip", "normalized", "single_word")
    flags = [(t["id"], sum(1 << k for k, name in enumerate(names) if t[name])) for t in source["added_tokens"]]
    pairs = [v for pair in sorted(flags) if pair[1] for v in pair]
    keys = [("tokenizer.hk.added_flags", integers(pairs))] if pairs else []
    normalizer = (source["normalizer"] or {}).get("type")
    return keys + ([("tokenizer.hk.normalizer", text("nfc"))] if normalizer == "NFC" else [])


def bpe_keys(pre, merges):
    return [("tokenizer.ggml.model", text("gpt2")), ("tokenizer.ggml.pre", text(pre)),
            ("tokenizer.ggml.merges", strings(merges))]


def bpe(source, pre):
    merges = [m if isinstance(m, str) else " ".join(m) for m in source["model"]["merges"]]
    return vocabulary(source), bpe_keys(pre, merges) + own_keys(source)


def byte_alphabet():
    """GPT-2's letter for each byte."""
    visible = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in visible]
    return {**{b: chr(b) for b in visible}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


def halves(token, rank):
    """The two tokens that were merged to this one: what its bytes merge to by the ranks below its own."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: rank.get(parts[i] + parts[i + 1], len(rank)))
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def tiktoken(source):
    words = source["bpe_ranks"].split(" ")
    assert words[:2] == ["!", "0"]
    tokens = [base64.b64decode(w) for w in words[2:]]
    rank = {token: i for i, token in enumerate(tokens)}
    letter = byte_alphabet()

    def spell(token):
        return "".join(letter[b] for b in token)

    merges = [" ".join(map(spell, halves(token, rank))) for token in tokens if len(token) > 1]
    pieces = {i: (spell(token), NORMAL) for i, token in enumerate(tokens)}
    pieces.update({i: (name, CONTROL) for name, i in source["special_tokens"].items()})
    table = [pieces.get(i, ("[UNUSED_%d]" % i, UNUSED)) for i in range(max(pieces) + 1)]
    return table, bpe_keys("dbrx", merges)


def spm(source):
    tokens = vocabulary(source)
    unknown = [kind for _, kind in tokens].index(UNKNOWN)
    return tokens, own_keys(source) + [("tokenizer.ggml.model", text("llama")),
                                       ("tokenizer.ggml.scores", floats([-i for i in range(len(tokens))])),
                                       ("tokenizer.ggml.add_space_prefix", struct.pack("<I?", 7, False)),
                                       ("tokenizer.ggml.unknown_token_id", struct.pack("<II", 4, unknown))]


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
    tokens, pairs = {"spm": spm, "llama2": llama2, "tiktoken": tiktoken}.get(kind, lambda s: bpe(s, kind))(source)
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
