# hk-verify: the report. What each rule refuses is tested with the library.
load common.bash

@test "a sound file" {
    mkhk x.hk
    t hk-verify x.hk
    assert_status 0
    assert_err ''
    assert_json 'list(v)' '["file","valid","errors","warnings","lineage","checked"]'
    assert_json '[v["file"],v["valid"],v["errors"],v["warnings"],v["lineage"]]' '["x.hk",true,[],[],"none"]'
    assert_json 'v["checked"]' \
        '{"size":656,"tensors":2,"keys":7,"records":0,"payload":false,"base":"unbound","seal":"none"}'
    t hk-verify --payload x.hk
    assert_json 'v["checked"]["payload"]' True
    t hk-verify "$FIX/models/stories260K-f16.gguf"
    assert_status 0
    assert_json '[v["valid"],v["checked"]["tensors"]]' '[true,47]'
}

@test "lists every fault with code, offset and subject, and each on standard error" {
    mkhk --map bad.hk >map.json
    mkhk bad.hk --set 'tensors[0].type=0x99' --set 'tensors[1].layout=77'
    t hk-verify bad.hk
    assert_status 1
    assert_json '[v["valid"],[(e["code"],e["tensor"],e["index"]) for e in v["errors"]]]' \
        '[false,[["storage-type","a.weight",0],["tile-layout","a.bias",1]]]'
    assert_json 'v["errors"][0]["offset"]' "$(json map.json 'v["tensors[0].type"][0]')"
    assert_json 'v["errors"][1]["offset"]' "$(json map.json 'v["tensors[1].layout"][0]')"
    [[ $(wc -l <<<"$stderr") -eq 2 ]]
    assert_err_has 'hk-verify: bad.hk: tensor a.weight: unknown storage type 0x99, at 0x'
    assert_err_has 'hk-verify: bad.hk: tensor a.bias: unknown tile layout 0x4d, at 0x'
}

@test "keys and records are named" {
    mkhk bad.hk '{"metadata":[["k","bool",{"hex":"02"}],["","string",""]],
        "appendix":[{"name":"r","data":"x","crc":7}]}'
    t hk-verify bad.hk
    assert_status 1
    assert_json '[(w["code"],w["key"],w["index"]) for w in v["warnings"]]' '[["value-bool","k",0]]'
    assert_json '[(e["code"],e.get("key"),e.get("record")) for e in v["errors"]]' \
        '[["key-empty","",null],["crc",null,"r"]]'
    assert_err_has 'warning: key k: bool is 2'
}

@test "a warning is an error with --strict only" {
    mkhk x.hk '{"header":{"checksum":5}}'
    t hk-verify x.hk
    assert_status 0
    assert_json '[v["valid"],v["warnings"][0]["code"],v["warnings"][0]["offset"]]' '[true,"checksum-field",80]'
    assert_err_like '^hk-verify: x.hk: warning: .*, at 0x50$'
    t hk-verify --strict x.hk
    assert_status 1
    assert_json '[v["valid"],len(v["errors"]),len(v["warnings"])]' '[false,0,1]'
    refute_err_has warning:
}

@test "payloads are read only if asked for" {
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[2],"data":{"hex":"0000c07f0000807f"}}]}'
    t hk-verify x.hk
    assert_status 0
    assert_json 'v["warnings"]' '[]'
    t hk-verify --payload x.hk
    assert_status 0
    assert_json '[w["code"] for w in v["warnings"]]' '["payload-nan","payload-inf"]'
    t hk-verify --payload --strict x.hk
    assert_status 1
}

@test "scales that are not an f16 in one place are looked at too" {
    mkhk x.hk '{"tensors":[
        {"name":"k","type":"q8_k","shape":[512],"data":{"cat":[{"zero":292},{"hex":"0000c07f"},{"zero":288}]}},
        {"name":"m","type":"iq1_m","shape":[256],"data":{"cat":[{"zero":48},{"hex":"00000000 00c0 0070"}]}}]}'
    t hk-verify --payload x.hk
    assert_status 0
    assert_json '[(w["code"],w["tensor"]) for w in v["warnings"]]' '[["payload-nan","k"],["payload-inf","m"]]'
    assert_json 'v["warnings"][0]["offset"] - '"$(hk-inspect x.hk | json - 'v["tensors"][0]["offset"]')" 292
}

