# what a hostile file may cost: hk(5), "Bounds"
load common.bash

# 5 s, 200 MiB, and files of 100 MiB.
bounded() { t "$PYTHON" "$ROOT/tests/cli/bounded.py" 5 200 100 "$@"; }
hostile() { printf '%s' "$FIX/cases/hostile/$1"; }

assert_refused() { # [PART OF THE MESSAGE]
    [[ $status -eq 1 || $status -eq 2 ]] || fail 'expected to be refused'
    assert_err_has "${1:---max-output}"
}

@test "zeros without end are written only with --max-output" {
    for to in x.safetensors x.gguf x.hk; do
        bounded hk-convert "$(hostile null-2e40.hk)" $to
        [[ $status -ne 0 ]] || { [[ $to == x.hk ]] && [[ $(stat -c %s x.hk) -lt 16384 ]]; } ||
            fail "$to was written"
        [[ $to != x.safetensors ]] || assert_refused
    done
    bounded hk-convert --to hf "$(hostile null-2e40.hk)" x.dir
    [[ $status -ne 0 ]]
    bounded hk-dequant -o x.f32 "$(hostile null-2e40.hk)" "$(hk-inspect "$(hostile null-2e40.hk)" |
        json - 'v["tensors"][0]["name"]')"
    assert_refused
    bounded hk-dequant --all d "$(hostile null-2e40.hk)"
    assert_refused
    assert_files d x.hk
}

@test "--max-output gives what is asked for, and no more" {
    mkhk n.hk '{"tensors":[{"name":"n","type":"null_ref","shape":[17,1048576]}]}'
    bounded hk-convert --type f32 n.hk n.safetensors
    assert_refused 'n.hk: would write more than 67108864 bytes, the limit for this input; --max-output raises it'
    bounded hk-convert --type f32 --max-output 69M n.hk n.safetensors
    assert_status 0
    bounded hk-convert --type f32 --max-output 1k -f n.hk n.safetensors
    assert_refused
    bounded hk-dequant -o n.f32 n.hk n
    assert_refused
    bounded hk-dequant --rows 0:16 -o n.f32 n.hk n
    assert_status 0
    bounded hk-dequant --max-output 68M -f -o n.f32 n.hk n
    assert_status 0
    [[ $(stat -c %s n.f32) -eq 71303168 ]]
    t hk-convert --max-output 0 n.hk o.hk
    assert_status 2
}

@test "--max-output is also for tensors that are decoded from the same bytes" {
    "$PYTHON" - <<'PY' >desc
import json
shape = [4096, 1024]  # 4.25 MiB of q8_0
print(json.dumps({"tensors": [{"name": "a", "type": "q8_0", "shape": shape, "data": {"zero": 4096 * 32 * 34}}] +
                  [{"name": "r%d" % i, "type": "shared_ref", "shape": shape, "shared": 0} for i in range(20)]}))
PY
    mkhk r.hk @desc
    t hk-convert --type f16 r.hk o.hk
    assert_refused 'r.hk: would write more than 71'
    t hk-convert --type f16 --max-output 1G r.hk o.hk
    assert_status 0
    t hk-convert --type f16 --max-output 1G r.hk o.safetensors
    assert_status 0
}

@test "a set has one bound for all of its files" {
    mkhk n.hk '{"tensors":[
        {"name":"a","type":"null_ref","shape":[9,1048576]},{"name":"b","type":"null_ref","shape":[9,1048576]}]}'
    bounded hk-convert --type f32 --split-size 36M n.hk n.safetensors
    assert_refused
    assert_files n.hk
    bounded hk-convert --type f32 --split-size 36M --max-output 73M n.hk n.safetensors
    assert_status 0
    assert_files n-00001-of-00002.safetensors n-00002-of-00002.safetensors n.hk n.safetensors.index.json
}

@test "alignment does not blow up a file" {
    bounded hk-convert "$(hostile align-2e31.hk)" x.gguf
    assert_refused
    bounded hk-convert "$(hostile align-2e31.hk)" x.hk
    assert_status 0
    assert_files x.hk
}

@test "references to one tensor do not multiply work" {
    "$PYTHON" - <<'PY' >desc
import json
size = 1 << 21  # of a mask that has nothing set
print(json.dumps({"tensors": [{"name": "m", "type": "f32", "sparsity": "bitmask", "shape": [8 * size],
                               "data": {"zero": size}}] +
                  [{"name": "r%d" % i, "type": "shared_ref", "shape": [8 * size], "shared": 0}
                   for i in range(300)]}))
PY
    mkhk r.hk @desc
    bounded hk-convert r.hk r.safetensors
    assert_refused
    bounded hk-diff --json r.hk r.hk
    assert_status 1
    assert_out_has '--max-output'
    bounded hk-dequant --all d r.hk
    assert_refused
    bounded hk-hash r.hk
    assert_status 0
}

