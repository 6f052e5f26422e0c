#!/usr/bin/python3
"""Tiny random models of every family and rope scaling: logits of hk-perplexity against the peer's.

    PEER_LIB=... HK_SHARED=... B=build tests/peer/mkfamily.py [CASE...]
    HK_SHARED=... tests/peer/mkfamily.py --make OUT.gguf CASE

Weights and activations are f32, so that only the arithmetic of the family differs. Files that the peer runs
have a bias, a norm or an output matrix dropped or added in turn, and hk-perplexity has to refuse them. TAP on
standard output; skipped where the shared directory or the peer is not there. --make writes the model of a case.
"""
import math
import os
import subprocess
import sys
import tempfile

SHARED = os.environ.get("HK_SHARED", "")
PEER = os.path.join(SHARED, "peer", "peer.py")
TOOL = os.path.join(os.environ.get("B", "build"), "bin", "hk-perplexity")
TOKENS, VOCAB, LAYERS, WIDTH, FFN, CONTEXT = 600, 320, 2, 96, 160, 1024
LEAST = 0.9999


def skip(why):
    print("1..0 # SKIP", why)
    sys.exit(0)


# A case: family, heads, heads of keys, size of a head, whether the output is the embedding, keys of the rope
# (after ARCH.rope.), further keys, divisors of the frequencies; and where the peer does not know the keys (it
# has no scaling named llama3, and reads the yarn_* keys for other families only), what tells it the same.
def case(arch, heads=4, kv=2, head=24, tied=False, rope=None, keys=None, factors=None, peer=None):
    return {"arch": arch, "heads": heads, "kv": kv, "head": head, "tied": tied, "rope": rope or {},
            "keys": keys or {}, "factors": factors, "peer": peer}


def llama3_factors(head, base, factor, low, high, original):
    """What llama.cpp's converter puts into rope_freqs.weight."""
    out = []
    for i in range(0, head, 2):
        wave = 2 * math.pi * base ** (i / head)
        smooth = (original / wave - low) / (high - low)
        out.append(1 / ((1 - min(1, max(0, smooth))) / factor + min(1, max(0, smooth))))
    return out


def yarn_factors(head, base, factor, original, fast, slow, mix):
    """Divisors of the frequencies that are what yarn does to them."""
    def pair(turns):
        return head * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(0, math.floor(pair(fast))), min(head - 1, math.ceil(pair(slow)))
    out = []
    for i in range(head // 2):
        keep = (1 - min(1, max(0, (i - low) / max(0.001, high - low)))) * mix
        out.append(1 / ((1 - keep) / factor + keep))
    return out


LLAMA3 = llama3_factors(24, 1e4, 8.0, 1.0, 4.0, 128)
YARN = {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 64}
CASES = {
    "llama": case("llama"),
    "llama-tied": case("llama", tied=True),
    "llama-one-kv-head": case("llama", kv=1),
    "llama-each-its-own": case("llama", kv=4),
    "qwen2": case("qwen2"),
    "qwen2-tied": case("qwen2", tied=True),
    "qwen3": case("qwen3", heads=6, head=32),
    "qwen3-tied": case("qwen3", tied=True, head=64),
    "llama-base": case("llama", rope={"freq_base": 5e5}),
    "llama-linear": case("llama", rope={"scaling.type": "linear", "scaling.factor": 4.0}),
    "llama-factor-alone": case("llama", rope={"scaling.factor": 2.0}),
    "llama-scale-linear": case("llama", rope={"scale_linear": 8.0}),
    "llama-none": case("llama", rope={"scaling.type": "none", "scaling.factor": 4.0}),
    "llama-attn-factor": case("llama", rope={"scaling.attn_factor": 1.25}),
    "llama-factors": case("llama", factors=[1.0 + 0.5 * i for i in range(12)]),
    "llama3": case("llama", rope={"freq_base": 1e4}, factors=LLAMA3),
    "llama-yarn": case("llama", rope=YARN),
    "qwen2-yarn": case("qwen2", rope=dict(YARN, **{"freq_base": 1e6})),
    "qwen3-yarn": case("qwen3", head=64, rope=dict(YARN, **{"scaling.factor": 2.5})),
    "qwen3-yarn-attn-factor": case("qwen3", rope=dict(YARN, **{"scaling.attn_factor": 0.8})),
    "llama-yarn-parts": case(
        "llama", head=64,
        rope=dict(YARN, **{"scaling.yarn_ext_factor": 0.5, "scaling.yarn_beta_fast": 16.0,
                           "scaling.yarn_beta_slow": 2.0}),
        peer={"rope": {"scaling.attn_factor": 1 + 0.1 * math.log(4)},
              "factors": yarn_factors(64, 1e4, 4.0, 64, 16, 2, 0.5)}),
    "llama-yarn-hk-betas": case(
        "llama", head=64, rope=YARN, keys={"hk.rope.beta_fast": 8.0, "hk.rope.beta_slow": 0.5},
        peer={"rope": {"scaling.attn_factor": 1 + 0.1 * math.log(4)}, "keys": {},
              "factors": yarn_factors(64, 1e4, 4.0, 64, 8, 0.5, 1)}),
    "llama-yarn-no-mix": case(
        "llama", rope=dict(YARN, **{"scaling.yarn_ext_factor": 0.0, "scaling.yarn_attn_factor": 1.5}),
        peer={"rope": {"scaling.type": "linear", "scaling.factor": 4.0, "scaling.attn_factor": 1.5}}),
    "llama3-named": case(
        "llama", rope={"freq_base": 1e4, "scaling.type": "llama3", "scaling.factor": 8.0,
                       "scaling.original_context_length": 128},
        keys={"hk.rope.low_freq_factor": 1.0, "hk.rope.high_freq_factor": 4.0},
        peer={"rope": {"freq_base": 1e4}, "keys": {}, "factors": LLAMA3}),
    "llama-yarn-factors": case("llama", rope=YARN, factors=[1.0 + 0.5 * i for i in range(12)]),
    "llama-yarn-whole-context": case("llama", rope={"scaling.type": "yarn", "scaling.factor": 4.0}),
}


def metadata(c):
    a = c["arch"]
    meta = {"general.architecture": a, a + ".vocab_size": VOCAB, a + ".context_length": CONTEXT,
            a + ".embedding_length": WIDTH, a + ".block_count": LAYERS, a + ".feed_forward_length": FFN,
            a + ".attention.head_count": c["heads"], a + ".attention.head_count_kv": c["kv"],
            a + ".attention.key_length": c["head"], a + ".attention.value_length": c["head"],
            a + ".rope.dimension_count": c["head"], a + ".attention.layer_norm_rms_epsilon": 1e-5}
    meta.update({a + ".rope." + key: value for key, value in c["rope"].items()})
    meta.update(c["keys"])
    meta.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe",
                 "tokenizer.ggml.tokens": ["t%d" % i for i in range(VOCAB)],
                 "tokenizer.ggml.token_type": [1] * VOCAB, "tokenizer.ggml.merges": ["t 1"],
                 "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.bos_token_id": 0})
    return meta