@test "faults that keep nothing from being read do not keep payloads from it" {
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[2],"data":{"hex":"0000c07f0000807f"}}],
        "appendix":[{"name":"r","data":"x","entry_type":77}]}'
    t hk-verify --payload x.hk
    assert_status 1
    assert_json '[[e["code"] for e in v["errors"]],[w["code"] for w in v["warnings"]],v["checked"]["payload"]]' \
        '[["record-type"],["payload-nan","payload-inf"],true]'
    mkhk x.hk --set 'tensors[0].type=0x99'
    t hk-verify --payload x.hk
    assert_json 'v["checked"]["payload"]' False
}

@test "a sparse tensor of few bytes and vast shape is read in no time; bad values have their offsets" {
    local blocks='{"cat":[{"hex":"010001000200000001000000"},{"hex":"000000000100000000000000"},{"hex":"0000807f"}]}'
    mkhk x.hk "{\"tensors\":[{\"name\":\"t\",\"type\":\"f32\",\"sparsity\":\"bsr\",\"shape\":[1,1125899906842624],
        \"data\":$blocks}]}"
    t timeout 10 hk-verify --payload x.hk
    assert_status 0
    assert_json '[(w["code"],w["offset"]) for w in v["warnings"]]' '[["payload-inf",280]]'
    mkhk x.hk '{"tensors":[{"name":"m","type":"sparse_f16","shape":[8],"data":{"hex":"03000000 0000803f 0000c07f"}},
        {"name":"p","type":"sparse_2_4","shape":[4],"data":{"hex":"04000000 000080ff 0000803f"}}]}'
    t hk-verify --payload x.hk
    assert_status 0
    assert_json '[(w["code"],w["tensor"],w["offset"]) for w in v["warnings"]]' \
        '[["payload-nan","m",392],["payload-inf","p",516]]'
}

@test "bytes that fit a sparse label and dense f32 alike are not said to be the latter" {
    local blocks='{"cat":[{"hex":"020002000300000002000000"},{"i32":[0,1,2]},{"i32":[1,0]},{"f32":[1,2,3,4,5,6,7,8]}]}'
    mkhk x.hk "{\"tensors\":[{\"name\":\"t\",\"type\":\"f32\",\"sparsity\":\"csr\",\"shape\":[4,4],\"data\":$blocks}]}"
    t hk-verify x.hk
    assert_status 0
    assert_err_has 'tensor t: perhaps dense f32 under the label f32, csr'
}

@test "a shared_ref without bytes may point past the end of the file" {
    mkhk x.hk '{"tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}},
        {"name":"s","type":"shared_ref","shape":[2],"data_offset":4096}]}'
    t hk-verify x.hk
    assert_status 0
    assert_json '[v["errors"],v["warnings"]]' '[[],[]]'
    t hk-dequant --text x.hk s
    assert_out '1.0 2.0'
}

@test "a shared_ref has no sections but its target's" {
    local tensors='{"tensors":[{"name":"a","type":"dq8","shape":[2],"data":{"hex":"0102"},"scales":{"f32":[1]}},
        {"name":"s","type":"shared_ref","shape":[2],"shared":0}]}'
    mkhk x.hk "$tensors"
    t hk-verify x.hk
    assert_status 0
    mkhk x.hk "$tensors" --set 'tensors[1].scale_size=8'
    t hk-verify x.hk
    assert_status 1
    assert_json '[(e["code"],e["tensor"]) for e in v["errors"]]' '[["section-range","s"],["reference","s"]]'
    mkhk x.hk "$tensors" --set 'tensors[1].residual_size=2' --set 'tensors[1].residual_offset=384'
    t hk-verify x.hk
    assert_status 1
    assert_json '[(e["code"],e["tensor"]) for e in v["errors"]]' '[["reference","s"]]'
}

@test "lineage: none, ok, broken" {
    mkhk ok.hk '{"appendix":[{"name":"a","data":"1"},{"name":"b","data":"2"},{"name":"c","data":"3","parent":"legacy"}]}'
    t hk-verify ok.hk
    assert_status 0
    assert_json '[v["lineage"],v["checked"]["records"]]' '["ok",3]'
    mkhk zero.hk '{"appendix":[{"name":"a","data":"1"},{"name":"b","data":"2","parent":"zero"}]}'
    t hk-verify zero.hk
    assert_status 1
    assert_json '[v["lineage"],v["errors"][0]["code"],v["errors"][0]["record"],v["errors"][0]["index"]]' \
        '["broken","lineage-zero","b",1]'
    mkhk broken.hk '{"appendix":[{"name":"a","data":"1"},{"name":"b","data":"2"}]}' --set 'appendix[0].data=0x:39'
    t hk-verify broken.hk
    assert_status 1
    assert_json '[v["lineage"],v["errors"][0]["code"]]' '["broken","lineage-broken"]'
}

