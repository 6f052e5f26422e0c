# hk-diff: every kind of difference, statistics against values computed elsewhere, exit statuses.
load common.bash

# make_hk FILE KEYS TENSORS RECORDS
make_hk() { mkhk "$1" "{\"metadata\":[$2],\"tensors\":[$3],\"appendix\":[${4:-}]}"; }
f32() { printf '{"name":"%s","type":"f32","shape":%s,"data":{"f32":%s}}' "$1" "$2" "$3"; }

differ() {
    t hk-diff --json "$@"
    assert_status 1
    assert_err ''
}

@test "the same file, a copy, and another place for the same things" {
    make_models
    cp model.hk copy.hk
    hk-convert --align 4096 model.hk aligned.hk
    for other in model.hk copy.hk aligned.hk; do
        t hk-diff model.hk $other
        assert_status 0
        assert_out ''
        assert_err ''
        t hk-diff --json model.hk $other
        assert_status 0
        assert_json 'v["same"]' True
    done
    assert_json 'list(v)' '["a","b","same","metadata","tensors","records","appendix"]'
    assert_json '[v["tensors"]["same"],v["tensors"]["changed"],v["metadata"]["added"]]' '[47,[],[]]'
}

@test "a GGUF and its .hk differ by what the conversion notes" {
    make_models
    differ model.gguf model.hk
    assert_json '[[k["key"] for k in v["metadata"]["added"]],v["metadata"]["removed"],v["metadata"]["changed"]]' \
        '[["hk.source.format","hk.source.gguf_version"],[],[]]'
    assert_json '[v["tensors"]["same"],v["tensors"]["added"],v["tensors"]["removed"],v["tensors"]["changed"]]' \
        '[47,[],[],[]]'
    t hk-diff --ignore-key 'hk.source.*' model.gguf model.hk
    assert_status 0
    assert_out ''
    t hk-diff --json --ignore-key nothing --ignore-key 'hk.*' model.hk model.gguf
    assert_status 0
    assert_json '[v["same"],v["metadata"]["ignored"]]' '[true,2]'
}

@test "metadata: added, removed, type, value" {
    make_hk a.hk '["gone","string","x"],["same","int64",1],["value","int64",1],["type","int64",1],
        ["bytes","bytes",{"hex":"0102"}],["float","float64",0.5],["truth","bool",true]' ''
    make_hk b.hk '["same","int64",1],["value","int64",2],["type","float64",1],
        ["bytes","bytes",{"hex":"0103"}],["float","float64",0.25],["truth","bool",false],["new","string","y"]' ''
    differ a.hk b.hk
    assert_json 'v["metadata"]["added"]' '[{"key":"new","type":"string","value":"y"}]'
    assert_json 'v["metadata"]["removed"]' '[{"key":"gone","type":"string","value":"x"}]'
    assert_json '[k["key"] for k in v["metadata"]["changed"]]' '["value","type","bytes","float","truth"]'
    assert_json 'v["metadata"]["changed"][0]' \
        '{"key":"value","a":{"type":"int64","value":1},"b":{"type":"int64","value":2}}'
    assert_json 'v["metadata"]["changed"][1]' \
        '{"key":"type","a":{"type":"int64","value":1},"b":{"type":"float64","value":1.0}}'
    t hk-diff a.hk b.hk
    assert_status 1
    assert_out 'KEY    CHANGE   A                         B                         NOTE
gone   removed  string: x
value  changed  1                         2
type   changed  int64: 1                  float64: 1.0
bytes  changed  {"bytes":2,"hex":"0102"}  {"bytes":2,"hex":"0103"}
float  changed  0.5                       0.25
truth  changed  true                      false
new    added                              string: y'
}