def tensors_of(c):
    """(name, shape, kind): shapes as GGUF has them; kind is matrix, embedding, norm, bias, or a list of values, for
    which no random numbers are drawn, so that the other tensors are the same without it."""
    q, kv = c["heads"] * c["head"], c["kv"] * c["head"]
    out = [("token_embd.weight", [WIDTH, VOCAB], "embedding"), ("output_norm.weight", [WIDTH], "norm")]
    if not c["tied"]:
        out.append(("output.weight", [WIDTH, VOCAB], "embedding"))
    if c["factors"]:
        out.append(("rope_freqs.weight", [len(c["factors"])], c["factors"]))
    for i in range(LAYERS):
        layer = [("attn_norm.weight", [WIDTH], "norm"), ("attn_q.weight", [WIDTH, q], "matrix"),
                 ("attn_k.weight", [WIDTH, kv], "matrix"), ("attn_v.weight", [WIDTH, kv], "matrix"),
                 ("attn_output.weight", [q, WIDTH], "matrix"), ("ffn_norm.weight", [WIDTH], "norm"),
                 ("ffn_gate.weight", [WIDTH, FFN], "matrix"), ("ffn_up.weight", [WIDTH, FFN], "matrix"),
                 ("ffn_down.weight", [FFN, WIDTH], "matrix")]
        if c["arch"] == "qwen2":
            layer += [("attn_q.bias", [q], "bias"), ("attn_k.bias", [kv], "bias"), ("attn_v.bias", [kv], "bias")]
        if c["arch"] == "qwen3":
            layer += [("attn_q_norm.weight", [c["head"]], "norm"), ("attn_k_norm.weight", [c["head"]], "norm")]
        out += [("blk.%d.%s" % (i, name), shape, kind) for name, shape, kind in layer]
    return out


def values(rng, shape, kind):
    import numpy
    n = shape[::-1]
    if isinstance(kind, list):
        return numpy.array(kind)
    if kind == "norm":
        return 1 + 0.2 * rng.standard_normal(n)
    if kind == "bias":
        return 0.5 * rng.standard_normal(n)
    if kind == "embedding":
        return rng.standard_normal(n)
    # Queries and keys large enough that attention is to few positions, and angles matter.
    return rng.standard_normal(n) * 1.5 / math.sqrt(shape[0])


def write(path, meta, tensors):
    import numpy
    sys.path.insert(0, os.path.join(SHARED, "peer"))
    import gguf
    rng = numpy.random.default_rng(7)
    made = []
    for name, shape, kind in tensors:
        data = values(rng, shape, kind).astype("<f4").tobytes()
        made.append((name, shape, 0, lambda data=data: [data]))
    gguf.write(path, meta, made)


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, text, why=""):
        self.count += 1
        self.failed += not good
        print("%sok %d - %s" % ("" if good else "not ", self.count, text), flush=True)
        if not good and why:
            print("# " + why.strip().replace("\n", "\n# "))