@test "nothing may lie behind the appendix; of metadata an old edit is to blame" {
    local off
    mkhk x.hk '{"metadata":[["k","string","v"]],"tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}}],
        "appendix":[{"name":"r","data":"x"}]}'
    cp x.hk late.hk
    off=$(hk-inspect --tensors x.hk | json - 'v["tensors"][0]["offset"]')
    /usr/bin/python3 - "$off" <<'PY'
import struct, sys
d = bytearray(open("x.hk", "rb").read())
at, size = struct.unpack_from("<QQ", d, 0x20)
late = bytearray(d)
struct.pack_into("<Q", late, 0x20, len(d))
open("late.hk", "wb").write(late + d[at:at + size])
open("junk.hk", "wb").write(late + d[at:at + size] + b"junk")
struct.pack_into("<Q", d, 0x48, int(sys.argv[1]))
open("over.hk", "wb").write(d)
PY
    t hk-verify late.hk
    assert_status 0
    assert_json '[[w["code"] for w in v["warnings"]],v["errors"],v["checked"]["records"]]' '[["known-defect"],[],1]'
    t hk-verify junk.hk
    assert_status 1
    assert_json '[e["code"] for e in v["errors"]]' '["trailing-bytes"]'
    t hk-verify over.hk
    assert_status 1
    assert_json '[(e["code"],e.get("tensor")) for e in v["errors"]]' '[["appendix-offset","a"],["trailing-bytes",null]]'
}

# bound OUT REFERENCES: a tensor of 2 MiB, shared by so many, and a record bound to the digest of them.
bound() {
    /usr/bin/python3 -B - "$ROOT/tests/lib" "$@" <<'PY'
import hashlib, struct, sys
sys.path.insert(0, sys.argv[1])
import mkhk
sha = lambda b: hashlib.sha256(b).digest()
data, n = bytes(2 << 20), int(sys.argv[3])
tensors = [{"name": "a", "type": "f32", "shape": [1 << 19], "data": {"zero": len(data)}}]
tensors += [{"name": "s%06d" % i, "type": "shared_ref", "shape": [1 << 19], "shared": 0} for i in range(n)]
h, digest = hashlib.sha256(), sha(data)
for t in tensors:
    for field in (t["name"].encode(), struct.pack("<H", mkhk.STORAGE[t["type"]]), b"\0", b"\0",
                  struct.pack("<Q", 1 << 19), struct.pack("<H", 32), digest, sha(b""), sha(b"")):
        h.update(struct.pack("<Q", len(field)) + field)
record = {"name": "r", "data": "x", "parent": {"hex": h.hexdigest()}}
open(sys.argv[2], "wb").write(mkhk.build({"tensors": tensors, "appendix": [record]}).data)
PY
}

@test "the base digest is the documented one, and hashes what is shared once" {
    bound x.hk 30000
    t timeout 20 hk-verify --payload x.hk
    assert_status 0
    assert_json 'v["checked"]["base"]' bound
}

