# Room behind the tensor table: how much there is, and metadata that grow in it beside records.
load common.bash

# sized NAME BYTES: a .hk made by hk-convert, of one tensor of that many bytes.
sized() {
    mkhk plain.hk '{"metadata":[["general.name","string","x"]],
        "tensors":[{"name":"a","type":"uint8","shape":['"$2"'],"data":{"zero":'"$2"'}}]}'
    hk-convert "${@:3}" plain.hk "$1"
    rm plain.hk
}
# room FILE: bytes between table and payloads, less what the alignment of 128 may add.
room() {
    hk-inspect --header "$1" | json - 'v["header"]["tensor_data_offset"] - (
        (v["header"]["tensor_toc_offset"] + v["header"]["tensor_toc_size"] + 127) // 128 * 128)'
}
assert_room() {
    [[ $(room "$1") == "$2" ]] || fail "$1: expected room of $2, not $(room "$1")"
    hk-verify --strict "$1" >verified || fail "$1: $(<verified)"
}
letters() { head -c "$1" /dev/zero | tr '\0' x; }

@test "64 KiB of room, 4 KiB where the weights have less than 1 MiB" {
    local size
    while read -r size want; do
        sized x.hk "$size"
        assert_room x.hk "$want"
        rm x.hk
    done <<<'1 4096
1048575 4096
1048576 65536
1048577 65536'
}

@test "a file without tensors has no room, a file whose tensors have no bytes has 4 KiB" {
    mkhk m.hk '{"metadata":[["k","string","v"]],"tensors":[]}'
    hk-convert m.hk none.hk
    assert_same none.hk m.hk
    mkhk n.hk '{"tensors":[{"name":"a","type":"null_ref","shape":[4]}]}'
    hk-convert n.hk null.hk
    assert_room null.hk 4096
}

@test "scales and residuals are weights, what is shared is one time" {
    mkhk m.hk '{"tensors":[{"name":"a","type":"uint8","shape":[600000],"data":{"zero":600000}},
        {"name":"b","type":"shared_ref","shape":[600000],"shared":0}]}'
    hk-convert m.hk shared.hk
    assert_room shared.hk 4096
    mkhk d.hk '{"tensors":[{"name":"a","type":"iq4_nl","shape":[32,60000],
        "data":{"zero":960000},"scales":{"zero":240000}}]}'
    hk-convert d.hk scaled.hk
    assert_room scaled.hk 65536
}

@test "--room says how much, and makes it in a file with records" {
    local size
    while read -r size want; do
        sized x.hk 100 --room "$size"
        assert_room x.hk "$want"
        rm x.hk
    done <<<'0 0
128 128
1k 1024
64k 65536
3M 3145728'
    sized x.hk 100 --room 0
    printf '{}' | hk-append --eval - --name r x.hk
    letters 200 >long
    t hk-meta set --from-file long x.hk long
    assert_fails 1 'hk-convert --room SIZE makes room'
    hk-convert --room 1k x.hk y.hk
    assert_room y.hk 1024
    hk-meta set --from-file long y.hk long
    assert_room y.hk 768
    hk-convert --room 0 y.hk z.hk
    assert_room z.hk 0
    mkhk m.hk '{"metadata":[["k","string","v"]],"tensors":[]}'
    hk-convert --room 500 m.hk n.hk
    printf '{}' | hk-append --eval - --name r n.hk
    hk-meta set --from-file long n.hk long
    hk-verify --strict n.hk >verified
}

@test "--room is no part of what the files of a set may have together" {
    mkhk m.hk '{"tensors":[{"name":"a","type":"uint8","shape":[100],"data":{"zero":100}},
        {"name":"b","type":"uint8","shape":[100],"data":{"zero":100}},
        {"name":"c","type":"uint8","shape":[100],"data":{"zero":100}}]}'
    t hk-convert --room 40M --split-size 100 m.hk s.hk
    assert_status 0
    assert_room s-00001-of-00003.hk $((40 << 20))
    hk-convert s.hk.index.json one.hk
    t hk-diff one.hk m.hk
    assert_status 0
}

@test "--room is checked before anything is opened" {
    local value
    for value in '' x 5x -1 1.5 99999999999999999999 5G; do
        t hk-convert --room "$value" none.hk x.hk
        assert_fails 2 room
    done
    for value in gguf safetensors hf; do
        t hk-convert --room 4k --to $value none.hk x
        assert_fails 2 '--room is for hk'
    done
    assert_files
}

@test "the same input gives the same bytes, there and back" {
    make_models
    hk-convert model.hk back.gguf
    assert_same back.gguf model.gguf
    hk-convert back.gguf again.hk
    assert_same again.hk model.hk
    hk-convert model.hk copy.hk
    assert_same copy.hk model.hk
    hk-convert - - <model.gguf >piped.hk
    assert_same piped.hk model.hk
}

@test "after a record metadata grow until the room is used up" {
    local n
    sized x.hk 100
    hk-append --eval - --name r x.hk <<<'{"pass_rate":1}'
    hk-log x.hk --extract r >record
    for n in 1 100 1000 2000 3000 4000; do
        letters "$n" >long
        hk-meta set --from-file long x.hk long
        hk-verify --strict x.hk >verified
        hk-meta get x.hk long >got
        assert_same got long
        hk-log x.hk --extract r >got
        assert_same got record
    done
    cp x.hk before.hk
    letters 4500 >long
    t hk-meta set --from-file long x.hk long
    assert_fails 1 'hk-convert --room SIZE makes room'
    assert_same x.hk before.hk
    hk-meta delete x.hk long
    assert_room x.hk 4096
}

@test "what is behind the table and not zero gives a warning" {
    sized x.hk 100
    printf y | dd of=x.hk bs=1 seek=3000 conv=notrunc status=none
    t hk-verify x.hk
    assert_status 0
    assert_json '[[w["code"], "1 of " in w["message"]] for w in v["warnings"]]' '[["room-bytes",true]]'
    t hk-verify --strict x.hk
    assert_status 1
    hk-meta set x.hk general.name other
    hk-verify --strict x.hk >verified
}

@test "a large key that goes leaves zeros" {
    sized x.hk 2000000
    letters 3000000 >long
    hk-convert --room 4M x.hk y.hk
    hk-meta set --from-file long y.hk long
    hk-meta delete y.hk long
    assert_room y.hk 4194304
}
