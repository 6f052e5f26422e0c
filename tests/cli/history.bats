# The version history: hk-append, hk-log, hk-rollback, hk-verify, hk-sign.
load common.bash

# base.hk, the same with three records as signed.hk (bound to the base, with a signature), and keys.
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    export HK_HISTORY=$BATS_FILE_TMPDIR SOURCE_DATE_EPOCH=1700000000
    small base.hk
    cp base.hk signed.hk
    append_eval signed.hk '{"a":1}' --name one --target all --bind-base --loss 0.5
    append_eval signed.hk '{"a":2}' --name two --target all
    append_eval signed.hk '{"a":3}' --name six --target all
    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out pub.pem
    hk-sign --key key.pem signed.hk
}
setup() {
    common_setup
    cp "$HK_HISTORY"/{base.hk,signed.hk,signed.hk.sig,pub.pem,key.pem} .
    mv signed.hk x.hk
    mv signed.hk.sig x.hk.sig
}

# small NAME [MEMBERS]: a .hk of two tensors.
small() {
    mkhk "$1" '{"metadata":[["general.name","string","x"]],"tensors":[
        {"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}},
        {"name":"b","type":"uint8","shape":[3],"data":{"hex":"010203"}}]'"${2:+,$2}"'}'
}
# append_eval FILE JSON OPTION...
append_eval() {
    local file=$1 text=$2
    shift 2
    printf '%s' "$text" | hk-append --eval - "$@" "$file"
}
# number FILE OFFSET SIZE; bytes FILE OFFSET COUNT; record FILE N: its offset.
number() { od -An -v -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }
bytes() { dd if="$1" bs=64k iflag=skip_bytes,count_bytes skip="$2" count="$3" status=none; }
record() { hk-log "$1" | json - "v['records'][$2]['offset']"; }
# poke FILE OFFSET TEXT: these bytes over what is there.
poke() { printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
# The codes of a report's errors.
codes() { json - '",".join(e["code"] for e in v["errors"])'; }

base_digest() { hk-hash --base "$1" | cut -c1-64; }

# What the record behind the one at OFFSET of FILE has to hold: SHA-256 over name, target, payload.
digest_at() {
    local n=$(($(number "$1" $(($2 + 2)) 2) + $(number "$1" $(($2 + 64)) 2) + $(number "$1" $(($2 + 72)) 8)))
    bytes "$1" $(($2 + 80)) $n | openssl dgst -sha256 -r | cut -c1-64
}
# Every record of FILE names the one before it, and has its crc32 (a gzip file ends in that).
check_chain() {
    local at previous='' crc skip
    for at in $(hk-log "$1" | json - '" ".join(str(r["offset"]) for r in v["records"])'); do
        [[ -z $previous || $(bytes "$1" $((at + 16)) 32 | hex) == "$previous" ]] || fail "record at $at"
        previous=$(digest_at "$1" "$at")
        skip=$((at + 80 + $(number "$1" $((at + 2)) 2) + $(number "$1" $((at + 64)) 2)))
        crc=$(bytes "$1" $skip "$(number "$1" $((at + 72)) 8)" | gzip -c | tail -c 8 | od -An -tu4 -N4 | tr -d ' ')
        [[ $(number "$1" $((at + 68)) 4) == "$crc" ]] || fail "crc32 at $at"
    done
}

# ---- chains ----

@test "a chain written here holds by openssl and dd" {
    head -c 200000 /dev/urandom >noise
    hk-append --kv-cache noise --target t -z --kv-cache noise --name '' x.hk
    hk-append --kv-cache /dev/null x.hk
    t hk-log x.hk
    assert_json '[r["lineage"] for r in v["records"]]' '["first","ok","ok","ok","ok","ok"]'
    check_chain x.hk
    [[ $(bytes x.hk $(($(record x.hk 0) + 16)) 32 | hex) == "$(base_digest base.hk)" ]]
    hk-verify --payload --strict x.hk >/dev/null
}

@test "chains in both forms of the specification hold" {
    small y.hk '"appendix":[{"name":"p","data":"1"},{"name":"q","data":"2","parent":"legacy"},
        {"name":"r","data":"3","parent":"chain"},{"name":"s","data":"4","parent":"legacy"}]'
    t hk-verify y.hk
    assert_status 0
    assert_json 'v["lineage"]' ok
    append_eval y.hk '[]'
    t hk-log y.hk
    assert_json '[r["lineage"] for r in v["records"]]' '["first","legacy","ok","legacy","ok"]'
    [[ $(bytes y.hk $(($(record y.hk 4) + 16)) 32 | hex) == $(digest_at y.hk "$(record y.hk 3)") ]]
}

@test "a record without a parent is no start of another chain" {
    small y.hk '"appendix":[{"name":"p","data":"1"},{"name":"q","data":"2","parent":"zero"}]'
    t hk-verify y.hk
    assert_status 1
    assert_json 'v["errors"][0]["code"]' lineage-zero
    assert_json 'v["lineage"]' broken
}

# ---- tampering: what finds it ----

