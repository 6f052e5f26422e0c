"""odd_dirs.py make BASES OUT SEED: a model directory, odd but plausible, from one of the directories BASES.
odd_dirs.py try BASES COUNT [FIRST]: the property, for the seeds FIRST (0) and up: what converts in converts out.

Each directory differs from its base by one to four changes, drawn by the seed alone; their names go to the
report, so that a failure says what it came from. `try` needs the programs in PATH; it prints one line for each
seed that does not hold, then what it counted.
"""
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

FILES = {"c": "config.json", "t": "tokenizer.json", "s": "tokenizer_config.json"}
TEXTS = ["", " ", "a", "\t", "\r\n", "\x00", "\x01\x1b[31m", "\x7f", "\u0085", "\u200b", "\u202e", "\ufeff", "\ufffd",
         "\U0010ffff", "\ud800", "e\u0301", "\u00e9", "\u2581", "\u0120", "<0x0A>", "<|x|>", '"', "\\", "%s", "%n",
         "{{ x }}", "{% raw %}", "../x", "/", "x" * 300, "<|bos|> ", "<|BOS|>", "\u4e2d\u6587"]
NUMBERS = [0, 1, -1, 1.0, 256.0, 256.5, 1e-5, 1e30, 2**31, 2**32, 2**53 + 1, 2**64, True, None, "256", [], [256], {}]