@test "arrays: how many elements differ, and the first" {
    make_hk a.hk '["s","bytes",{"strings":["a","b","c"]}],["f","bytes",{"f32_blob":[1,2,3]}],
        ["i","bytes",{"i32_blob":[1,2]}],["k","bytes",{"i32_blob":[1]}],["j","json","[1,[2],\"x\"]"],
        ["o","json","{\"a\":1, \"b\":2}"],["q","json","{\"a\":1}"],["bad","json","[1"]' ''
    make_hk b.hk '["s","bytes",{"strings":["a","x","y"]}],["f","bytes",{"f32_blob":[1,2]}],
        ["i","bytes",{"i32_blob":[1,2,3,4]}],["k","bytes",{"f32_blob":[1]}],["j","json","[1,[3],\"y\",null]"],
        ["o","json","{\"b\":2,\"a\":1}"],["q","json","{\"a\":2}"],["bad","json","[2"]' ''
    differ a.hk b.hk
    assert_json '[(k["key"],k.get("array")) for k in v["metadata"]["changed"]]' \
'[["s",{"count_a":3,"count_b":3,"differing":2,"first":{"index":1,"a":"b","b":"x"}}],'\
'["f",{"count_a":3,"count_b":2,"differing":1,"first":{"index":2,"a":3.0,"b":null}}],'\
'["i",{"count_a":2,"count_b":4,"differing":2,"first":{"index":2,"a":null,"b":3}}],["k",null],'\
'["j",{"count_a":3,"count_b":4,"differing":3,"first":{"index":1,"a":[2],"b":[3]}}],["q",null],["bad",null]]'
    t hk-diff a.hk b.hk
    assert_out_has 's    changed  [1] b '
    assert_out_has '2 of 3 elements differ'
    assert_out_has '2 elements'
}

@test "types of GGUF count where both are GGUF" {
    "$PYTHON" - <<'PY'
import struct
text = lambda s: struct.pack("<Q", len(s)) + s
for name, kind, fmt in (("a", 4, "<I"), ("b", 5, "<i")):
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"k") + struct.pack("<I", kind) + struct.pack(fmt, 7)
    open(name + ".gguf", "wb").write(head + bytes(-len(head) % 32))
PY
    differ a.gguf b.gguf
    assert_json 'v["metadata"]["changed"]' '[{"key":"k","a":{"type":"u32","value":7},"b":{"type":"i32","value":7}}]'
    make_hk c.hk '["k","int64",7]' ''
    t hk-diff a.gguf c.hk
    assert_status 0
}