@test "several files: a report each, the worst status" {
    mkhk x.hk
    mkhk bad.hk --set header.version_major=9
    t hk-verify x.hk bad.hk
    assert_status 1
    [[ ${#lines[@]} -eq 2 ]]
    t hk-verify bad.hk missing x.hk
    assert_status 2
    [[ ${#lines[@]} -eq 2 ]]
    assert_err_has 'hk-verify: missing: '
}

@test "text for people" {
    mkhk x.hk
    mkhk bad.hk --set header.version_major=9
    t hk-verify --text x.hk bad.hk
    assert_status 1
    assert_out $'x.hk: valid, 0 errors, 0 warnings, lineage none\nbad.hk: invalid, 1 errors, 0 warnings, lineage none'
}

@test "millions of faults are counted, not listed" {
    mkhk x.hk '{"metadata":[["a","bytes",{"zero":0}]]}'
    /usr/bin/python3 - <<'PY'
import struct
n = 30000
meta = b"".join(struct.pack("<H5sBIB", 5, b"%05d" % i, 4, 1, 2) for i in range(n))
head = bytearray(open("x.hk", "rb").read()[:128])
struct.pack_into("<QQQQQQQ", head, 0x18, n, 128, len(meta), 128 + len(meta), 0, 128 + len(meta), 0)
open("many.hk", "wb").write(bytes(head) + meta)
PY
    hk-verify many.hk >out.json 2>err.txt
    [[ $(json out.json '[v["valid"],v["truncated"],v["error_count"],v["warning_count"],len(v["warnings"])]') == '[true,true,0,30000,10000]' ]]
    [[ $(wc -l <err.txt) -eq 10000 ]]
}

@test "standard input, mapped or spooled" {
    mkhk x.hk
    t_from x.hk hk-verify -
    assert_json '[v["file"],v["valid"]]' '["-",true]'
    t_sh 'cat x.hk | hk-verify -'
    assert_status 0
    assert_json 'v["checked"]["tensors"]' 2
    t_sh 'head -c 300 x.hk | hk-verify -'
    assert_status 1
    assert_err_has 'hk-verify: standard input: '
}

@test "what cannot be read is trouble, without a report" {
    mkdir dir
    make_unreadable secret
    for f in dir /dev/null missing; do
        t timeout 5 hk-verify $f
        assert_fails 2 "hk-verify: $f: "
    done
    t_unprivileged hk-verify "$PWD/secret"
    assert_fails 2 'Permission denied'
    t hk-verify
    assert_fails 2 'need a FILE'
}

@test "what is no model is content at fault" {
    printf '<html>' >html
    : >empty
    t hk-verify html empty
    assert_status 1
    assert_err_has 'html: not a model file: this is '
    assert_err_has 'empty: '
    [[ ${#lines[@]} -eq 2 ]]
    t hk-verify html
    assert_json '[v["valid"],v["errors"][0]["code"]]' '[false,"magic"]'
}

@test "surrogates and overlong forms in a name are bytes, not characters" {
    mkhk x.hk '{"metadata":[["k","string",""]],"tensors":[{"name":{"hex":"c080eda0802e"},"type":"dq6","shape":[1]}]}'
    t hk-verify x.hk
    assert_status 0
    assert_json 'v["warnings"][0]["message"]' 'tensor \xc0\x80\xed\xa0\x80.: type dq6 has no defined layout'
}

@test "hostile names never make invalid JSON" {
    mkhk x.hk '{"metadata":[["ok","string",""],[{"hex":"ff0a1b"},"bool",{"hex":"07"}]],
        "tensors":[{"name":{"hex":"1b5b6dff22"},"type":"f32","shape":[3],"data":{"zero":4}}]}'
    hk-verify x.hk >out.json 2>err.txt || [[ $? -eq 1 ]]
    [[ $(json out.json 'v["errors"][0]["tensor"].encode().hex()') == 1b5b6defbfbd22 ]]
    [[ $(json out.json '[w["key"] for w in v["warnings"] if w["code"] == "value-bool"][0].encode().hex()') == efbfbd0a1b ]]
    refute grep -qP '[\x00-\x09\x0b-\x1f\x7f]' out.json err.txt
    [[ $(wc -l <out.json) -eq 1 ]]
}

@test "a full disk is an error, a reader that leaves is not" {
    mkhk x.hk
    t_sh 'hk-verify x.hk >/dev/full'
    assert_fails 2 'hk-verify: standard output: cannot write: No space left on device'
    t bash -c 'hk-verify x.hk x.hk | head -c 5; echo " ${PIPESTATUS[0]}"'
    assert_out '{"fil 0'
    assert_err ''
}

@test "the page lists every fault code under its severity" {
    {
        sed -nE 's/^ *X\([A-Z_0-9]+, "([a-z0-9-]+)", HK_(ERROR|WARNING).*/\1 \2/p' "$ROOT/libhkfmt/base/fault.h"
        sed -nE 's/.*severity = HK_(ERROR|WARNING), \.code = "([a-z0-9-]+)".*/\2 \1/p' "$ROOT/tools/hk-verify.c"
    } | sort >codes
    awk '/^\.S[hs]/ { on = $2 == "Faults" } /^Errors:/ { s = "ERROR" }
        /^Warnings:/ { s = "WARNING" } on && /^\.It [a-z0-9-]+$/ { print $2, s }' \
        "$ROOT/man/hk-verify.1" | sort >listed
    [[ -s codes ]]
    diff codes listed
}