# found CODES PAYLOAD-CODES CHANGED: the faults of x.hk without and with --payload, and what the
# signature says has changed.
find_bytes() { grep -obUaP "$1" x.hk | cut -d: -f1; } # where a pattern is in x.hk
found() {
    t hk-verify x.hk
    assert_status $((${#1} > 0))
    [[ $(codes <<<"$output") == "$1" ]] || fail "expected $1"
    t hk-verify --payload x.hk
    assert_status $((${#2} > 0))
    [[ $(codes <<<"$output") == "$2" ]] || fail "expected $2 of --payload"
    t hk-verify --key pub.pem x.hk
    assert_status 1
    assert_json 'v["signature"]' "{\"genuine\":true,\"changed\":$3}"
    assert_json 'v["valid"]' False
    assert_err_like "is not what was signed"
}
history='["history"]'

@test "tampering with nothing: nothing" {
    t hk-verify --payload --strict --key pub.pem x.hk
    assert_status 0
    assert_json '[v["errors"],v["warnings"],v["lineage"],v["checked"]["base"],v["signature"]]' \
        '[[],[],"ok","bound",{"genuine":true,"changed":[]}]'
}
@test "tampering with a name: the chain" {
    poke x.hk $(($(record x.hk 1) + 80)) T
    found lineage-broken lineage-broken "$history"
    assert_json 'v["errors"][0]["index"]' 2
}
@test "tampering with a target: the chain" {
    poke x.hk $(($(record x.hk 0) + 83)) A
    found lineage-broken lineage-broken "$history"
    assert_json 'v["errors"][0]["index"]' 1
}
@test "tampering with a payload: crc and chain" {
    poke x.hk $(($(record x.hk 1) + 86)) '['
    found crc,lineage-broken crc,lineage-broken "$history"
}
@test "tampering with a payload that has no crc: the chain" {
    poke x.hk $(($(record x.hk 1) + 86)) '['
    poke x.hk $(($(record x.hk 1) + 68)) '\0\0\0\0'
    found lineage-broken lineage-broken "$history"
}
@test "tampering, a byte from target to payload: crc" {
    poke x.hk $(($(record x.hk 1) + 64)) '\2'
    poke x.hk $(($(record x.hk 1) + 72)) '\10'
    found crc crc "$history"
}
@test "tampering, a byte from name to target: only a signature" {
    poke x.hk $(($(record x.hk 1) + 2)) '\2'
    poke x.hk $(($(record x.hk 1) + 64)) '\4'
    found '' '' "$history"
}
@test "tampering with metrics: only a signature" {
    poke x.hk $(($(record x.hk 0) + 48)) '\0\0\0\0'
    found '' '' "$history"
}
@test "tampering with a timestamp: only a signature" {
    poke x.hk $(($(record x.hk 1) + 8)) '\1'
    found '' '' "$history"
}
@test "tampering with flags: only a signature" {
    poke x.hk $(($(record x.hk 1) + 1)) '\0'
    found '' '' "$history"
}
@test "tampering with a type: only a signature" {
    poke x.hk "$(record x.hk 1)" '\6'
    found '' '' "$history"
}
@test "tampering with a generation in order: only a signature" {
    poke x.hk $(($(record x.hk 2) + 4)) '\11'
    found '' '' "$history"
}
@test "tampering with a generation out of order: a warning, and a signature" {
    poke x.hk $(($(record x.hk 1) + 4)) '\11'
    found '' '' "$history"
    t hk-verify --strict x.hk
    assert_status 1
    assert_json '[w["code"] for w in v["warnings"]]' '["generation"]'
}
@test "tampering with the last record's name: only a signature" {
    poke x.hk $(($(record x.hk 2) + 80)) S
    found '' '' "$history"
}
@test "tampering with the last record's payload: crc" {
    poke x.hk $(($(record x.hk 2) + 86)) '['
    found crc crc "$history"
}
@test "tampering with the last record's payload and crc: only a signature" {
    poke x.hk $(($(record x.hk 2) + 86)) '['
    poke x.hk $(($(record x.hk 2) + 68)) '\0\0\0\0'
    found '' '' "$history"
}
@test "tampering with a parent hash: the chain" {
    poke x.hk $(($(record x.hk 2) + 20)) 'zzzz'
    found lineage-broken lineage-broken "$history"
}
@test "tampering with the first parent hash: the bound base" {
    poke x.hk $(($(record x.hk 0) + 20)) 'zzzz'
    found '' base-changed "$history"
}
# without FILE FIRST COUNT: its records but those, which all have one size.
without() {
    local at size
    at=$(record "$1" "$2")
    size=$(($(record "$1" 1) - $(record "$1" 0)))
    { head -c "$at" "$1" && tail -c +$((at + $3 * size + 1)) "$1"; } >cut.hk
    mv cut.hk "$1"
}
@test "tampering, two records change places: the chain" {
    local a b
    a=$(record x.hk 1) b=$(record x.hk 2)
    { head -c "$a" x.hk && tail -c +$((b + 1)) x.hk && bytes x.hk "$a" $((b - a)); } >new.hk
    mv new.hk x.hk
    found lineage-broken,lineage-broken lineage-broken,lineage-broken "$history"
    t hk-verify --strict x.hk
    assert_json '[w["code"] for w in v["warnings"]]' '["generation"]'
}
@test "tampering, the first record deleted: the bound base" {
    without x.hk 0 1
    found '' base-changed "$history"
}
@test "tampering, the first record deleted and its successor made first: only a signature" {
    without x.hk 0 1
    poke x.hk $(($(record x.hk 0) + 16)) "$(printf '\\0%.0s' {1..32})"
    found '' '' "$history"
    assert_json 'v["checked"]["base"]' unbound
}
@test "tampering, a middle record deleted: the chain" {
    without x.hk 1 1
    found lineage-broken lineage-broken "$history"
}
@test "tampering, the last record deleted: only a signature" {
    without x.hk 2 1
    found '' '' "$history"
}
@test "tampering with a tensor: the bound base" {
    poke x.hk "$(hk-inspect x.hk | json - 'v["tensors"][0]["offset"]')" '\1'
    found '' base-changed '["base"]'
}
@test "tampering with a tensor of an unbound file: only a signature" {
    cp base.hk x.hk
    append_eval x.hk '[]'
    hk-sign --key key.pem -f x.hk
    poke x.hk "$(hk-inspect x.hk | json - 'v["tensors"][0]["offset"]')" '\1'
    found '' '' '["base"]'
    assert_json 'v["checked"]["base"]' unbound
}
@test "tampering with a tensor's name: the bound base" {
    poke x.hk "$(find_bytes '(?<=\x01\x00)a(?=\x00)')" A
    found '' base-changed '["base"]'
}
@test "tampering with metadata: only a signature" {
    poke x.hk "$(find_bytes 'x(?=\x01\x00a)')" y
    [[ $(hk-meta get x.hk general.name) == y ]]
    found '' '' '["metadata"]'
}
@test "all three changed: all three named" {
    poke x.hk "$(hk-inspect x.hk | json - 'v["tensors"][0]["offset"]')" '\1'
    poke x.hk "$(find_bytes 'x(?=\x01\x00a)')" y
    poke x.hk $(($(record x.hk 1) + 80)) T
    found lineage-broken lineage-broken,base-changed '["base","metadata","history"]'
}

# A cut where a record ends leaves a shorter history, which only a signature misses.
@test "cut at every byte: the tail is named, or a signature finds it" {
    local first size n
    first=$(record x.hk 0) size=$(stat -c %s x.hk)
    for ((n = first + 1; n < size; n++)); do head -c "$n" x.hk >"$n.cut"; done
    t hk-verify ./*.cut
    assert_status 1
    printf '%s' "$output" >report
    "$PYTHON" - "$(hk-log x.hk)" "$size" <<'PY'
import json, sys
records = json.loads(sys.argv[1])["records"]
ends = {r["offset"] + 80 + 3 + 3 + r["size"] for r in records}
starts = {r["offset"] for r in records}
reports = [json.loads(line) for line in open("report")]
assert len(reports) == int(sys.argv[2]) - records[0]["offset"] - 1
for r in reports:
    n, codes = int(r["file"][2:-4]), [e["code"] for e in r["errors"]]
    whole = any(e <= n <= e + -e % 8 for e in ends)
    assert r["valid"] == whole and len(codes) == (not whole), r
    assert not codes or codes[0] in ("record-torn", "trailing-bytes"), r
    assert [w["code"] for w in r["warnings"]] == ["record-padding"] * (whole and n not in starts), r
PY
    for n in $(seq $((first + 1)) 13 $((size - 8))) $(record x.hk 1) $(record x.hk 2); do
        cp "$n.cut" x.hk
        t hk-verify --key pub.pem x.hk
        assert_status 1
        hk-rollback --repair x.hk >/dev/null
        t hk-verify x.hk
        assert_status 0
        hk-rollback x.hk 0 >/dev/null
        assert_same x.hk base.hk
    done
}

@test "cut before the first record: everything is missed" {
    head -c "$(record x.hk 0)" x.hk >y.hk
    t hk-verify --key pub.pem --signature x.hk.sig y.hk
    assert_status 1
    assert_json 'v["signature"]["changed"]' "$history"
}

@test "exit statuses: 0 valid, 1 not, 2 trouble, the worst of several" {
    cp x.hk bad.hk
    poke bad.hk $(($(record x.hk 1) + 80)) T
    t hk-verify x.hk base.hk
    assert_status 0
    t hk-verify x.hk bad.hk base.hk
    assert_status 1
    t hk-verify bad.hk none.hk x.hk
    assert_status 2
    t hk-verify --payload
    assert_status 2
}

# ---- appending ----

@test "defaults: name of the file, target model, the next generation, active" {
    echo '{}' >dir.d.json
    mkdir sub
    echo '{}' >sub/.hidden
    local before=$SOURCE_DATE_EPOCH
    hk-append --eval ./dir.d.json base.hk
    hk-append --topology sub/.hidden --kv-cache dir.d.json --generation 7 base.hk
    unset SOURCE_DATE_EPOCH
    before=$(date +%s)
    hk-append --eval - base.hk <<<'[1]'
    t hk-log base.hk
    assert_json '[(r["type"],r["name"],r["target"],r["generation"],r["active"]) for r in v["records"]]' \
        '[["code_eval","dir.d","model",1,true],["topology_head",".hidden","model",2,true],["kv_cache_sink","dir.d","model",7,true],["code_eval","code_eval","model",8,true]]'
    assert_json "$before <= v['records'][3]['timestamp'] <= $before + 60" True
    check_chain base.hk
}

@test "options before the first record are everybody's, behind one its own" {
    echo '{}' >j
    hk-append --target t --loss 1 --inactive --eval j --name n1 --acc 0.5 --eval j --name n2 --pass 0.25 \
        --custom=-1e3 -z --loss 2 base.hk
    t hk-log base.hk
    assert_json '[(r["name"],r["target"],r["active"],r["compressed"],list(r["metrics"].values()),r["generation"]) for r in v["records"]]' \
        '[["n1","t",false,false,[1.0,0.5,0.0,0.0],1],["n2","t",false,true,[2.0,0.0,0.25,-1000.0],1]]'
}

@test "generation: a record without one follows those of its call" {
    echo '{}' >j
    hk-append --eval j --generation 5 --eval j --eval j --generation 9 base.hk
    hk-append --generation 12 --eval j --eval j base.hk
    hk-append --eval j --generation 4294967295 base.hk
    hk-append --eval j base.hk
    t hk-log base.hk
    assert_json '[r["generation"] for r in v["records"]]' '[5,5,9,12,12,4294967295,4294967295]'
}

@test "payloads from standard input, a pipe, a part of a file, a device" {
    printf '{"a": 1}' >j
    hk-append --eval - --name in base.hk <j
    t_sh 'cat j | hk-append --eval - --name piped base.hk'
    assert_status 0
    t_sh '(dd bs=1 count=4 of=/dev/null status=none; hk-append --kv-cache - --name part base.hk) <j'
    assert_status 0
    hk-append --kv-cache <(printf 'from a pipe') --name fifo base.hk
    hk-append --kv-cache /dev/null --name none base.hk
    hk-append --kv-cache base.hk --name self base.hk
    for row in 'in {"a": 1}' 'piped {"a": 1}' 'part : 1}' 'fifo from a pipe' 'none '; do
        t hk-log --extract "${row%% *}" base.hk
        assert_status 0
        assert_out "${row#* }"
    done
    check_chain base.hk
    hk-verify --strict base.hk
}

@test "the same call makes the same bytes" {
    printf '{"a": 1}' >j
    cp base.hk a.hk
    cp base.hk b.hk
    hk-append --eval j -z --kv-cache j a.hk
    hk-append --eval j -z --kv-cache j b.hk
    assert_same a.hk b.hk
    t hk-log a.hk
    assert_json '[r["timestamp"] for r in v["records"]]' '[1700000000,1700000000]'
    for epoch in -1 x '' 1e9 99999999999999999999; do
        SOURCE_DATE_EPOCH=$epoch t hk-append --eval j a.hk
        assert_fails 2 SOURCE_DATE_EPOCH
        assert_same a.hk b.hk
    done
}

@test "bad options are refused before the file is touched" {
    echo '{}' >j
    cp x.hk old.hk
    while read -r words; do
        # shellcheck disable=SC2086 # words
        t hk-append $words
        assert_fails 2
        assert_same x.hk old.hk
    done <<'ROWS'
x.hk
--eval
--eval j --what
--eval j
--eval j x.hk x.hk
--eval j --generation -1 x.hk
--eval j --generation 0 x.hk
--eval j --generation 4294967296 x.hk
--eval j --generation 1.5 x.hk
--eval j --generation= x.hk
--eval j --loss nan x.hk
--eval j --loss inf x.hk
--eval j --acc 1e39 x.hk
--eval j --pass x x.hk
--eval j --custom 1x x.hk
--eval j --what x.hk
--eval - --eval - x.hk
--eval j --compress=9 x.hk
--eval none x.hk
--eval j --eval none x.hk
--eval . x.hk
--delta . x.hk
--kv-cache . x.hk
--eval j --bind-base x.hk
--eval j --generation 2 x.hk
--eval j --generation 9 --eval j --generation 8 x.hk
ROWS
}

@test "bad payloads are refused before the file is touched" {
    echo '{}' >j
    cp x.hk old.hk
    printf '{"a":1,"a":2}' >twice
    printf '{"a":1} x' >trailing
    printf '{"a":' >short
    printf '17' >number
    printf '{"a":"\xff"}' >latin
    : >empty
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    for file in twice trailing short number latin empty; do
        for option in --eval --topology; do
            t hk-append --kv-cache j $option $file x.hk
            assert_fails 1 "hk-append: $file: "
            assert_same x.hk old.hk
        done
    done
    for file in j empty model.gguf base.hk; do
        for option in --delta --layer; do
            t hk-append --kv-cache j $option $file x.hk
            assert_fails 1 "hk-append: $file: "
            assert_same x.hk old.hk
        done
    done
    t hk-append --lora none x.hk
    assert_fails 2 'hk-append: none: '
    t hk-append --lora . x.hk
    assert_fails 2 'hk-append: .: '
    assert_same x.hk old.hk
}

@test "a long name fits, a longer one does not" {
    local name
    name=$(printf 'n%.0s' $(seq 65535))
    printf 'x' >p
    hk-append --kv-cache p --name "$name" --target "$name" base.hk
    check_chain base.hk
    cp base.hk old.hk
    t hk-append --kv-cache p --name "${name}n" base.hk
    assert_fails 2 65535
    t hk-append --target "${name}n" --kv-cache p base.hk
    assert_fails 2 65535
    assert_same base.hk old.hk
}

@test "what has no history is refused, by every program" {
    echo '{}' >j
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    "$PYTHON" -c 'import struct,sys; h=b"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"
open("m.safetensors","wb").write(struct.pack("<Q",len(h))+h+b"1")'
    mkdir dir
    make_fifo fifo
    : >empty
    sha256sum model.gguf m.safetensors >sums
    for file in dir fifo model.gguf m.safetensors none empty /dev/null; do
        local wanted=2
        [[ $file != empty ]] || wanted=1
        t timeout 10 hk-append --eval j $file
        assert_fails "$wanted" "hk-append: $file: "
        t timeout 10 hk-rollback $file 0
        assert_fails "$wanted" "hk-rollback: $file: "
        t timeout 10 hk-rollback --repair $file
        assert_fails "$wanted" "hk-rollback: $file: "
    done
    sha256sum --quiet -c sums
    for file in dir none empty; do
        t timeout 10 hk-log $file
        [[ $status == [12] && -z $output && $stderr == "hk-log: $file: "* ]] || fail "hk-log $file"
        t timeout 10 hk-sign --key key.pem $file
        [[ $status == [12] && -z $output && $stderr == "hk-sign: $file: "* ]] || fail "hk-sign $file"
        t timeout 10 hk-merge $file out.hk
        [[ $status == [12] && -z $output && $stderr == "hk-merge: $file: "* ]] || fail "hk-merge $file"
    done
    [[ ! -e out.hk ]]
}

@test "a link is followed, and stays one" {
    ln -s base.hk link.hk
    append_eval link.hk '{}'
    [[ -L link.hk ]]
    t hk-log base.hk
    assert_json 'len(v["records"])' 1
    hk-rollback link.hk 0 >/dev/null
    assert_same base.hk "$HK_HISTORY/base.hk"
}

@test "a file that may not be written is left alone" {
    echo '{}' >j
    chmod 444 x.hk
    chmod a+rx "$BATS_TEST_TMPDIR" .
    chmod a+r j x.hk
    t_unprivileged hk-append --eval j x.hk
    assert_fails 2 'hk-append: x.hk: cannot open for writing'
    t_unprivileged hk-rollback x.hk 0
    assert_fails 2 'hk-rollback: x.hk: cannot open for writing'
    t_unprivileged hk-rollback --dry-run x.hk 0
    assert_status 0
}

@test "a limit on the size of files leaves the old one" {
    head -c 100000 /dev/urandom >noise
    for file in base.hk x.hk; do
        cp $file old.hk
        t_sh 'ulimit -f 20; exec hk-append --kv-cache noise "$1"' $file
        assert_fails 2 "hk-append: $file: cannot write: File too large"
        assert_same $file old.hk
        t_sh 'ulimit -f 20; exec hk-append --kv-cache - --kv-cache noise "$1" </dev/null' $file
        assert_fails 2 "hk-append: $file: cannot write"
        assert_same $file old.hk
    done
}

@test "a full disk leaves the old file" {
    mkdir disk
    mount -t tmpfs -o size=256k none disk 2>/dev/null || skip 'SKIPPED: no file system can be mounted here'
    head -c 300000 /dev/urandom >noise
    for file in base.hk x.hk; do
        cp $file disk/$file
        t hk-append --kv-cache noise disk/$file
        cmp disk/$file $file || break
    done
    umount disk
    assert_fails 2 'cannot write: No space left on device'
}

@test "8 processes, 1000 records: all there, the chain whole" {
    echo '{}' >j
    local w pids=() some=()
    for w in {1..25}; do some+=(--eval j); done
    for w in {1..8}; do
        (for _ in {1..5}; do hk-append --name "w$w" "${some[@]}" base.hk || exit 1; done) &
        pids+=($!)
    done
    for w in "${pids[@]}"; do wait "$w"; done
    t hk-verify --strict base.hk
    assert_status 0
    assert_json '[v["lineage"],v["checked"]["records"]]' '["ok",1000]'
    t hk-log base.hk
    assert_json '[sum(r["name"] == "w%d" % w for r in v["records"]) for w in range(1, 9)]' \
        '[125,125,125,125,125,125,125,125]'
    assert_json 'sorted(set(r["generation"] for r in v["records"])) == list(range(1, 41))' True
}

@test "records and metadata change at once, and nothing is lost" {
    echo '{}' >j
    (for i in {1..30}; do hk-append --eval j --name "a$i" x.hk || exit 1; done) &
    local first=$!
    (for i in {1..30}; do hk-append -z --eval j --name "b$i" x.hk || exit 1; done) &
    local second=$!
    for i in {1..30}; do hk-meta set x.hk general.name "$((i % 10))"; done
    wait $first
    wait $second
    t hk-verify --payload --strict x.hk
    assert_status 0
    assert_json '[v["lineage"],v["checked"]["records"],v["checked"]["base"]]' '["ok",63,"bound"]'
    [[ $(hk-meta get x.hk general.name) == 0 ]]
    check_chain x.hk
}

@test "a last record whose padding was cut is appended to" {
    local end
    end=$(($(record x.hk 2) + 80 + 6 + 7))
    (($(stat -c %s x.hk) - end == 3))
    for n in 0 1 2; do
        head -c $((end + n)) x.hk >y.hk
        append_eval y.hk '{}'
        check_chain y.hk
        t hk-verify --payload --strict --key pub.pem --signature x.hk.sig y.hk
        assert_json '[v["checked"]["records"],v["lineage"],v["warnings"]]' '[4,"ok",[]]'
        hk-rollback y.hk 3 >/dev/null
        assert_same y.hk x.hk
    done
}

# Compressing makes most of the time that an append takes one of writing.
@test "killed at any moment: a torn tail at most, the base readable throughout" {
    head -c 6000000 /dev/urandom >noise
    local i pid reader old torn=0
    for i in {1..20}; do
        old=$(hk-log x.hk | json - 'len(v["records"])')
        hk-append -z --kv-cache noise --name "k$i" x.hk 2>/dev/null &
        pid=$!
        while kill -0 $pid 2>/dev/null; do hk-inspect x.hk >during.json || exit 1; done &
        reader=$!
        sleep "0.$(printf %03d $((RANDOM % 250)))"
        kill -9 $pid 2>/dev/null || true
        wait $pid || true
        wait $reader || fail "not readable while it is appended to"
        hk-inspect x.hk >after.json || fail "not readable after a kill"
        [[ $(json after.json 'len(v["tensors"])') == 2 ]]
        t hk-verify --payload x.hk
        [[ $(codes <<<"$output") =~ ^(record-torn|trailing-bytes)?$ ]] || fail "more than a torn tail"
        if [[ $status -ne 0 ]]; then
            torn=$((torn + 1))
            t hk-append --kv-cache noise x.hk
            assert_fails 1 'hk-rollback --repair removes them'
            hk-rollback --repair x.hk >/dev/null
            t hk-verify --payload --strict x.hk
            assert_status 0
        fi
        t hk-log x.hk
        assert_json "len(v['records']) in ($old, $old + 1)" True
    done
    check_chain x.hk
    hk-rollback x.hk 0 >/dev/null
    assert_same x.hk base.hk
    [[ $torn -gt 0 ]] || fail "no kill of 20 hit an append"
}

# ---- rolling back ----

@test "rolled back to 0 the file is what it was, however it grew" {
    echo '{}' >j
    head -c 5000 /dev/urandom >noise
    small a4096.hk '"alignment":4096'
    small nothing.hk '"tensors":[]'
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    hk-convert model.gguf model.hk
    cp base.hk moved.hk # its metadata go behind the payloads
    hk-meta set moved.hk long "$(printf 'x%.0s' {1..5001})"
    [[ $(hk-inspect moved.hk | json - 'v["header"]["metadata_offset"] > v["tensors"][1]["offset"]') == True ]]
    (($(stat -c %s base.hk) % 8 != 0))
    for file in base.hk a4096.hk nothing.hk model.hk moved.hk; do
        while read -r words; do
            cp $file y.hk
            # shellcheck disable=SC2086 # words
            hk-append $words y.hk
            hk-append --eval j -z --kv-cache noise y.hk
            hk-verify --payload y.hk >/dev/null
            cp y.hk before
            t hk-rollback -n y.hk 0
            assert_status 0
            assert_same y.hk before
            assert_json '[v["dry_run"],v["kept"],v["size_after"]]' "[true,0,$(stat -c %s $file)]"
            t hk-rollback y.hk 0
            assert_status 0
            assert_same y.hk $file
        done <<'ROWS'
--eval j
--eval j --bind-base
--kv-cache noise -z
--kv-cache noise --eval j --kv-cache /dev/null --generation 9
ROWS
    done
}

@test "rollback keeps the leading records up to a generation" {
    echo '{}' >j
    hk-append --eval j --generation 2 --eval j --generation 2 base.hk
    cp base.hk two.hk
    hk-append --eval j --generation 5 base.hk
    cp base.hk five.hk
    hk-append --eval j --generation 9 base.hk
    t hk-rollback base.hk 9
    assert_json '[v["kept"],v["removed"],v["dry_run"],v["size_before"]==v["size_after"]]' '[4,0,false,true]'
    t hk-rollback base.hk 8
    assert_json '[v["kept"],v["removed"]]' '[3,1]'
    assert_same base.hk five.hk
    hk-rollback base.hk 4 >/dev/null
    assert_same base.hk two.hk
    hk-rollback base.hk 1 >/dev/null
    assert_same base.hk "$HK_HISTORY/base.hk"
    hk-rollback base.hk 0 >/dev/null
    assert_same base.hk "$HK_HISTORY/base.hk"
}

@test "rollback refuses generations out of order, and bad words" {
    small y.hk '"appendix":[{"name":"p"},{"name":"q","generation":9},{"name":"r","generation":3}]'
    cp y.hk old.hk
    for to in 3 4 8; do
        t hk-rollback y.hk $to
        assert_fails 1 'out of order'
        t hk-rollback --dry-run y.hk $to
        assert_fails 1 'out of order'
    done
    for words in 'y.hk' 'y.hk -1' 'y.hk x' 'y.hk 4294967296' 'y.hk 1 2' '--repair y.hk 1' '--repair' '--what y.hk 1'; do
        # shellcheck disable=SC2086 # words
        t hk-rollback $words
        assert_fails 2
    done
    assert_same y.hk old.hk
    hk-rollback y.hk 9 >/dev/null
    assert_same y.hk old.hk
    hk-rollback y.hk 1 >/dev/null
    t hk-log y.hk
    assert_json '[r["name"] for r in v["records"]]' '["p"]'
}

@test "repair removes a torn tail and nothing else" {
    cp x.hk whole.hk
    hk-rollback --repair x.hk >/dev/null
    assert_same x.hk whole.hk
    for tail in '\0\0\0\0\0\0\0\0' 'x' '\0\0\0\0\0\0\0\0abc' '\1\1\2\0\1\0\0\0' "$(printf 'y%.0s' {1..200})"; do
        { cat whole.hk && printf '%b' "$tail"; } >x.hk
        cp x.hk torn.hk
        t hk-verify x.hk
        assert_status 1
        t hk-rollback x.hk 0
        assert_fails 1 'hk-rollback --repair'
        t hk-rollback --repair --dry-run x.hk
        assert_status 0
        assert_json 'v["dry_run"]' True
        assert_same x.hk torn.hk
        t hk-rollback --repair x.hk
        assert_status 0
        assert_json '[v["kept"],v["removed"]]' '[3,0]'
        assert_same x.hk whole.hk
        { cat base.hk && printf '%b' "$tail"; } >y.hk
        hk-rollback --repair y.hk >/dev/null
        assert_same y.hk base.hk
    done
}

# ---- hk-log ----

@test "log: the fields, and the same ones in hk-inspect" {
    t hk-log x.hk
    assert_status 0
    assert_json 'list(v)' '["file","records"]'
    assert_json 'list(v["records"][0])' \
        '["index","type","name","target","generation","timestamp","active","compressed","metrics","offset","size","parent_hash","hash","crc32","lineage","crc","effective","switch"]'
    assert_json '[(r["index"],r["type"],r["name"],r["generation"],r["size"],r["lineage"],r["crc"]) for r in v["records"]]' \
        '[[0,"code_eval","one",1,7,"first","ok"],[1,"code_eval","two",2,7,"ok","ok"],[2,"code_eval","six",3,7,"ok","ok"]]'
    assert_json 'v["records"][0]["metrics"]' '{"loss":0.5,"acc":0.0,"pass":0.0,"custom":0.0}'
    assert_json 'v["records"][1]["hash"]==v["records"][2]["parent_hash"]' True
    [[ $(json - 'v["records"]' <<<"$output") == "$(hk-inspect x.hk | json - 'v["appendix"]')" ]]
    t hk-log base.hk
    assert_json 'v["records"]' '[]'
    t hk-log --table x.hk
    assert_out_like $'\n +1 +2 +code_eval +two +all +7 B +2023-11-14T22:13:20Z +ok +ok'
    t_from x.hk hk-log -
    assert_json 'len(v["records"])' 3
}

@test "log: states of lineage and crc" {
    small y.hk '"appendix":[{"name":"p","data":"1","crc":true},{"name":"q","data":"2","parent":"legacy"},
        {"name":"r","data":"3","parent":"zero","crc":7},{"name":"s","parent":{"hex":"'"$(printf '01%.0s' {1..32})"'"}}]'
    t hk-log y.hk
    assert_status 0
    assert_json '[(r["lineage"],r["crc"]) for r in v["records"]]' \
        '[["first","ok"],["legacy","absent"],["zero","bad"],["broken","absent"]]'
}

@test "log: extracts by number and by name, inflated or raw" {
    head -c 100000 /dev/zero >zeros
    printf 'x' >p
    hk-append --kv-cache zeros --name z -z --kv-cache p --name 17 --kv-cache p --name 0 x.hk
    hk-append --kv-cache zeros --name z x.hk
    hk-log --extract 3 -o three x.hk
    assert_same three zeros
    hk-log --extract z x.hk >last
    assert_same last zeros
    hk-log --extract 3 --raw x.hk >raw
    [[ $(number raw 0 8) == 100000 && $(stat -c %s raw) -lt 1000 ]]
    "$PYTHON" -c 'import zlib; assert zlib.decompress(open("raw","rb").read()[8:]) == bytes(100000)'
    t hk-log --extract 0 x.hk
    assert_out '{"a":1}'
    for none in 7 17 99999999999999999999 none -1 ''; do
        t hk-log "--extract=$none" x.hk
        assert_fails 1 "no record $none"
    done
    t hk-log --extract 3 -o three x.hk
    assert_fails 2 three
    hk-log --extract 0 -f -o three x.hk
    [[ $(<three) == '{"a":1}' ]]
    cp x.hk old.hk
    t hk-log --extract 0 -f -o x.hk x.hk
    assert_fails 2 x.hk
    assert_same x.hk old.hk
    for words in '--raw x.hk' '-o a x.hk' '-f x.hk' '' 'x.hk x.hk'; do
        # shellcheck disable=SC2086 # words
        t hk-log $words
        assert_fails 2
    done
}

@test "log: a compressed payload that is none is an error, and has its bytes raw" {
    small y.hk '"appendix":[{"name":"p","data":"12345678abc","flags":3},{"name":"q","data":"1","flags":3},
        {"name":"big","flags":3,"data":{"hex":"ffffffffffffffff789c030000000001"}}]'
    for record in p q big; do
        t hk-log --extract $record -o out y.hk
        assert_fails 1 "hk-log: y.hk: "
        [[ ! -e out ]]
    done
    t hk-log --extract p --raw y.hk
    assert_out 12345678abc
}

@test "log: names with control characters and no UTF-8 make sound JSON and one line" {
    small y.hk '"appendix":[{"name":{"hex":"61000a1b5b33316dff22"},"target":{"hex":"c328e2"},"data":"1"},
        {"name":"é","type":9,"data":"2"}]'
    t hk-log y.hk
    assert_status 0
    assert_json 'len(v["records"])' 2
    assert_json '[v["records"][1]["name"],v["records"][1]["type"]]' '["\u00e9","unknown 9"]'
    t hk-log --table y.hk
    [[ $(wc -l <<<"$output") == 3 && $output != *$'\e'* ]] || fail 'three lines without escapes'
}

@test "log: 10000 records" {
    "$PYTHON" -c 'import json
print(json.dumps({"appendix":[{"name":"r%d" % i, "data":"x" * 100, "crc":True} for i in range(10000)]}))' >d
    mkhk y.hk @d
    t hk-log y.hk
    assert_json '[len(v["records"]),all(r["lineage"]=="ok" and r["crc"]=="ok" for r in v["records"][1:])]' '[10000,true]'
}

# ---- signatures ----

@test "a signature holds by openssl alone" {
    json x.hk.sig '"hk-signature-1\n%s\n%s\n%s" % (v["base"],v["metadata"],v["history"])' >text
    json x.hk.sig 'v["signature"]' | "$PYTHON" -c 'import sys
sys.stdout.buffer.write(bytes.fromhex(sys.stdin.read().strip()))' >sig
    openssl pkeyutl -verify -rawin -pubin -inkey pub.pem -in text -sigfile sig
    [[ $(json x.hk.sig 'v["base"]') == "$(base_digest base.hk)" ]]
    [[ $(json x.hk.sig '(v["hk_signature"],v["algorithm"])') == '[1,"ed25519"]' ]]
}

@test "a signature of another key is not genuine" {
    openssl genpkey -algorithm ed25519 | openssl pkey -pubout -out other.pem
    t hk-verify --key other.pem x.hk
    assert_status 1
    assert_json '[v["valid"],v["signature"],[e["code"] for e in v["errors"]]]' \
        '[false,{"genuine":false,"changed":[]},["signature"]]'
}

@test "a signature file that was edited is not genuine" {
    for field in base metadata history signature; do
        json x.hk.sig "{**v, '$field': v['$field'][:-1] + ('0' if v['$field'][-1] != '0' else '1')}" >y.sig
        t hk-verify --key pub.pem --signature y.sig x.hk
        assert_status 1
        assert_json '[v["valid"],v["signature"]["genuine"]]' '[false,false]'
    done
}

@test "a broken signature file is no valid file" {
    printf '{}' >1.sig
    : >2.sig
    head -c 100 x.hk.sig >3.sig
    sed 's/ed25519/rsa/' x.hk.sig >4.sig
    sed 's/"hk_signature": 1/"hk_signature": 2/' x.hk.sig >5.sig
    head -c 100000 /dev/zero >6.sig
    for file in {1..6}.sig; do
        t hk-verify --key pub.pem --signature $file x.hk
        assert_status 1
        assert_err_has "hk-verify: x.hk: $file: "
        assert_json '[e["code"] for e in v["errors"]]' '["signature"]'
        assert_json 'v["valid"]' False
    done
    for words in '--key pub.pem --signature none.sig x.hk' '--key none.pem x.hk' '--key pub.pem base.hk' \
        '--key . x.hk'; do
        # shellcheck disable=SC2086 # words
        t hk-verify $words
        assert_fails 2
    done
    for words in '--signature x.hk.sig x.hk' '--key pub.pem --signature x.hk.sig x.hk base.hk'; do
        # shellcheck disable=SC2086 # words
        t hk-verify $words
        assert_fails 2
    done
}

@test "keys that are none: encrypted, RSA, public for private" {
    openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:1024 -out rsa.pem 2>/dev/null
    openssl pkey -in rsa.pem -pubout -out rsapub.pem
    openssl pkey -in key.pem -aes128 -passout pass:secret -out locked.pem
    printf 'x' >noise.pem
    : >empty.pem
    for key in rsa.pem locked.pem pub.pem noise.pem empty.pem; do
        t timeout 10 setsid hk-sign --key $key -o out.sig x.hk
        assert_fails 1 "hk-sign: $key: no Ed25519 private key"
        [[ ! -e out.sig ]]
    done
    for key in rsapub.pem key.pem noise.pem empty.pem; do
        t timeout 10 setsid hk-verify --key $key x.hk
        assert_status 1
        assert_err_has "hk-verify: x.hk: $key: no Ed25519 public key"
        assert_json 'v["valid"]' False
    done
}

@test "hk-sign: where it writes, and what it refuses" {
    t hk-sign --key key.pem x.hk
    assert_fails 2 'x.hk.sig'
    hk-sign --key key.pem -f x.hk
    hk-sign --key key.pem -o - x.hk >out.sig
    assert_same out.sig x.hk.sig
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    t hk-sign --key key.pem model.gguf
    assert_fails 2 'only a .hk can be signed'
    for words in 'x.hk' '--key key.pem' '--key key.pem x.hk x.hk' '--key none x.hk'; do
        # shellcheck disable=SC2086 # words
        t hk-sign $words
        assert_fails 2
    done
    cp x.hk old.hk
    t hk-sign --key key.pem -f -o x.hk x.hk
    assert_fails 2 x.hk
    assert_same x.hk old.hk
}

@test "signed files: an edit of metadata, a copy realigned, a record more" {
    hk-meta set x.hk general.name other
    t hk-verify --payload --key pub.pem x.hk
    assert_status 1
    assert_json '[v["signature"]["changed"],v["checked"]["base"],v["lineage"]]' '[["metadata"],"bound","ok"]'
    hk-meta set x.hk general.name x
    t hk-verify --key pub.pem x.hk
    assert_status 0
    hk-convert --align 4096 x.hk y.hk
    t hk-verify --payload --key pub.pem --signature x.hk.sig y.hk
    assert_json '[v["signature"],v["checked"]["base"],v["lineage"]]' '[{"genuine":true,"changed":[]},"bound","ok"]'
    append_eval x.hk '{}'
    t hk-verify --key pub.pem x.hk
    assert_status 1
    assert_json 'v["signature"]["changed"]' "$history"
    hk-rollback x.hk 3 >/dev/null
    t hk-verify --key pub.pem x.hk
    assert_status 0
}