def run(*command, stdin=b""):
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def measure(path, ids, *options):
    """Logits of hk-perplexity as f64, or its message."""
    import numpy
    done = run(TOOL, "--ids", "--ctx", str(TOKENS), "-f", "--logits", path + ".f32", *options, path, stdin=ids)
    if done.returncode:
        return None, done.stderr.decode()
    return numpy.fromfile(path + ".f32", "<f4").astype("f8"), ""


def cosine(a, b):
    return float(a @ b / math.sqrt((a @ a) * (b @ b))) if a.shape == b.shape else 0.0


def peer_logits(path, ids):
    import numpy
    with open(path + ".ids", "wb") as f:
        f.write(ids)
    done = run(sys.executable, PEER, "logits", path, "--tokens", path + ".ids", "--out", path + ".peer",
               "--no-repack", "--kv", "f32", "--threads", "2")
    if done.returncode:
        return None, done.stderr.decode()
    return numpy.fromfile(path + ".peer", "<f4").astype("f8"), ""


def check_case(tap, name, c, ids, directory):
    path, told = os.path.join(directory, name + ".gguf"), dict(c, **(c["peer"] or {}))
    write(path, metadata(told), tensors_of(told))
    want, why = peer_logits(path, ids)
    if want is None:
        tap.ok(False, name + ": the peer runs it", why)
        return
    write(path, metadata(c), tensors_of(c))
    got, why = measure(path, ids, "--activations", "f32")
    near = cosine(got, want) if got is not None else 0.0
    tap.ok(near >= LEAST, "%s: cosine of the logits to the peer's %.7f" % (name, near), why)
    if c["rope"] or c["factors"]:
        check_counts(tap, name, c, want, ids, path)


def check_counts(tap, name, c, want, ids, path):
    """The rope's keys are not without effect: else the case would show nothing."""
    write(path, metadata(dict(c, rope={}, factors=None)), tensors_of(dict(c, factors=None)))
    plain, why = measure(path, ids, "--activations", "f32")
    apart = cosine(plain, want) if plain is not None else 1.0
    tap.ok(name == "llama-none" or apart < LEAST,
           "%s: without its keys it would be another (%.7f)" % (name, apart), why)


def check_refusals(tap, ids, directory):
    """A tensor that the family has is missing, one that it has not is there, one has another size."""
    path = os.path.join(directory, "wrong.gguf")
    cases = [("qwen2", "drop", "blk.1.attn_k.bias"), ("qwen2", "drop", "blk.0.attn_q.bias"),
             ("qwen3", "drop", "blk.0.attn_q_norm.weight"), ("qwen3", "drop", "blk.1.attn_k_norm.weight"),
             ("llama", "drop", "blk.1.ffn_norm.weight"), ("llama", "drop", "output_norm.weight"),
             ("llama", "add", "blk.0.attn_q.bias"), ("llama", "add", "blk.1.attn_k_norm.weight"),
             ("qwen2", "add", "blk.0.attn_q_norm.weight"), ("qwen3", "add", "blk.1.attn_v.bias"),
             ("qwen2", "size", "blk.0.attn_v.bias"), ("qwen3", "size", "blk.1.attn_q_norm.weight")]
    for family, how, name in cases:
        tensors = tensors_of(CASES[family])
        if how == "drop":
            tensors = [t for t in tensors if t[0] != name]
        elif how == "add":
            tensors.append((name, [24], "norm"))
        else:
            tensors = [(n, [s[0] + 1] if n == name else s, k) for n, s, k in tensors]
        write(path, metadata(CASES[family]), tensors)
        got, why = measure(path, ids)
        tap.ok(got is None and name in why, "%s refused: %s %s" % (family, how, name), why or "it ran")


def main():
    if not os.path.isfile(os.path.join(SHARED, "peer", "gguf.py")):
        skip("HK_SHARED has no peer")
    if len(sys.argv) == 4 and sys.argv[1] == "--make":
        write(sys.argv[2], metadata(CASES[sys.argv[3]]), tensors_of(CASES[sys.argv[3]]))
        return
    if not os.environ.get("PEER_LIB"):
        skip("PEER_LIB is not set")
    import numpy
    ids = ((numpy.arange(TOKENS) * 7919 + numpy.arange(TOKENS) // 7) % VOCAB).astype("<u4").tobytes()
    tap = Tap()
    with tempfile.TemporaryDirectory() as directory:
        for name in sys.argv[1:] or CASES:
            check_case(tap, name, CASES[name], ids, directory)
        if not sys.argv[1:]:
            check_refusals(tap, ids, directory)
    print("1..%d" % tap.count)
    sys.exit(tap.failed > 0)


if __name__ == "__main__":
    main()
