# safetensors files: what is read from them is what Python's json module and the format's
# description say, and what is written is that too. Broken files are malformed.bats's.
load common.bash

mkst() { "$PYTHON" "$ROOT/tests/lib/mkst.py" "$@"; }

# same_as_python FILE: hk-inspect and mkst.py see the same metadata and tensors in FILE.
same_as_python() {
    mkst show "$1" >python.json
    t hk-inspect --full "$1"
    assert_status 0
    printf '%s' "$output" >hk.json
    t "$PYTHON" - <<'PY'
import json
TYPES = {"fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2", "bool": "BOOL"}
def dtype(name):
    return TYPES.get(name) or name.upper().replace("UINT", "U").replace("INT", "I")
p, h = json.load(open("python.json")), json.load(open("hk.json"))
assert h["format"] == "safetensors"
if "hk.types" not in p["metadata"]:
    assert list(p["metadata"].items()) == list(h["metadata"].items()), "metadata"
tensors = [[t["name"], dtype(t["type"]), t["shape"], t["offset"], t["size"]] for t in h["tensors"]]
assert tensors == [t[:5] for t in p["tensors"]], "tensors"
assert h["header"]["tensor_count"] == len(tensors)
PY
    assert_status 0
}

ALL='{"__metadata__":{"format":"pt","a b":"\u00e9\n\"","empty":""},
"f64":["F64",[2]],"f32":["F32",[]],"f16":["F16",[3,1]],"bf16":["BF16",[1,1,1,1,1,1,1,2]],"void":["I8",[0,7]],
"e4":["F8_E4M3",[3]],"e5":["F8_E5M2",[1]],"i64":["I64",[1]],"i32":["I32",[1]],"i16":["I16",[1]],
"i8":["I8",[5]],"u64":["U64",[1]],"u32":["U32",[1]],"u16":["U16",[1]],"u8":["U8",[1]],"b\u00fc\"\\ol":["BOOL",[2]]}'

@test "hk-inspect shows header, metadata and tensors of every dtype" {
    mkst make a.safetensors "$ALL"
    same_as_python a.safetensors
    t hk-inspect --header a.safetensors
    assert_json 'v["format"]' safetensors
    assert_json 'v["header"]["version"], v["header"]["flags"], v["header"]["alignment"]' '["0",[],0]'
    assert_json 'v["header"]["tensor_toc_offset"]' 8
    assert_json 'v["header"]["metadata_kv_count"]' 3
    assert_json 'v["header"]["tensor_data_offset"] - v["header"]["tensor_toc_size"]' 8
    t hk-inspect --table a.safetensors
    assert_out_has 'file           a.safetensors'
    assert_out_has ' fp8_e4m3 '
}

@test "a file from a pipe is copied whole, however large" {
    mkst make a.safetensors '{"t":["U8",[1000000]]}'
    t_sh 'cat a.safetensors | hk-inspect --tensors -'
    assert_json 'v["tensors"][0]["size"]' 1000000
}

@test "the content tells what a file is, not its name" {
    mkst make a.gguf '{"t":["U8",[1]]}'
    t hk-inspect a.gguf
    assert_json 'v["format"]' safetensors
}

@test "a header of 100 MB and 100000 tensors take ten times as much memory at most" {
    local pairs
    pairs=$(mkst large a.safetensors)
    [[ -n ${SAN:-} ]] || ulimit -v 1000000
    t hk-inspect --header a.safetensors
    assert_status 0
    assert_json 'v["header"]["tensor_toc_size"]' 100000000
    assert_json 'v["header"]["tensor_count"]' 100000
    assert_json 'v["header"]["metadata_kv_count"]' "$pairs"
}

@test "the safetensors of the fixtures are read as Python reads them" {
    need_shared
    local file
    for file in "$SHARED"/fixtures/trained/*/{,lora/}*.safetensors "$SHARED"/fixtures/models/*/*.safetensors; do
        cp "$file" one.safetensors # away from the others of its set
        same_as_python one.safetensors
    done
}

@test "to .hk: names, types and bytes stay" {
    mkst make a.safetensors "$ALL"
    hk-convert a.safetensors a.hk
    t hk-inspect a.hk
    assert_json 'v["metadata"]["a b"]' $'\xc3\xa9\n"'
    mkst show a.safetensors >python.json
    printf '%s' "$output" >hk.json
    t "$PYTHON" - <<'PY'
import hashlib, json
p, h = json.load(open("python.json")), json.load(open("hk.json"))
data = open("a.hk", "rb").read()
made = [[t["name"], t["shape"], hashlib.sha256(data[t["offset"]:t["offset"] + t["size"]]).hexdigest()]
        for t in h["tensors"]]
assert made == [[t[0], t[2], t[5]] for t in p["tensors"]]
PY
    assert_status 0
}

# same_after_show A B: two safetensors files hold the same, whatever their headers look like.
same_after_show() {
    mkst show "$1" | json - '[v["metadata"], [t[:3] + t[4:] for t in v["tensors"]]]' >one
    mkst show "$2" | json - '[v["metadata"], [t[:3] + t[4:] for t in v["tensors"]]]' >two
    assert_same one two
}

@test "what is written is safetensors to others too, of every dtype" {
    mkst make a.safetensors "$ALL"
    hk-convert a.safetensors a.hk
    hk-convert a.hk b.safetensors
    same_after_show a.safetensors b.safetensors
    same_as_python b.safetensors
    hk-convert b.safetensors b.hk
    assert_same a.hk b.hk
}

@test "a GGUF there and back: over .hk or not, to .hk or not, the same bytes" {
    local gguf
    for gguf in "$FIX/models/stories260K-f16.gguf" "$FIX"/malformed/valid-{base,4d,empty}.gguf; do
        hk-convert -f "$gguf" a.hk
        hk-convert -f a.hk a.safetensors
        hk-convert -f "$gguf" b.safetensors
        assert_same a.safetensors b.safetensors
        hk-convert -f a.safetensors b.hk
        assert_same a.hk b.hk
        hk-convert -f a.safetensors b.gguf
        hk-convert -f a.hk a.gguf
        assert_same a.gguf b.gguf
    done
}

@test "the safetensors of the fixtures stay what they are over .hk" {
    need_shared
    local file
    for file in "$SHARED"/fixtures/trained/*/*.safetensors; do
        hk-convert -f "$file" a.hk
        hk-convert -f a.hk a.safetensors
        same_after_show "$file" a.safetensors
    done
}
