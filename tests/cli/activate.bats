# Records that switch others on and off, and the programs that go by it.
load common.bash

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    export HK_ACTIVATE=$BATS_FILE_TMPDIR SOURCE_DATE_EPOCH=1700000000
    hk-convert "$FIX/models/stories260K-f16.gguf" m.hk
    printf '{"layers":5,"width":64,"kv_width":32,"ffn":172}' >sizes
    mkdir one two
    "$PYTHON" "$ROOT/tests/lib/mklora.py" make one sizes
    "$PYTHON" "$ROOT/tests/lib/mklora.py" make two sizes '{}' 2
    hk-append --lora one --name one --lora two --name two m.hk
    printf '{"pass_rate":1}' >eval.json
}
setup() {
    common_setup
    cp -r "$HK_ACTIVATE"/{m.hk,one,two,eval.json} .
}

# small NAME MEMBERS...: a .hk of two tensors and these records.
small() {
    mkhk "$1" '{"tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}}],
        "appendix":['"$2"']}'
}
# states FILE: the effective state of each record, and s where it is a switch.
states() {
    hk-log "$1" | json - '" ".join(("s" if r["switch"] else "") + ("+" if r["effective"] else "-")
        for r in v["records"])'
}
assert_states() { [[ $(states "$1") == "$2" ]] || fail "$1: expected $2, not $(states "$1")"; }
# merged FILE: what hk-merge folds in without being told.
merged() {
    hk-merge -f "$1" out.hk 2>/dev/null || return 0
    hk-meta get out.hk hk.merged | json - '" ".join(m["name"] for m in v)'
}
assert_merged() { [[ $(merged "$1") == "$2" ]] || fail "$1: expected $2, not $(merged "$1")"; }

@test "the last record of a name counts, for hk-log and hk-merge" {
    assert_states m.hk '+ +'
    assert_merged m.hk 'one two'
    hk-append --deactivate one m.hk
    assert_states m.hk '- + s-'
    assert_merged m.hk two
    hk-append --deactivate two m.hk
    assert_states m.hk '- - s- s-'
    t hk-merge m.hk out2.hk
    assert_fails 1 'no active adapter or delta to merge, 2 inactive'
    assert_err_has 'hk-append --activate'
    hk-append --activate one m.hk
    assert_states m.hk '+ - s+ s- s+'
    assert_merged m.hk one
    hk-append --activate two --deactivate one m.hk
    assert_states m.hk '- + s- s+ s- s+ s-'
    assert_merged m.hk two
    t hk-verify --strict m.hk
    assert_status 0
    assert_json 'v["lineage"]' ok
    hk-rollback m.hk 2 >report
    assert_states m.hk '- + s-'
    hk-rollback m.hk 1 >report
    assert_states m.hk '+ +'
}

@test "a switch has type, name and target of what it switches, no data, and its own flag" {
    hk-append --lora one --name three --target 'layers 1' --inactive m.hk
    hk-append --activate three --loss 0.5 --generation 9 m.hk
    t hk-log m.hk
    assert_json '[[r[k] for k in ("type","name","target","generation","active","size","effective","switch")] for r in v["records"]][2:]' \
        '[["lora_adapter","three","layers 1",2,false,'"$(hk-log m.hk | json - 'v["records"][2]["size"]')"',true,false],["lora_adapter","three","layers 1",9,true,0,true,true]]'
    assert_json 'v["records"][3]["metrics"]["loss"]' 0.5
    t hk-inspect --appendix m.hk
    assert_json '[r["effective"] for r in v["appendix"]]' '[true,true,true,true]'
    hk-append --deactivate one m.hk
    t hk-log --table m.hk
    assert_out_like 'CRC +STATE'
    assert_out_like '0 .* one .* deactivated'
    assert_out_like '1 .* two .* active'
    assert_out_like '2 .* three .* activated'
    assert_out_like '3 .* three .* switch on'
    assert_out_like '4 .* one .* switch off'
    t hk-inspect --table m.hk
    assert_out_like '0 .* one .* deactivated'
    hk-log m.hk --extract one >payload
    hk-log m.hk --extract 0 >first
    [[ -s payload ]]
    assert_same payload first
}

@test "an evaluation of the same name is another thing, and one option switches both" {
    hk-append --eval eval.json --name one m.hk
    hk-append --eval eval.json --name one --target other --inactive m.hk
    assert_states m.hk '+ + + -'
    hk-append --deactivate one m.hk
    t hk-log m.hk
    assert_json '[[r["type"],r["target"]] for r in v["records"][4:]]' \
        '[["lora_adapter","model"],["code_eval","model"],["code_eval","other"]]'
    assert_states m.hk '- + - - s- s- s-'
    assert_merged m.hk two
}

