# hk-verify --payload: codes that stand for nothing, in every form and format.
load common.bash

# say FILE WARNINGS: [code, tensor, the number in the message] of each.
say() {
    t hk-verify --payload "$1"
    assert_status 0
    assert_json '[[w["code"],w["tensor"],int(w["message"].split(": ")[1].split()[0])] for w in v["warnings"]]' "$2"
    assert_json 'v["checked"]["payload"]' True
}

@test "NaN, infinities, scales and truth values are found in a GGUF and a safetensors file as in a .hk" {
    mkhk x.hk '{"tensors":[
        {"name":"a","type":"f32","shape":[32],"data":{"cat":[{"hex":"0000c07f0000807f"},{"zero":120}]}},
        {"name":"b","type":"q8_0","shape":[32],"data":{"cat":[{"hex":"000001"},{"zero":31}]}}]}'
    hk-convert x.hk x.gguf
    for file in x.hk x.gguf; do
        say $file '[["payload-nan","a",1],["payload-inf","a",1],["payload-scale","b",1]]'
    done
    mkhk y.hk '{"tensors":[
        {"name":"a","type":"f16","shape":[2],"data":{"hex":"007e007c"}},
        {"name":"b","type":"bool","shape":[4],"data":{"hex":"000102ff"}}]}'
    hk-convert y.hk y.safetensors
    for file in y.hk y.safetensors; do
        say $file '[["payload-nan","a",1],["payload-inf","a",1],["payload-bool","b",2]]'
    done
    t hk-verify y.safetensors
    assert_status 0
    assert_json '[v["warnings"],v["checked"]["payload"]]' '[[],false]'
    t hk-verify --payload --strict y.safetensors
    assert_status 1
}

@test "NaN is found in the types that only safetensors has" {
    "$PYTHON" - <<'PY'
import json, struct
nan, head, data = struct.pack("<f", float("nan")), {}, b""
for name, dtype, shape, value in [
        ("scale", "F8_E8M0", [4], b"\x7f\xff\x00\x80"), ("a", "F8_E4M3FNUZ", [3], b"\x7f\x80\xff"),
        ("b", "F8_E5M2FNUZ", [3], b"\x80\x00\x80"), ("c", "C64", [2], bytes(12) + nan),
        ("four", "F4", [2], b"\x80"), ("six", "F6_E3M2", [4], b"\xff\x80\xff")]:
    head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(value)]}
    data += value
text = json.dumps(head).encode()
open("m.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
PY
    t hk-verify --payload m.safetensors
    assert_status 0
    assert_json '[(w["code"],w["message"]) for w in v["warnings"]]' \
        '[["payload-nan","tensor scale: 1 NaN"],["payload-nan","tensor a: 1 NaN"],["payload-nan","tensor b: 2 NaN"],["payload-nan","tensor c: 1 NaN"]]'
}

@test "a model that is sound has no warnings in any format" {
    make_models
    hk-convert --to safetensors model.hk model.safetensors
    for file in model.hk model.gguf model.safetensors; do
        t hk-verify --payload $file
        assert_status 0
        assert_json '[v["warnings"],v["checked"]["payload"]]' '[[],true]'
    done
}

@test "scales whose code is NaN, in blocks and apart from them, and scales of zero with codes" {
    mkhk x.hk '{"tensors":[
        {"name":"a","type":"mxfp4","shape":[64],"data":{"cat":[{"hex":"ff"},{"zero":16},{"hex":"fe"},{"zero":16}]}},
        {"name":"b","type":"nvfp4","shape":[64],"data":{"cat":[{"hex":"7fff0038"},{"zero":16},{"hex":"01"},{"zero":15}]}},
        {"name":"c","type":"mxfp4","shape":[64],"data":{"zero":32},"scales":{"hex":"80ff"},"block_size":32}]}'
    say x.hk '[["payload-scale","a",1],["payload-scale","b",1],["payload-scale","b",2],["payload-scale","c",1]]'
}

@test "bits behind the last element of a mask are told, and change no value" {
    mkhk x.hk '{"tensors":[{"name":"m","type":"f32","sparsity":"bitmask","shape":[10],
        "data":{"hex":"010000000000803f"}}]}'
    say x.hk '[]'
    hk-dequant -o a x.hk m
    mkhk y.hk '{"tensors":[{"name":"m","type":"f32","sparsity":"bitmask","shape":[10],
        "data":{"hex":"010480000000803f"}}]}'
    say y.hk '[["payload-mask","m",2]]'
    hk-dequant -o b y.hk m
    cmp a b
}

@test "a null_ref with an offset is told without --payload" {
    mkhk x.hk --set 'tensors[0].data_offset=128' '{"tensors":[{"name":"n","type":"null_ref","shape":[3]}]}'
    t hk-verify x.hk
    assert_status 0
    assert_json '[(w["code"],w["tensor"]) for w in v["warnings"]]' '[["null-offset","n"]]'
    mkhk x.hk '{"tensors":[{"name":"n","type":"null_ref","shape":[3]}]}'
    t hk-verify --strict x.hk
    assert_status 0
}