# Blocks of one element, all in the last column of one row, or backwards.
@test "block-sparse rows of many blocks are read in linear time" {
    "$PYTHON" - <<'PY'
import json, struct
k, cols = 1500000, 1 << 24
for name, order in (("one", [cols - 1] * k), ("back", list(range(cols - 1, cols - 1 - k, -1)))):
    body = struct.pack("<HHII", 1, 1, 2, k) + struct.pack("<II", 0, k) + struct.pack("<%dI" % k, *order)
    open("body", "wb").write(body + struct.pack("<%df" % k, *range(k)))
    open("desc", "w").write(json.dumps({"tensors": [
        {"name": "t", "type": "f32", "sparsity": "bsr", "shape": [1, cols], "data": {"file": "body"}}]}))
    import os, subprocess
    subprocess.run([os.environ.get("PYTHON", "/usr/bin/python3"), os.environ["MKHK"], name + ".hk", "@desc"], check=True)
PY
    bounded hk-dequant -o one.f32 one.hk t
    assert_status 0
    [[ $(tail -c 8 one.f32 | hex) == 00000000f81ab749 ]] # the last of them counts
    bounded hk-dequant -o back.f32 back.hk t
    assert_status 0
    [[ $(tail -c 8 back.f32 | hex) == 0000803f00000000 ]]
    bounded hk-diff back.hk one.hk
    assert_status 1
    bounded hk-convert --type f32 back.hk back.safetensors
    assert_status 0
}

@test "no token is lost where a long input is cut" {
    "$PYTHON" -c 'print("USER " * 300000 + "Hi", end="")' >text
    bounded hk-tokenize --json "$(hostile tok-cut.hk)" <text
    assert_status 0
    printf '%s' "$output" >whole
    bounded hk-tokenize --json "$(hostile tok-cut.hk)" 'USER USER USER Hi'
    printf '%s' "$output" | "$PYTHON" -c 'import json, sys
some, whole = json.load(sys.stdin)["tokens"], json.load(open("whole"))["tokens"]
assert some[1:4] == some[4:7] and whole == some[:1] + some[1:4] * 299999 + some[-3:], len(whole)'
}

@test "merges made of blanks are refused in linear time" {
    bounded hk-tokenize "$(hostile merge-blanks-200k.hk)" x
    assert_refused 'too many spaces'
}