@test "tensors: added, removed, shape, layout, sparsity, block size" {
    make_hk a.hk '' "$(f32 gone '[2]' '[1,2]'),$(f32 same '[2]' '[1,2]'),$(f32 shape '[2,3]' '[1,2,3,4,5,6]'),
        {\"name\":\"layout\",\"type\":\"f32\",\"shape\":[2,2],\"data\":{\"f32\":[1,2,3,4]}},
        {\"name\":\"dq\",\"type\":\"dq8\",\"shape\":[64],\"block_size\":32,\"data\":{\"repeat\":[{\"hex\":\"01\"},64]},
         \"scales\":{\"f32\":[0.5,0.5]}},
        {\"name\":\"unused\",\"type\":\"f32\",\"shape\":[1],\"block_size\":7,\"data\":{\"f32\":[1]}}"
    make_hk b.hk '' "$(f32 same '[2]' '[1,2]'),$(f32 shape '[3,2]' '[1,2,3,4,5,6]'),
        {\"name\":\"layout\",\"type\":\"f32\",\"layout\":\"col_major\",\"shape\":[2,2],\"data\":{\"f32\":[1,3,2,4]}},
        {\"name\":\"dq\",\"type\":\"dq8\",\"shape\":[64],\"block_size\":64,\"data\":{\"repeat\":[{\"hex\":\"01\"},64]},
         \"scales\":{\"f32\":[0.5]}},
        {\"name\":\"unused\",\"type\":\"f32\",\"shape\":[1],\"data\":{\"f32\":[1]}},$(f32 new '[1]' '[1]')"
    differ a.hk b.hk
    assert_json '[t["name"] for t in v["tensors"]["added"]]' '["new"]'
    assert_json 'v["tensors"]["removed"]' \
        '[{"name":"gone","type":"f32","shape":[2],"layout":"row_major","sparsity":"none","block_size":32}]'
    assert_json '[(t["name"],t["differs"],t["values"]) for t in v["tensors"]["changed"]][0]' \
        '["shape",["shape"],{"compared":"no","equal":null}]'
    assert_json '[(t["name"],t["differs"],t["values"]["equal"]) for t in v["tensors"]["changed"]][1:]' \
        '[["layout",["layout"],true],["dq",["block_size"],true]]'
    assert_json 'v["tensors"]["same"]' 2
    t hk-diff a.hk b.hk
    assert_out_like 'shape +shape +f32 2 x 3 +f32 3 x 2'
    assert_out_like 'layout +layout +f32 row_major +f32 col_major +values equal'
    assert_out_like 'new +added +f32 1'
}

@test "values: errors, cosine and the first difference are what another program computes" {
    "$PYTHON" - <<'PY'
import json, math, random, struct
r = random.Random(5)
a = [struct.unpack("<f", struct.pack("<f", r.gauss(0, 1)))[0] for _ in range(7 * 30001)]
b = list(a)
for i in range(1234, len(b), 3):
    b[i] = struct.unpack("<f", struct.pack("<f", b[i] + r.gauss(0, 0.01)))[0]
for name, v in (("a", a), ("b", b)):
    open(name + ".f32", "wb").write(struct.pack("<%df" % len(v), *v))
d = [x - y for x, y in zip(a, b)]
fs, n = math.fsum, len(a)
top = max(range(n), key=lambda i: abs(d[i]))
aa, bb, ab, dd = (fs(x * y for x, y in zip(p, q)) for p, q in ((a, a), (b, b), (a, b), (d, d)))
first = next(i for i in range(n) if a[i] != b[i])
json.dump({"differing": sum(x != 0 for x in d), "max": abs(d[top]), "top": top, "rmse": math.sqrt(dd / n),
           "relative": math.sqrt(dd / aa), "cosine": ab / math.sqrt(aa * bb), "first": first,
           "place": [first // 30001, first % 30001], "a": a[first], "b": b[first]}, open("want.json", "w"))
PY
    for n in a b; do
        mkhk $n.hk \
            "{\"tensors\":[{\"name\":\"t\",\"type\":\"f32\",\"shape\":[7,30001],\"data\":{\"file\":\"$n.f32\"}}]}"
    done
    differ a.hk b.hk
    jq -c '.tensors.changed[0]' <<<"$output" >got.json
    jq -e -n --slurpfile w want.json --slurpfile g got.json '$w[0] as $w | $g[0].values as $v |
        def near($x; $y): ($x - $y | fabs) <= 1e-12 * ($y | fabs);
        $v.compared == "values" and $v.elements == 210007 and $v.differing == $w.differing and
        $v.max_abs_error == $w.max and $v.max_index == $w.top and near($v.rmse; $w.rmse) and
        near($v.relative; $w.relative) and near($v.cosine; $w.cosine) and $v.first.index == $w.first and
        $v.first.place == $w.place and $v.first.a == $w.a and $v.first.b == $w.b' || fail "$(cat want.json got.json)"
    hk-diff --json --threads 1 a.hk b.hk >one || [[ $? -eq 1 ]]
    for n in 2 3 7; do
        hk-diff --json --threads $n a.hk b.hk >many || [[ $? -eq 1 ]]
        assert_same one many
    done
}

@test "NaN and infinities are counted and compared, and left out of the sums" {
    nan=0000c07f inf=0000807f minus=000080ff one=0000803f two=00000040
    hexed() { printf '{"name":"%s","type":"f32","shape":[5],"data":{"hex":"%s"}}' "$1" "$2"; }
    make_hk a.hk '' "$(hexed n $nan$one$one$one$two),$(hexed i $inf$inf$one$one$one),
        $(hexed z 0000008000000000$one$one$one)"
    make_hk b.hk '' "$(hexed n $nan$nan$one$one$one),$(hexed i $inf$minus$one$one$one),
        $(hexed z 0000000000000000$one$one$one)"
    differ a.hk b.hk
    assert_json '[(t["name"],t["differs"]) for t in v["tensors"]["changed"]]' \
        '[["n",["values"]],["i",["values"]],["z",["bytes"]]]'
    assert_json '[[t["values"][k] for k in ("differing","nan","inf","max_abs_error","rmse")]
        for t in v["tensors"]["changed"]]' \
        "[[2,[1,2],[0,0],1.0,$("$PYTHON" -c 'print((1 / 3) ** 0.5)')],[1,[0,0],[2,2],0.0,0.0],[0,[0,0],[0,0],0.0,0.0]]"
    assert_json 'v["tensors"]["changed"][0]["values"]["first"]' '{"index":1,"place":[1],"a":1.0,"b":null}'
    t hk-diff --tolerance 5 a.hk b.hk
    assert_status 1
    assert_out_like 'nan 1:2, inf 0:0'
    assert_out_like 'inf 2:2'
    refute_out_has $'\nz '
}

@test "another type with the same values, with near ones, and what is let pass" {
    make_hk a.hk '' "$(f32 t '[4]' '[0.5,1,-2,3]'),$(f32 u '[2]' '[3,4]')"
    make_hk b.hk '' "{\"name\":\"t\",\"type\":\"f16\",\"shape\":[4],\"data\":{\"hex\":\"0038003c00c00042\"}},
        $(f32 u '[2]' '[3,4.25]')"
    differ a.hk b.hk
    assert_json '[(t["name"],t["differs"],t["values"]["equal"]) for t in v["tensors"]["changed"]]' \
        '[["t",["type"],true],["u",["values"],false]]'
    t hk-diff a.hk b.hk
    assert_out_like 't +type +f32 +f16 +values equal'
    t hk-diff --json --tolerance 0.25 a.hk b.hk
    assert_status 0
    assert_json '[v["same"],v["tensors"]["tolerated"],v["tensors"]["same"]]' '[true,2,0]'
    t hk-diff --tolerance 0.2499 a.hk b.hk
    assert_status 1
    t hk-diff --cosine 0.999 a.hk b.hk
    assert_status 0
    t hk-diff --cosine 0.9999 a.hk b.hk
    assert_status 1
    t hk-diff --cosine 0.999 --tolerance 0.1 a.hk b.hk
    assert_status 1
}

@test "64-bit numbers are compared as such" {
    make_hk a.hk '' '{"name":"d","type":"f64","shape":[2],"data":{"hex":"000000000000f03f 010000000000f03f"}},
        {"name":"i","type":"int64","shape":[1],"data":{"hex":"0100000001000000"}},
        {"name":"u","type":"uint32","shape":[1],"data":{"hex":"ffffffff"}}'
    make_hk b.hk '' '{"name":"d","type":"f64","shape":[2],"data":{"hex":"000000000000f03f 020000000000f03f"}},
        {"name":"i","type":"int64","shape":[1],"data":{"hex":"0200000001000000"}},
        {"name":"u","type":"uint32","shape":[1],"data":{"hex":"feffffff"}}'
    differ a.hk b.hk
    assert_json '[(t["name"],t["values"]["first"]["index"],t["values"]["max_abs_error"])
        for t in v["tensors"]["changed"]]' \
        '[["d",1,2.220446049250313e-16],["i",0,1.0],["u",0,1.0]]'
    assert_json 'v["tensors"]["changed"][2]["values"]["first"]["a"]' 4294967295.0
}

@test "what cannot be decoded is compared by its bytes, and said to be" {
    opaque() { printf '{"name":"o","type":"dq6","shape":[4],"data":"%s"}' "$1"; }
    make_hk a.hk '' "$(opaque abcd)"
    make_hk b.hk '' "$(opaque abce)"
    make_hk c.hk '' "$(f32 o '[4]' '[1,2,3,4]')"
    t hk-diff a.hk a.hk
    assert_status 0
    differ a.hk b.hk
    assert_json '[(t["differs"],t["values"]["compared"],t["values"]["equal"]) for t in v["tensors"]["changed"]]' \
        '[[["bytes"],"no",null]]'
    assert_json '"no defined layout" in v["tensors"]["changed"][0]["values"]["why"]' True
    t hk-diff --tolerance 100 a.hk c.hk
    assert_status 1
    assert_out_like 'o +type +dq6 +f32 +tensor o: type dq6 .*no defined layout'
}

@test "references are compared by what they refer to" {
    make_hk a.hk '' "$(f32 t '[2]' '[1,2]'),{\"name\":\"r\",\"type\":\"shared_ref\",\"shape\":[2],\"shared\":0},
        {\"name\":\"z\",\"type\":\"null_ref\",\"shape\":[3]}"
    make_hk b.hk '' "$(f32 t '[2]' '[1,2]'),$(f32 r '[2]' '[1,2]'),$(f32 z '[3]' '[0,0,0]')"
    differ a.hk b.hk
    assert_json '[(t["name"],t["differs"],t["values"]["compared"],t["values"]["equal"])
        for t in v["tensors"]["changed"]]' \
        '[["r",["type"],"bytes",true],["z",["type"],"values",true]]'
    assert_json 'v["tensors"]["same"]' 1
}

@test "sparse tensors of many zeros" {
    # 2^24 elements in a bitmask, one of them set, against the same dense but for one
    truncate -s 67108864 dense.f32
    printf '\0\0\200\77' | dd of=dense.f32 bs=4 seek=5000 conv=notrunc status=none
    printf '\0\0\0\100' | dd of=dense.f32 bs=4 seek=16777215 conv=notrunc status=none
    truncate -s 2097152 mask
    printf '\1' | dd of=mask bs=1 seek=625 conv=notrunc status=none
    mkhk a.hk '{"tensors":[{"name":"t","type":"f32","sparsity":"bitmask","shape":[4096,4096],
        "data":{"cat":[{"file":"mask"},{"f32":[1]}]}},{"name":"n","type":"null_ref","shape":[1048576,549755813888]}]}'
    mkhk b.hk '{"tensors":[{"name":"t","type":"f32","shape":[4096,4096],"data":{"file":"dense.f32"}},
        {"name":"n","type":"null_ref","shape":[1048576,549755813888]}]}'
    differ a.hk b.hk
    assert_json '[(t["name"],t["differs"]) for t in v["tensors"]["changed"]]' '[["t",["sparsity","values"]]]'
    assert_json '[v["tensors"]["changed"][0]["values"][k] for k in ("differing","max_index","first")]' \
        '[1,16777215,{"index":16777215,"place":[4095,4095],"a":0.0,"b":2.0}]'
}

@test "zeros without end are not counted" {
    make_hk a.hk '' '{"name":"n","type":"null_ref","shape":[1048576,549755813888]}'
    make_hk b.hk '' '{"name":"t","type":"f32","shape":[1],"data":{"f32":[0]}},
        {"name":"n","type":"dq6","shape":[1048576,549755813888],"data":"x"}'
    t timeout 20 hk-diff --json a.hk b.hk
    assert_status 1
    assert_json 'v["tensors"]["changed"][0]["values"]["why"]' 'too many elements for its bytes: see --max-output'
}

@test "appendix: added, removed, and which fields changed" {
    record() { printf '{"name":"%s","target":"%s","data":"%s","generation":%s,"parent":"zero","timestamp":%s}' "$@"; }
    make_hk a.hk '' '' "$(record one t x 1 5),$(record two t x 2 5),$(record three t x 3 5)"
    make_hk b.hk '' '' "$(record one t x 1 5),$(record three u yy 3 6),$(record four t x 4 5)"
    differ a.hk b.hk
    assert_json 'v["records"] == v["appendix"]' True
    assert_json 'v["records"]["added"]' '[{"generation":4,"type":"lora_adapter","name":"four","size":1}]'
    assert_json '[r["name"] for r in v["records"]["removed"]]' '["two"]'
    assert_json 'v["records"]["changed"]' '[{"generation":3,"type":"lora_adapter","name":"three",'\
'"differs":["target","timestamp","size","payload"]}]'
    t hk-diff a.hk b.hk
    assert_out 'GENERATION  RECORD        NAME   CHANGE
         2  lora_adapter  two    removed
         3  lora_adapter  three  target, timestamp, size, payload
         4  lora_adapter  four   added'
}

@test "parts that are asked for, names only" {
    make_hk a.hk '["k","int64",1]' "$(f32 t '[1]' '[1]')" '{"name":"r","data":"x"}'
    make_hk b.hk '["k","int64",2]' "$(f32 t '[1]' '[2]')" '{"name":"s","data":"x"}'
    t hk-diff --brief a.hk b.hk
    assert_status 1
    assert_out 'changed key k
changed tensor t
removed record r
added record s'
    t hk-diff -b --metadata a.hk b.hk
    assert_out 'changed key k'
    t hk-diff -b --tensors --appendix a.hk b.hk
    [[ $(wc -l <<<"$output") -eq 3 ]]
    t hk-diff --json --tensors a.hk b.hk
    assert_json 'list(v)' '["a","b","same","tensors"]'
    t hk-diff -b --tolerance 1 --tensors a.hk b.hk
    assert_status 0
    t hk-diff --metadata --ignore-key k a.hk b.hk
    assert_status 0
}

@test "a quantised model and its source" {
    need_shared
    local m=$SHARED/fixtures/models
    differ "$m/stories260K.gguf" "$m/stories260K-q8_0.gguf"
    assert_json '[len(v["tensors"]["added"]),len(v["tensors"]["removed"]),len(v["tensors"]["changed"])>30]' '[0,0,true]'
    assert_json 'min(t["values"]["cosine"] for t in v["tensors"]["changed"]) > 0.9999' True
    t hk-diff --tensors --cosine 0.9999 "$m/stories260K.gguf" "$m/stories260K-q8_0.gguf"
    assert_status 0
    # against the decoder's own output
    hk-dequant -o a.f32 "$m/stories260K.gguf" blk.2.ffn_up.weight
    hk-dequant -o b.f32 "$m/stories260K-q8_0.gguf" blk.2.ffn_up.weight
    want=$("$PYTHON" -c 'import struct
a, b = (struct.unpack("<%df" % (len(d) // 4), d) for d in (open("a.f32", "rb").read(), open("b.f32", "rb").read()))
print(max(abs(x - y) for x, y in zip(a, b)))')
    differ "$m/stories260K.gguf" "$m/stories260K-q8_0.gguf"
    assert_json '[t["values"]["max_abs_error"]
        for t in v["tensors"]["changed"] if t["name"] == "blk.2.ffn_up.weight"][0]' \
        "$want"
}

@test "a model directory and what is made of it" {
    need_shared
    local m=$SHARED/fixtures/models
    hk-convert "$m/stories260K-hf" x.hk
    hk-convert --split-size 300k x.hk s.hk
    for other in "$m/stories260K-hf" s-00002-of-*.hk s.hk.index.json; do
        t hk-diff --tensors x.hk "$other"
        assert_status 0
        assert_out ''
    done
    t hk-diff --json --tensors "$m/stories260K-hf" "$m/stories260K-hf-bf16-sharded"
    assert_status 1
    assert_json '[len(v["tensors"]["added"]),len(v["tensors"]["removed"])]' '[0,0]'
    assert_json 'sorted(set(t["b"]["type"] for t in v["tensors"]["changed"]))' '["bf16"]'
    t hk-diff --tensors --cosine 0.9999 "$m/stories260K-hf" "$m/stories260K-hf-bf16-sharded"
    assert_status 0
}

@test "trouble is 2" {
    mkhk x.hk
    echo text >bad
    for pair in 'x.hk bad' 'bad x.hk' 'x.hk gone'; do
        # shellcheck disable=SC2086
        t hk-diff $pair
        assert_fails 2
    done
    for o in 'x.hk' 'x.hk x.hk x.hk' \
        '--tolerance -1 x.hk x.hk' '--cosine 2 x.hk x.hk' '-b --json x.hk x.hk' '--bogus'; do
        # shellcheck disable=SC2086
        t hk-diff $o
        assert_status 2
        assert_out ''
    done
    t_sh 'cat x.hk | hk-diff - x.hk'
    assert_status 0
}

@test "names that could disturb a terminal, and any bytes in JSON" {
    make_hk a.hk '["\u001b[2J","int64",1]' "$(f32 '\u001b]0;t\u0007' '[1]' '[1]')"
    make_hk b.hk '' ''
    t hk-diff a.hk b.hk
    assert_status 1
    refute_out_has $'\033'
    assert_out_has '\x1b[2J'
    t hk-diff -b a.hk b.hk
    refute_out_has $'\033'
    make_hk a.hk '[{"hex":"ff"},"string",{"hex":"fe"}]' ''
    differ a.hk b.hk
    assert_json '[len(x) for x in v["metadata"]["removed"][0].values()]' '[1,6,1]'
}

@test "links neither engine nor kernels" {
    [[ -z ${SAN:-} ]] || skip 'SKIPPED: sanitizers add libraries'
    t ldd "$BIN/hk-diff"
    refute_out_has pcre
    t nm "$BIN/hk-diff"
    refute_out_has hkk_
}
