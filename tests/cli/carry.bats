# What becomes of records when a file is converted, divided and put together again.
load common.bash

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    export HK_CARRY=$BATS_FILE_TMPDIR SOURCE_DATE_EPOCH=1700000000
    make_models
    printf '{"pass_rate":1}' >eval.json
    head -c 3000 /dev/urandom >cache.bin
    printf 'no adapter at all' >opaque.bin
    cp model.hk r1.hk
    hk-append --eval eval.json --name one --bind-base r1.hk
    cp r1.hk r2.hk
    hk-append --kv-cache cache.bin --name two --compress --loss 0.25 r2.hk
    cp r2.hk r3.hk
    hk-append --lora opaque.bin --name three --inactive r3.hk 2>log
}
setup() {
    common_setup
    cp "$HK_CARRY"/{model.gguf,model.hk,r1.hk,r2.hk,r3.hk} .
}

# records FILE: its records as bytes, from the first one on.
records() {
    local at
    at=$(hk-inspect --header "$1" | json - 'v["header"]["appendix_offset"]')
    dd if="$1" bs=64k iflag=skip_bytes skip="$at" status=none
}
# same_records A B: the same bytes, one valid chain, bound to the base.
same_records() {
    records "$1" >a.records
    records "$2" >b.records
    cmp a.records b.records >&2 || fail "records differ: $1 $2"
    hk-log "$1" | json - '[{k: w for k, w in r.items() if k != "offset"} for r in v["records"]]' >a.log
    hk-log "$2" | json - '[{k: w for k, w in r.items() if k != "offset"} for r in v["records"]]' >b.log
    assert_same a.log b.log
    t hk-verify --strict --payload "$2"
    assert_status 0
    assert_json '[v["lineage"],v["checked"]["base"]]' '["ok","bound"]'
}

@test ".hk to .hk keeps 1, 2 and 3 records byte for byte, wherever they move" {
    local n how
    for n in 1 2 3; do
        for how in '' '--align 4096' '--align 65536' '--room 0' '--room 1M' '--keep-history' \
            '--split-size 1G' '--type f16'; do
            hk-convert $how r$n.hk x.hk # shellcheck disable=SC2086
            same_records r$n.hk x.hk
            rm x.hk
        done
        hk-convert - - <r$n.hk >x.hk
        same_records r$n.hk x.hk
        hk-convert --no-history r$n.hk y.hk
        assert_same y.hk model.hk
        rm x.hk y.hk
    done
}

@test "other formats refuse records by the option that leaves them out, and then are what the base gives" {
    local n to
    hk-convert model.hk base.safetensors
    hk-convert --to hf model.hk base.hf 2>log
    for n in 1 2 3; do
        for to in gguf safetensors hf; do
            t hk-convert --to $to r$n.hk x.$to
            assert_fails 1 "the appendix of $n record"
            assert_err_has '--no-history'
            [[ ! -e x.$to ]]
            t hk-convert --to $to --split-size 200k r$n.hk x.$to
            assert_fails 1 '--no-history'
            hk-convert --no-history --to $to r$n.hk x.$to 2>log
        done
        cmp x.gguf model.gguf
        cmp x.safetensors base.safetensors
        diff -r x.hf base.hf
        rm -r x.*
    done
    t hk-convert --to gguf r1.hk -
    assert_fails 1 '--no-history'
    hk-convert --to gguf --no-history - - <r1.hk >x.gguf
    assert_same x.gguf model.gguf
}

@test "the first shard carries the records, and joining takes them from it" {
    local n size i
    for n in 1 2 3; do
        for size in 150k 300k; do
            hk-convert --split-size $size r$n.hk s.hk
            for i in s-0000[2-9]*.hk; do
                [[ $(od -An -v -t u8 -j 72 -N 8 "$i" | tr -d ' ') == 0 ]] || fail "$i: records"
            done
            records s-00001-of-*.hk >a.records
            records r$n.hk >b.records
            assert_same a.records b.records
            hk-convert s.hk.index.json whole.hk
            same_records r$n.hk whole.hk
            hk-convert --split-size 100k s.hk.index.json again.hk
            hk-convert again.hk.index.json twice.hk
            assert_same twice.hk whole.hk
            hk-convert r$n.hk direct.hk
            assert_same whole.hk direct.hk
            t hk-convert s.hk.index.json x.gguf
            assert_fails 1 '--no-history'
            hk-convert --no-history s.hk.index.json x.gguf
            assert_same x.gguf model.gguf
            hk-convert --no-history --split-size $size r$n.hk none.hk
            hk-convert none.hk.index.json x.hk
            assert_same x.hk model.hk
            rm -f s* again* whole.hk twice.hk direct.hk x.* none*
        done
    done
}

