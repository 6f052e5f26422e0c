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
    assert_refused 'too many blanks'
}