@test "records of one name: what is appended later does not bring back what was switched off" {
    local r='{"type":"delta_patch","name":"d","target":"t","data":"x","flags":' \
        s='{"type":"delta_patch","name":"d","target":"t","data":"","flags":'
    while IFS=: read -r list want; do
        small x.hk "$(sed "s/on/$r 1}/g; s/off/$r 0}/g; s/ON/$s 1}/g; s/OFF/$s 0}/g" <<<"$list")"
        assert_states x.hk "$want"
        hk-verify x.hk >log
    done <<'ROWS'
on:+
off:-
ON:+
OFF:-
on,on:+ +
on,off:- -
off,on:- +
on,OFF:- s-
off,ON:+ s+
on,OFF,on:- s- +
on,on,OFF,ON:+ + s+ s+
on,OFF,ON,OFF:- s- s- s-
on,OFF,on,off:- s- - -
OFF,ON:+ s+
ROWS
}

@test "unknown names are refused, and those there are listed" {
    cp m.hk before.hk
    for how in --activate --deactivate; do
        t hk-append $how three m.hk
        assert_fails 1 'no record three; there are: one, two'
        assert_same m.hk before.hk
        t hk-append $how one $how '' m.hk
        assert_fails 1 'there are: one, two'
        assert_same m.hk before.hk
        t hk-append --eval eval.json --name three $how three m.hk
        assert_fails 1 'no record three'
        assert_same m.hk before.hk
    done
    mkhk none.hk '{"tensors":[]}'
    cp none.hk before.hk
    t hk-append --deactivate x none.hk
    assert_fails 1 'no record x: the file has none'
    assert_same none.hk before.hk
    "$PYTHON" - <<'PY' >many.json
import json
print(json.dumps({"appendix": [{"name": "n%d" % i + "x" * (i * 9 % 150), "data": "d"} for i in range(60)]}))
PY
    mkhk many.hk @many.json
    t hk-append --deactivate x many.hk
    assert_fails 1 ', ...'
}

@test "options that do not go together are refused before the file is opened" {
    while read -r words; do
        # shellcheck disable=SC2086 # words
        t hk-append $words none.hk
        assert_status 2
        refute_err_has 'cannot open'
    done <<'ROWS'
--deactivate one --name x
--deactivate one --target x
--activate one --inactive
--activate one --compress
--activate
ROWS
}

@test "naming a deactivated adapter uses it and says so" {
    local ids=(--ids --ctx 8)
    printf '\1\0\0\0\5\0\0\0\7\0\0\0\11\0\0\0' >ids
    hk-perplexity "${ids[@]}" --adapter one m.hk <ids >before 2>log
    refute grep -q deactivated log
    hk-append --deactivate one m.hk
    hk-perplexity "${ids[@]}" --adapter one m.hk <ids >after 2>log
    assert_same before after
    grep -q 'record one is deactivated, and used because --adapter names it' log
    t hk-run --adapter one=0.5 -n 1 m.hk Once
    assert_status 0
    assert_err_has 'record one is deactivated'
    t hk-merge --adapter one m.hk out.hk
    assert_status 0
    assert_err_has 'record one is deactivated'
    hk-append --activate one m.hk
    t hk-merge -f --adapter one m.hk out.hk
    assert_status 0
    assert_err ''
}

@test "states go along with conversions, shards and edits" {
    hk-append --deactivate one m.hk
    hk-meta set m.hk general.description 'after a switch'
    hk-convert m.hk x.hk
    assert_states x.hk '- + s-'
    assert_merged x.hk two
    hk-convert --split-size 200k m.hk s.hk
    assert_states s-00001-of-00003.hk '- + s-'
    hk-merge s.hk.index.json whole.hk
    [[ $(hk-meta get whole.hk hk.merged | json - 'v[0]["name"]') == two ]]
    hk-convert s.hk.index.json y.hk
    assert_same x.hk y.hk
    assert_merged y.hk two
    hk-append --activate one y.hk
    assert_merged y.hk 'one two'
}

@test "hk-merge of a file without adapters says what leaves the records out" {
    hk-convert --no-history m.hk e.hk
    hk-append --eval eval.json --name e e.hk
    t hk-merge e.hk out.hk
    assert_fails 1 'no active adapter or delta to merge among 1 record; hk-convert --no-history'
}

@test "many records of one name take no time" {
    "$PYTHON" - <<'PY'
import struct
d = bytearray(open("m.hk", "rb").read())
at = struct.unpack_from("<Q", d, 0x48)[0]
name = b"n" * 200
record = struct.pack("<BBHIQ32s4fHHIQ", 1, 1, len(name), 1, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0) + name
record += bytes(-len(record) % 8)
open("many.hk", "wb").write(bytes(d[:at]) + record * 50000)
PY
    t timeout 20 hk-append --deactivate x many.hk
    assert_fails 1 'no record x'
    t timeout 20 hk-append --deactivate "$(printf 'n%.0s' {1..200})" many.hk
    assert_status 0
}