@test "compressed records are inflated as far as what is in them declares" {
    for program in 'hk-merge F out.hk' 'hk-log --extract 0 -o out F' 'hk-log --extract 0 --to peft -o out F'; do
        # shellcheck disable=SC2086
        bounded ${program/F/"$(hostile h10-bomb256.hk)"}
        assert_refused '--max-output'
    done
    assert_files
    cat >desc <<'PY'
import json, struct, sys, zlib
def record(plain, stated=None, **more):
    z = zlib.compress(plain, 9)
    return dict({"name": "r", "target": "t", "type": "delta_patch", "flags": 3, "crc": True,
                 "data": {"hex": (struct.pack("<Q", stated or len(plain)) + z).hex()}}, **more)
def delta(declared, real):
    head = json.dumps({"t": {"dtype": "F32", "shape": [declared // 4], "data_offsets": [0, declared]}}).encode()
    return struct.pack("<Q", len(head)) + head + bytes(real)
n = 1 << 20
cases = {"good": [record(delta(4 * n, 4 * n))], "junk": [record(bytes(60 << 20))],
         "less": [record(delta(16, 32 << 20))],
         "many": [record(delta(4 * n, 4 * n), name="r%d" % i) for i in range(40)]}
print(json.dumps({"tensors": [{"name": "t", "type": "null_ref", "shape": [n]}], "appendix": cases[sys.argv[1]]}))
PY
    for name in good junk less many; do
        "$PYTHON" desc $name >desc.json
        mkhk $name.hk @desc.json
    done
    bounded hk-merge good.hk out.hk
    assert_status 0
    bounded hk-merge -f junk.hk out.hk
    assert_refused 'neither safetensors nor GGUF'
    bounded hk-merge -f less.hk out.hk
    assert_refused 'its header declares 16 bytes of data, not 33554432'
    bounded hk-merge -f many.hk out.hk
    assert_refused 'too much for a file of this size'
    bounded hk-log -x 39 --max-output 1k -o out many.hk
    assert_refused '--max-output'
    bounded hk-log -x 39 -o out many.hk
    assert_status 0
}

# 3 MiB of empty objects are 230 MiB as a tree.
@test "json of many small values is read in bounded memory" {
    "$PYTHON" - <<'PY'
import json, os, subprocess
text = "[" + ",".join(["{}"] * 1500000) + "]"
for name, key in (("plain", "a.json"), ("tokens", "tokenizer.ggml.tokens"), ("merges", "tokenizer.ggml.merges"),
                  ("types", "hk.gguf.types"), ("template", "tokenizer.chat_template")):
    kvs = [["general.architecture", "string", "llama"], ["tokenizer.ggml.model", "string", "gpt2"]]
    if name == "merges":
        kvs.append(["tokenizer.ggml.tokens", "json", json.dumps(["a"])])
    open("desc", "w").write(json.dumps({"metadata": kvs + [[key, "json", text]]}))
    subprocess.run(["/usr/bin/python3", os.environ["MKHK"], name + ".hk", "@desc"], check=True)
open("many.json", "w").write('{"weight_map": ' + text + "}")
PY
    for name in plain tokens merges types template; do
        for program in 'hk-inspect F' 'hk-inspect --full F' 'hk-verify --payload F' 'hk-meta list F' \
            'hk-meta export F' 'hk-diff F F' 'hk-tokenize F x' 'hk-convert -f F out.gguf' \
            'hk-convert -f F out.safetensors' 'hk-convert -f F out.hk' 'hk-meta import F many.json'; do
            # shellcheck disable=SC2086
            t_sh '"$@" >out.txt' "$PYTHON" "$ROOT/tests/cli/bounded.py" 10 150 100 ${program//F/$name.hk}
            [[ $status -le 2 ]] || fail "$program: $name"
        done
    done
    cp many.json model.safetensors.index.json
    bounded hk-inspect model.safetensors.index.json
    assert_refused 'more values than its length allows'
    mkhk x.hk
    bounded hk-append --topology many.json --name t x.hk
    assert_refused 'more values than its length allows'
}

@test "export and import of every type keep odd bytes" {
    t hk-meta export "$(hostile export-badjson.hk)"
    assert_status 0
    printf '%s' "$output" >e.json
    cp "$(hostile export-badjson.hk)" e.hk
    t hk-meta import e.hk e.json
    assert_status 0
    assert_same e.hk "$(hostile export-badjson.hk)"
    "$PYTHON" - <<'PY'
import json, os, random, struct, subprocess
rng = random.Random(1)
odd = [b"", b"x", b"\xff", b"\0", b"{oops", b'{"a":1,"a":2}', b"[1,2", b"1e999", b"18446744073709551616",
       b"\xc3\xa9", b'"\\ud800"', b"nul", b"null", b" [ 1 ] ", b"\xed\xa0\x80", bytes(range(256))]
def value(kind):
    if kind in ("string", "json", "bytes"):
        b = rng.choice(odd) if rng.random() < .7 else bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
        return {"hex": b.hex()}
    if kind == "bool":
        return {"hex": "%02x" % rng.choice([0, 1, 2, 255])}
    return {"hex": rng.choice([bytes(8), b"\xff" * 8, struct.pack("<d", rng.choice([0.1, -0.0, 1e308, 5e-324])),
                               struct.pack("<d", float("nan")), struct.pack("<d", float("-inf")),
                               struct.pack("<q", rng.randrange(-2**63, 2**63))]).hex()}
blobs = [{"strings": ["a", "", "\u00e9"]}, {"f32_blob": [0.1, -0.0]}, {"i32_blob": [-1, 2**31 - 1]}, {"strings": []}]
for i in range(40):
    kvs = [["k%d" % n, kind, value(kind)] for n, kind in
           enumerate(rng.choice(["string", "json", "bytes", "bool", "int64", "float64"]) for _ in range(12))]
    kvs += [["b%d" % n, "bytes", b] for n, b in enumerate(blobs)]
    open("desc", "w").write(json.dumps({"metadata": kvs, "tensors": [
        {"name": "t", "type": "f32", "shape": [1], "data": {"f32": [1]}}]}))
    subprocess.run(["/usr/bin/python3", os.environ["MKHK"], "x.hk", "@desc"], check=True)
    text = subprocess.run(["hk-meta", "export", "x.hk"], check=True, capture_output=True).stdout
    before = open("x.hk", "rb").read()
    subprocess.run(["hk-meta", "import", "x.hk"], input=text, check=True)
    assert open("x.hk", "rb").read() == before, kvs  # nothing differs, so nothing is written
    open("y.hk", "wb").write(before)
    subprocess.run(["hk-meta", "delete", "y.hk"] + [k for k, _, _ in kvs], check=True)
    subprocess.run(["hk-meta", "import", "y.hk"], input=text, check=True)
    again = subprocess.run(["hk-meta", "export", "y.hk"], check=True, capture_output=True).stdout
    assert again == text, kvs
PY
}

@test "every program answers to every hostile file" {
    t "$PYTHON" "$ROOT/tests/cli/hostile.py" "$FIX/cases/hostile"
    assert_status 0
}
