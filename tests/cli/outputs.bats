# The format of an output: --to, else the extension of its name, else .hk; in every program alike.
load common.bash

setup() {
    common_setup
    printf '{"layers":5,"width":64,"kv_width":32,"ffn":172}' >sizes
    mkdir one
    "$PYTHON" "$ROOT/tests/lib/mklora.py" make one sizes
    hk-convert "$FIX/models/stories260K-f16.gguf" m.hk
    hk-append --lora one m.hk
}

# assert_format FILE FORMAT
assert_format() {
    t hk-inspect --header "$1"
    assert_status 0
    assert_json 'v["format"]' "$2"
}

@test "hk-merge writes what hk-convert makes of the merged .hk" {
    hk-merge m.hk merged.hk
    for to in gguf safetensors; do
        t hk-merge m.hk merged.$to
        assert_status 0
        assert_err ''
        assert_format merged.$to $to
        hk-convert merged.hk want.$to
        assert_same merged.$to want.$to
    done
    hk-merge m.hk dir/
    hk-convert merged.hk want/
    diff -r dir want
    t_sh 'hk-merge --to gguf m.hk - | cmp - merged.gguf'
    assert_status 0
    t hk-merge m.hk merged.gguf
    assert_fails 2 'hk-merge: merged.gguf: exists; use -f to replace it'
    hk-merge -f --type f32 m.hk merged.gguf
    ! cmp -s merged.gguf want.gguf
}

@test "hk-merge refuses what the format does not have" {
    t hk-merge --to hf m.hk -
    assert_fails 2 'hk-merge: standard output is one file, not several'
    t hk-merge --align 64 m.hk x.safetensors
    assert_fails 2 'hk-merge: --align is for hk and gguf: safetensors has no alignment'
    t hk-merge --to peft m.hk x
    assert_fails 2 'hk-merge: --to: takes hk, gguf, safetensors or hf, not peft'
    t hk-merge m.hk x.index.json
    assert_fails 2 'hk-merge: x.index.json is the name of an index, not of a model'
    assert_files m.hk one sizes
}

@test "an extension that is unknown, or that of another format, is said once" {
    hk-convert --no-history m.hk base.hk
    for program in hk-convert hk-merge; do
        t $program -f m.hk x.ggfu
        assert_status 0
        assert_err "$program: x.ggfu: written as hk: unknown extension; --to names the format"
        assert_format x.ggfu hk
        t $program -f -q m.hk x.ggfu
        assert_err ''
        t $program -f --to hk m.hk x.bin
        assert_err ''
        t $program -f --to hk m.hk x.gguf
        assert_err "$program: x.gguf: written as hk, not as its extension says"
        assert_format x.gguf hk
        for name in x dir.d/x .hidden /dev/null; do
            mkdir -p dir.d
            t $program -f m.hk $name
            assert_status 0
            assert_err ''
        done
        t_sh "$program m.hk - | cat >y"
        assert_err ''
        assert_format y hk
    done
    t hk-convert base.hk -f --to gguf x.safetensors
    assert_err 'hk-convert: x.safetensors: written as gguf, not as its extension says'
}

@test "hk-log writes an adapter as its output is called" {
    hk-log -x one --to gguf -o want.gguf m.hk
    t hk-log -x one -o a.gguf m.hk
    assert_status 0
    assert_err ''
    assert_same a.gguf want.gguf
    t hk-log -x one -o dir/ m.hk
    assert_status 0
    assert_same dir/adapter_model.safetensors <(hk-log -x one --to peft -o d2 m.hk && cat d2/adapter_model.safetensors)
    hk-log -x one --raw m.hk >want
    t hk-log -x one --raw -o raw.gguf m.hk
    assert_same raw.gguf want
    t hk-log -x one -o plain.safetensors m.hk
    assert_same plain.safetensors want
    t hk-log -x one --to gguf -o b.safetensors m.hk
    assert_err 'hk-log: b.safetensors: written as gguf, not as its extension says'
    # what is no adapter is what it is
    echo '{"a":1}' >e.json
    hk-append --eval e.json --name e m.hk
    t hk-log -x e -o e.gguf m.hk
    assert_status 0
    assert_same e.gguf e.json
    hk-append -q --lora e.json --name odd m.hk
    t hk-log -x odd -o odd.gguf m.hk
    assert_fails 1 'record 2 is not an adapter of a known form; --raw writes its bytes'
}

@test "hk-run of an adapter says how it is run" {
    t hk-run one x
    assert_fails 1 'hk-run: one: is a low-rank adapter, not a model: hk-append --lora adds it to its model, --adapter'
}

@test "hk-dequant writes what its output is called" {
    for form in npy json text; do
        name=x.${form/text/txt}
        t hk-dequant -o $name m.hk output_norm.weight
        assert_status 0
        assert_err ''
        hk-dequant --$form m.hk output_norm.weight >want
        assert_same $name want
    done
    t hk-dequant --text -o y.npy m.hk output_norm.weight
    assert_err 'hk-dequant: y.npy: not written as its extension says'
    hk-dequant m.hk output_norm.weight >want
    for name in y y.f32 y.bin; do
        t hk-dequant -o $name m.hk output_norm.weight
        assert_err ''
        assert_same $name want
    done
}