class Odd:
    def __init__(self, bases, seed):
        self.r = random.Random(seed)
        self.base = self.r.choice(bases)
        self.x = {k: json.load(open(os.path.join(self.base, n), encoding="utf-8")) for k, n in FILES.items()}
        self.raw, self.gone, self.said = {}, set(), []

    def text(self):
        text = "".join(self.r.choice(TEXTS) for _ in range(self.r.choice([1, 1, 1, 2, 3])))
        return text if self.r.random() < 0.1 else text.replace("\ud800", "\ue000")

    # ---- config.json ----

    def number(self):
        c = self.x["c"]
        key = self.r.choice([k for k, v in c.items() if isinstance(v, (int, float))])
        c[key] = float(c[key]) if self.r.random() < 0.4 else self.r.choice(NUMBERS)
        return f"number {key}={c[key]!r}"

    def extra(self):
        key = self.r.choice(["head_dim", "attention_bias", "mlp_bias", "pretraining_tp", "sliding_window", "pad_token_id",
                             "_name_or_path", "auto_map", "quantization_config", "dtype", "initializer_range", "use_cache",
                             "attention_dropout", "layer_types", "rope_scaling", "eos_token_id", "bos_token_id",
                             self.text()])
        value = self.r.choice(NUMBERS + [8, False, "bfloat16", [257, 3], [257, 257], [257.0], [-1], [9999],
                                         ["full_attention"], self.text()])
        self.x["c"][key] = value
        return f"extra {key!r}={value!r}"[:120]

    def rope(self):
        c, r = self.x["c"], self.r
        kind = r.choice(["default", "linear", "yarn", "llama3", "dynamic", "longrope", "odd", "", None])
        p = {"rope_type": kind}
        fits = {"linear": ["factor"], "llama3": ["factor", "original", "low_", "high_"], "longrope": ["short", "long"],
                "yarn": ["factor", "original", "beta", "attention", "mscale", "truncate"], "dynamic": ["factor"]}.get(kind, [])
        for key, values in {"factor": [2, 2.0, 8.5, 0, -1], "rope_theta": [5e5, 10000, 1, 0],
                            "original_max_position_embeddings": [64, 64.0, 0, "x"], "low_freq_factor": [1, 1.0],
                            "high_freq_factor": [4.0, 1], "beta_fast": [32, 16.5], "beta_slow": [1],
                            "attention_factor": [1.0, 1.5], "mscale": [1], "mscale_all_dim": [0.5], "truncate": [False, True],
                            "short_factor": [[1.0] * 4, []], "long_factor": [[2, 2, 2, 2], [1] * 3]}.items():
            if key == "rope_theta" or r.random() < (0.9 if key.startswith(tuple(fits) or "?") else 0.05):
                p[key] = values[0] if r.random() < 0.6 else r.choice(values)
        where = r.choice(["rope_parameters", "rope_scaling", "both", "nested"])
        if where in ("rope_parameters", "both"):
            c["rope_parameters"] = p
        if where in ("rope_scaling", "both"):
            c["rope_scaling"] = dict(p, type=kind)
        if where == "nested":
            c["rope_parameters"] = {"full_attention": p, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
        if r.random() < 0.5:
            c.pop("rope_theta", None)
        return f"rope {where} {json.dumps(p)}"

    def without(self):
        k = self.r.choice(["c", "t", "s"])
        key = self.r.choice(sorted(self.x[k]))
        del self.x[k][key]
        return f"{FILES[k]} without {key}"

    # ---- texts of the tokenizer ----

    def template(self):
        s, r = self.x["s"], self.r
        one = lambda: "".join(r.choice(TEXTS[2:] + ["{{ bos_token }}"]) for _ in range(r.randrange(4)))
        how = r.choice(["string", "list", "file", "folder", "both", "empty", "null", "repeated", "bytes"])
        if how in ("string", "both"):
            s["chat_template"] = one()
        elif how == "list":
            s["chat_template"] = [{"name": n, "template": one()} for n in
                                  r.sample(["default", "rag", "tool_use", self.text(), "a/b"], r.randrange(1, 4))]
        elif how == "empty":
            s["chat_template"] = r.choice([[], "", {}])
        elif how == "null":
            s["chat_template"] = None
        elif how == "repeated":
            s["chat_template"] = [{"name": "rag", "template": "1"}, {"name": "rag", "template": "2"}]
        if how in ("file", "both", "folder"):
            self.raw["chat_template.jinja"] = one().encode("utf-8", "surrogatepass")
        if how == "folder":
            for n in r.sample(["tool_use", "rag", "default", "a b", "\u00e9", ".x"], r.randrange(1, 3)):
                self.raw[f"additional_chat_templates/{n}.jinja"] = one().encode("utf-8", "surrogatepass")
        if how == "bytes":
            self.raw["chat_template.jinja"] = r.choice([b"\xff\xfe", b"a\xc0\x80", b"\xed\xa0\x80", b"\x00", b"\xef\xbb\xbfx"])
        return "template " + how

    def token(self):
        vocab, r = self.x["t"].get("model", {}).get("vocab"), self.r
        if not vocab:
            return "no vocabulary"
        merged = set("".join(map("".join, self.x["t"]["model"].get("merges", []))))
        old = r.choice([k for k in vocab if len(k) == 1 and (k not in merged or r.random() < 0.05)])
        new = self.text()
        if new not in vocab:
            vocab[new] = vocab.pop(old)
        return f"token {old!r} is {new!r}"[:120]

    def added(self):
        t, s, r = self.x["t"], self.x["s"], self.r
        if not isinstance(t.get("added_tokens"), list):
            return "no added tokens"
        own = [a["id"] for a in t["added_tokens"]]
        n = r.choice(own + [258, 259]) if r.random() < 0.6 else r.choice([0, 3, 100, 255, 256, 257, 258, 259, 260, 261, 300, 9999, -1, 257.0])
        token = {"id": n, "content": r.choice([self.text(), "<|new|>", "a", "the"])}
        token.update({k: r.random() < 0.3 for k in ("single_word", "lstrip", "rstrip", "normalized", "special")})
        if n in own and r.random() < 0.9:
            for key in ("bos_token", "eos_token"):
                if s.get(key) in [a["content"] for a in t["added_tokens"] if a["id"] == n]:
                    s[key] = token["content"]
            t["added_tokens"] = [a for a in t["added_tokens"] if a["id"] != n]
        t["added_tokens"].append(token)
        how = r.choice(["both", "here", "differs"])
        decoder = s.get("added_tokens_decoder")
        if how != "here" and isinstance(decoder, dict):
            decoder[str(n)] = {k: v for k, v in token.items() if k != "id"}
            if how == "differs":
                decoder[str(n)]["special"] = not token["special"]
        if r.random() < 0.2:
            r.shuffle(t["added_tokens"])
        return f"added {token['id']} {token['content']!r} {how}"[:120]

    def special(self):
        s, r = self.x["s"], self.r
        key = r.choice(["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"])
        v = r.choice(["<|bos|>", "<|eos|>", "a", "no such", "", None, 3, ["<|eos|>"], {"content": "<|eos|>", "lstrip": True},
                      {"__type": "AddedToken", "content": "<|bos|>", "special": True}, self.text()])
        if r.random() < 0.3:
            self.raw["special_tokens_map.json"] = json.dumps({key: v}).encode()
        else:
            s[key] = v
        return f"special {key}={v!r}"[:120]

    def setting(self):
        s, r = self.x["s"], self.r
        key = r.choice(["add_bos_token", "add_eos_token", "add_prefix_space", "legacy", "tokenizer_class",
                        "additional_special_tokens", "extra_special_tokens", "clean_up_tokenization_spaces", "model_max_length"])
        s[key] = r.choice([True, False, None, 1, "true", [], ["<|eos|>"], {}, {"image_token": "<|bos|>"}, 1e30, "LlamaTokenizer"])
        return f"setting {key}={s[key]!r}"

    def step(self):
        t, r = self.x["t"], self.r
        key = r.choice(["normalizer", "pre_tokenizer", "post_processor", "decoder"])
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        t[key] = r.choice([None, {}, {"type": "NFC"}, {"type": "NFKC"}, {"type": "Lowercase"}, level,
                           dict(level, add_prefix_space=True), {"type": "Sequence", "normalizers": []},
                           {"type": "Sequence", "pretokenizers": []}, {"type": "Sequence", "decoders": []},
                           {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
                           {"type": "Split", "pattern": {"String": self.text()}, "behavior": "Isolated", "invert": False},
                           {"type": "Split", "pattern": {"Regex": r.choice(["(", "a*", r"\p{N}", self.text()])},
                            "behavior": r.choice(["Isolated", "Removed", "MergedWithPrevious"]), "invert": r.random() < 0.3},
                           {"type": "TemplateProcessing", "pair": [], "single": [
                               {"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                            "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [256], "tokens": ["<|bos|>"]}}}])
        return f"step {key}={json.dumps(t[key])}"[:160]

    def merges(self):
        m, r = self.x["t"].get("model", {}), self.r
        if not m.get("merges"):
            return "no merges"
        how = r.choice(["empty", "reversed", "twice", "pairs", "odd", "same", "flags"])
        if how == "empty":
            m["merges"] = []
        elif how == "reversed":
            m["merges"] = m["merges"][::-1]
        elif how == "twice":
            m["merges"] = m["merges"] + m["merges"][:1]
        elif how == "pairs":
            m["merges"] = [x.split(" ") if isinstance(x, str) else " ".join(x) for x in m["merges"]]
        elif how == "odd":
            m["merges"].append(r.choice(["a", "a  b", "zz yy", ["a"], [], "", 3, ["a b", "c"]]))
        elif how == "flags":
            m[r.choice(["ignore_merges", "byte_fallback", "fuse_unk"])] = r.choice([True, None, 1])
        return "merges " + how

    # ---- files ----

    def file(self):
        r = self.r
        how = r.choice(["no tokenizer_config", "generation", "generation bytes", "utf-8 mark", "repeated key", "repeated odd key",
                        "model card", "folder", "merges.txt", "vocab.json", "surrogate", "no newline"])
        if how == "no tokenizer_config":
            self.gone.add("tokenizer_config.json")
        elif how == "generation":
            self.raw["generation_config.json"] = json.dumps(r.choice([
                {}, [], {"eos_token_id": [257, 3]}, {"eos_token_id": 257.0}, {"temperature": 0.6, "top_k": 0}, {"x": self.text()},
                {"eos_token_id": []}, {"eos_token_id": 9999}, {"bos_token_id": None}])).encode()
        elif how == "generation bytes":
            self.raw["generation_config.json"] = r.choice([b"", b"{", b"\xff", b"{\"a\":\"\xff\"}", b"{} {}"])
        elif how == "utf-8 mark":
            self.raw["tokenizer_config.json"] = b"\xef\xbb\xbf" + json.dumps(self.x["s"]).encode()
        elif how in ("repeated key", "repeated odd key"):
            key = r.choice(sorted(self.x["c"]))
            odd = key if how == "repeated key" else "".join(f"\\u{ord(ch):04x}" for ch in key)
            self.raw["config.json"] = (json.dumps(self.x["c"])[:-1] + f', "{odd}": {json.dumps(self.x["c"][key])}}}').encode()
        elif how == "model card":
            self.raw["README.md"] = b"\xff\x00"
        elif how == "folder":
            self.raw["original/x"] = b""
        elif how == "merges.txt":
            self.raw["merges.txt"] = b"#version: 0.2\n"
        elif how == "vocab.json":
            self.raw["vocab.json"] = b"{}"
        elif how == "surrogate":
            self.raw["tokenizer_config.json"] = (json.dumps(self.x["s"])[:-1] + ', "x": "\\ud800"}').encode()
        return "file " + how

    def change(self):
        changes = [self.number, self.extra, self.rope, self.without, self.template, self.token, self.added, self.special,
                   self.setting, self.step, self.merges, self.file]
        for _ in range(self.r.choice([1, 1, 1, 2, 3])):
            self.said.append(self.r.choice(changes)())
        return self

    def write(self, out):
        shutil.copytree(self.base, out)
        for n in os.listdir(out):
            os.chmod(os.path.join(out, n), 0o644)
        for k, n in FILES.items():
            if n in self.gone:
                os.remove(os.path.join(out, n))
            else:
                with open(os.path.join(out, n), "w", encoding="utf-8") as f:
                    json.dump(self.x[k], f, ensure_ascii=True)
        for n, data in self.raw.items():
            os.makedirs(os.path.dirname(os.path.join(out, n)), exist_ok=True)
            with open(os.path.join(out, n), "wb") as f:
                f.write(data)


def run(d, *args):
    return subprocess.run(args, cwd=d, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


def read(d, name):
    with open(os.path.join(d, name), "rb") as f:
        return f.read()


def refused(p):
    """Exit 1 and one clear line, beside the notes: None, or what is wrong with it."""
    lines = [x for x in p.stderr.decode("utf-8", "replace").split("\n")[:-1]
             if not x.startswith(("hk-convert: note:", "hk-convert: lost:"))]
    if p.returncode != 1 or p.stdout:
        return f"exit {p.returncode}: {p.stderr[-300:]!r}"
    if len(lines) != 1 or not lines[0].startswith("hk-convert: ") or any(c < 32 and c != 10 for c in p.stderr):
        return f"not one clear line: {p.stderr!r}"
    return None


def holds(d):
    """In `d`, a directory `dir`: what it came to, and what does not hold (None)."""
    p = run(d, "hk-convert", "dir", "x.hk")
    if p.returncode:
        return "refused", refused(p) or ("it left x.hk" if os.path.exists(os.path.join(d, "x.hk")) else None), p.stderr
    for args in (["hk-convert", "--to", "hf", "x.hk", "o"], ["hk-inspect", "o"], ["hk-convert", "o", "y.hk"],
                 ["hk-convert", "--to", "hf", "y.hk", "p"], ["hk-convert", "p", "z.hk"]):
        q = run(d, *args)
        if q.returncode:
            return "in", f"{' '.join(args)}: exit {q.returncode}: {q.stderr[-300:]!r}", b""
    if read(d, "y.hk") != read(d, "z.hk"):
        return "in", "no fixed point: " + run(d, "hk-diff", "y.hk", "z.hk").stdout[:300].decode("utf-8", "replace"), b""
    same = "same" if read(d, "x.hk") == read(d, "y.hk") else "settled"
    q = run(d, "hk-convert", "x.hk", "x.gguf")
    if q.returncode:
        return same + ", no gguf", refused(q), q.stderr
    for args in (["hk-inspect", "x.gguf"], ["hk-convert", "x.gguf", "g.hk"], ["hk-convert", "g.hk", "g.gguf"]):
        q = run(d, *args)
        if q.returncode:
            return same, f"{' '.join(args)}: exit {q.returncode}: {q.stderr[-300:]!r}", b""
    return same, None if read(d, "x.gguf") == read(d, "g.gguf") else "x.gguf made again differs", b""


def attempt(bases, count, first):
    counted, bad = collections.Counter(), 0
    for seed in range(first, first + count):
        d = tempfile.mkdtemp(prefix="odd.")
        odd = Odd(bases, seed).change()
        odd.write(os.path.join(d, "dir"))
        came_to, wrong, text = holds(d)
        shutil.rmtree(d)
        counted[came_to] += 1
        if os.environ.get("ODD_SAY"):
            print(f"# {seed} {came_to}: {odd.said}: {text!r}")
        if wrong:
            bad += 1
            print(f"seed {seed} ({os.path.basename(odd.base)}; {'; '.join(odd.said)}): {wrong}".encode(
                "ascii", "backslashreplace").decode())
    print(", ".join(f"{n} {what}" for what, n in sorted(counted.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    bases = sys.argv[2].split(":")
    if sys.argv[1] == "make":
        odd = Odd(bases, int(sys.argv[4])).change()
        odd.write(sys.argv[3])
        print("; ".join(odd.said))
    else:
        sys.exit(attempt(bases, int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0))
