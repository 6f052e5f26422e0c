# Directories of any kind: hk-convert --raw, and back.
load common.bash

setup() {
    common_setup
    make_any m
}

# make_any DIR: a directory of a model that nothing here knows.
make_any() {
    mkdir "$1"
    "$PYTHON" "$ROOT/tests/lib/mkst.py" make "$1/model.safetensors" \
        '{"__metadata__":{"format":"pt","by":"me"},"a.b":["BF16",[3,4]],"deep.0.w":["F8_E4M3",[2,8]],"n":["I64",[2]],"s":["F32",[]]}'
    printf '{"model_type": "nobody_knows",\n "x": 1e0}' >"$1/config.json"
    printf 'A \xff\x00piece' >"$1/tokenizer.model"
    printf '' >"$1/empty.txt"
    printf 'Gr\xc3\xbc\xc3\x9fe\n' >"$1/README.md"
}

# returns DIR HK: HK as a directory has the tensors and the kept files of DIR.
returns() {
    rm -rf back
    hk-convert "$2" --to hf back
    "$PYTHON" "$ROOT/tests/lib/mkst.py" show "$1/model.safetensors" >a.json
    "$PYTHON" "$ROOT/tests/lib/mkst.py" show back/model.safetensors >b.json
    local expr='sorted([t[0]] + t[1:3] + t[4:] for t in (v["tensors"] if isinstance(v, dict) else v[-1]))'
    [[ $(json a.json "$expr") == "$(json b.json "$expr")" ]] || fail "$1: other tensors"
    for file in "$1"/*; do
        [[ $file == *.safetensors ]] || assert_same "$file" "back/${file##*/}"
    done
}

@test 'a directory of an unknown model becomes a .hk and comes back' {
    t hk-convert m out.hk
    assert_fails 1 'hk-convert --raw'
    hk-convert --raw m out.hk
    hk-verify --payload out.hk
    t hk-inspect --metadata --tensors out.hk
    assert_json 'sorted(t["name"] for t in v["tensors"])' '["a.b","deep.0.w","n","s"]'
    assert_json 'v["metadata"]["by"]' me
    t hk-meta get out.hk hk.raw.config.json
    assert_out "$(cat m/config.json)"
    returns m out.hk
    hk-convert --raw back again.hk
    assert_same out.hk again.hk
    rm m/config.json
    hk-convert --raw -f m out.hk
    returns m out.hk
}

@test 'shards, sets and format tools' {
    hk-convert --raw --split-size 20 m set.hk
    [[ -e set.hk.index.json || -e set-00001-of-00002.hk || -e set-00001-of-00003.hk ]]
    returns m set-00001-of-*.hk
    hk-convert --raw m out.hk
    hk-convert --to hf --split-size 20 out.hk shards
    [[ -e shards/model.safetensors.index.json ]]
    hk-convert --raw shards there.hk
    t hk-diff --tensors out.hk there.hk
    assert_status 0
    hk-hash out.hk >sums
    hk-hash --check sums
}

@test 'what is left out is said, what cannot be kept is refused by name' {
    mkdir m/onnx
    printf 'x' >m/pytorch_model.bin
    printf '\x89PNG\x00' >m/a.png
    t hk-convert --raw m out.hk
    assert_status 0
    for name in onnx pytorch_model.bin a.png; do
        assert_err_has "left out: $name"
    done
    "$PYTHON" "$ROOT/tests/lib/mkst.py" make m/model.safetensors '{"a":["F8_E8M0",[4]]}'
    t hk-convert -q --raw -f m out.hk
    assert_fails 1 'tensor a: .hk has no storage type fp8_e8m0'
    "$PYTHON" "$ROOT/tests/lib/mkst.py" make m/model.safetensors '{"__metadata__":{"hk.raw.x":"y"},"a":["F32",[4]]}'
    rm -r m/onnx m/pytorch_model.bin m/a.png
    t hk-convert --raw -f m out.hk
    assert_fails 1 'hk.raw.x'
}

@test 'names of files that metadata give are checked' {
    hk-convert --raw m out.hk
    for name in ../x a/b .. . model.safetensors model.safetensors.index.json model-00001-of-00002.safetensors x.bin; do
        cp out.hk bad.hk
        hk-meta set bad.hk "hk.raw.$name" evil
        t hk-convert bad.hk --to hf dir
        assert_fails 1 'no file of that name is written'
        [[ ! -e dir ]]
    done
}

@test 'options that do not fit are refused' {
    for other in '--to gguf' '--type f16' '--base x'; do
        # shellcheck disable=SC2086 # words
        t hk-convert --raw $other m out
        assert_fails 2 '--raw'
    done
    t hk-convert --raw m/config.json out.hk
    assert_fails 2
}

@test 'fixtures: all directories of families come back' {
    need_shared
    [[ -d $SHARED/fixtures/families ]] || skip 'SKIPPED: needs the families of the shared directory'
    for dir in "$SHARED"/fixtures/families/*/hf; do
        hk-convert --raw -f "$dir" out.hk
        returns "$dir" out.hk
    done
}