@test "what an interrupted append left, or another program is still writing, does not go along" {
    local how
    cp r2.hk torn.hk
    head -c 80 /dev/zero >>torn.hk
    printf 'the beginning of a payload' >>torn.hk
    for how in '' '--align 4096' '--split-size 150k'; do
        t hk-convert $how torn.hk x.hk
        assert_status 0
        if [[ $how == --split* ]]; then
            hk-convert x.hk.index.json x.hk
        fi
        same_records r2.hk x.hk
        rm -f x*
    done
    hk-convert --no-history torn.hk x.hk
    assert_same x.hk model.hk
}

@test "an edit after a record, a conversion and another edit" {
    hk-meta set r3.hk general.name 'a rather longer name than it had'
    hk-convert --split-size 200k r3.hk s.hk
    hk-convert s.hk.index.json x.hk
    hk-meta set x.hk general.description "$(head -c 3000 /dev/zero | tr '\0' d)"
    same_records r3.hk x.hk
    [[ $(hk-meta get x.hk general.name) == 'a rather longer name than it had' ]]
}

@test "tensors that change their types need a choice" {
    mkhk q.hk '{"tensors":[{"name":"a","type":"q8_0","shape":[2,32],"data":{"zero":68}},
        {"name":"b","type":"f16","shape":[3],"data":{"hex":"003c003c003c"}}]}'
    cp q.hk base.hk
    hk-append --eval "$HK_CARRY/eval.json" --name e --bind-base q.hk
    t hk-convert --type f32 q.hk x.hk
    assert_status 1
    assert_err_has '--no-history leaves it out, --keep-history keeps it'
    assert_err_has 'the appendix of 1 record was made'
    t hk-convert --type f32 --split-size 64 q.hk x.hk
    assert_status 1
    assert_err_has --keep-history
    assert_files q.hk base.hk model.gguf model.hk r1.hk r2.hk r3.hk
    t hk-convert --type f32 --keep-history q.hk x.hk
    assert_status 0
    assert_err_has 'lost: the first record is bound to the tensors as they were'
    t hk-inspect x.hk
    assert_json '[[t["type"] for t in v["tensors"]],len(v["appendix"])]' '[["f32","f16"],1]'
    t hk-verify --payload x.hk
    assert_status 1
    assert_json '[e["code"] for e in v["errors"]]' '["base-changed"]'
    hk-convert --type f32 --no-history q.hk y.hk 2>log
    hk-convert --type f32 base.hk z.hk 2>log
    assert_same y.hk z.hk
    hk-verify --strict y.hk >log
    cp base.hk loose.hk
    hk-append --eval "$HK_CARRY/eval.json" --name e loose.hk
    t hk-convert --type bf16 --keep-history loose.hk w.hk
    assert_status 0
    refute_err_has bound
    t hk-verify --strict w.hk
    assert_status 0
}

@test "options that contradict each other, or what is written, are refused first" {
    t hk-convert --no-history --keep-history none.hk x.hk
    assert_fails 2 'exclude each other'
    t hk-convert --keep-history none.hk x.gguf
    assert_fails 2 '--keep-history is for hk'
    t hk-convert --type f32 none.hk x.gguf
    assert_fails 2 '--type is for hk, safetensors and hf'
    t hk-convert --no-history model.gguf x.hk
    assert_status 0
    assert_same x.hk model.hk
}

@test "records that can't go along name the way out" {
    mkhk odd.hk '{"tensors":[{"name":"a","type":"uint8","shape":[3],"data":{"hex":"010203"}}],
        "appendix":[{"name":"r","data":"x"}]}'
    at=$(hk-inspect --header odd.hk | json - 'v["header"]["appendix_offset"]')
    "$PYTHON" - odd.hk "$at" <<'PY'
import struct, sys
path, at = sys.argv[1], int(sys.argv[2])
d = bytearray(open(path, "rb").read())
d[at:at] = b"\0\0\0\0"
d[0x48:0x50] = struct.pack("<Q", at + 4)
open(path, "wb").write(d)
PY
    t hk-convert odd.hk x.hk
    assert_fails 1 '--no-history leaves the records out'
    hk-convert --no-history odd.hk x.hk
    hk-verify --strict x.hk >log
}
