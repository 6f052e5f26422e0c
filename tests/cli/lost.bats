# What another format's readers will not see is told, and what comes in goes out again or is refused
# when it comes in.
load common.bash

mkst() { "$PYTHON" "$ROOT/tests/cli/mkst.py" "$@"; }

# ---- safetensors that only safetensors has ----

# NAME is hk-inspect's, DTYPE the file's.
ONLY='fp8_e8m0 F8_E8M0 [4]
fp8_e4m3fnuz F8_E4M3FNUZ [5]
fp8_e5m2fnuz F8_E5M2FNUZ [1]
fp6_e2m3 F6_E2M3 [2,2]
fp6_e3m2 F6_E3M2 [8]
fp4_e2m1 F4 [2,3]
complex64 C64 [3]'

@test "dtypes that .hk has not are listed, verified, hashed and compared, and refused by name elsewhere" {
    local name dtype shape to file
    while read -r name dtype shape; do
        mkst make a.safetensors "{\"x\":[\"$dtype\",$shape],\"y\":[\"F32\",[2]]}"
        t hk-inspect a.safetensors
        assert_status 0
        assert_json 'v["tensors"][0]["type"]' "$name"
        t hk-verify a.safetensors
        assert_status 0
        assert_json 'v["valid"], v["warnings"]' '[true,[]]'
        t hk-hash a.safetensors
        assert_status 0
        assert_out_has "$(mkst show a.safetensors | json - 'v["tensors"][0][5]')  a.safetensors:tensor:x"
        t hk-diff a.safetensors a.safetensors
        assert_status 0
        hk-convert -f a.safetensors b.safetensors
        for file in a b; do
            mkst show $file.safetensors | json - '[t[:3] + t[4:] for t in v["tensors"]]' >$file.json
        done
        assert_same a.json b.json
        for to in hk gguf; do
            t hk-convert a.safetensors "c.$to"
            assert_fails 1 "tensor 'x'"
            assert_err_has "$name"
        done
    done <<<"$ONLY"
}

@test "a set of such shards becomes one file" {
    mkst make model-00001-of-00002.safetensors '{"a":["F4",[2]]}'
    mkst make model-00002-of-00002.safetensors '{"b":["C64",[1]],"c":["F8_E8M0",[2]]}'
    cat >model.safetensors.index.json <<'JSON'
{"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors",
"c":"model-00002-of-00002.safetensors"}}
JSON
    hk-convert model.safetensors.index.json whole.safetensors
    t hk-inspect whole.safetensors
    assert_json '[x["type"] for x in v["tensors"]]' '["fp4_e2m1","complex64","fp8_e8m0"]'
}

@test "scales of E8M0 are powers of two, and what has no decoder says so" {
    t hk-dequant --text "$FIX/cases/c046-e8m0.safetensors" s
    assert_status 0
    mkst make a.safetensors '{"e":["F8_E8M0",[3]],"x":["F4",[3,2]],"y":["F6_E2M3",[4]]}'
    "$PYTHON" - <<'PY'
b = bytearray(open("a.safetensors", "rb").read())
b[-9:-6] = bytes([0, 127, 255])
open("a.safetensors", "wb").write(b)
PY
    t hk-dequant --json a.safetensors e
    assert_status 0
    assert_json 'v["data"]' '[5.877472e-39,1.0,null]'
    t hk-dequant a.safetensors x
    assert_fails 1 'tensor x: type fp4_e2m1 is not decoded'
}

@test "elements that do not fill their last byte are refused" {
    printf '\x41\0\0\0\0\0\0\0%s\1\2' '{"x":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}             ' >a.safetensors
    t hk-inspect a.safetensors
    assert_fails 1 "tensor 'x': 3 elements of fp4_e2m1 are not whole bytes"
}
