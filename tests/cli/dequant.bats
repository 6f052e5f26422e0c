# hk-dequant
load common.bash

py() { /usr/bin/python3 -c "import numpy as np, json, sys; $1"; }
need_numpy() {
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || skip 'SKIPPED: no numpy here'
}

shapes='{"tensors":[
    {"name":"s","type":"f32","shape":[],"data":{"f32":[1.5]}},
    {"name":"v","type":"f32","shape":[3],"data":{"f32":[1,2,3]}},
    {"name":"m","type":"f32","shape":[3,2],"data":{"f32":[0,1,2,3,4,5]}},
    {"name":"c","type":"f32","shape":[2,2,2],"data":{"f32":[0,1,2,3,4,5,6,7]}},
    {"name":"n","type":"f32","shape":[5],"data":{"hex":"0000c07f0000807f000080ff0000008001000000"}},
    {"name":"z","type":"null_ref","shape":[2,2]},
    {"name":"e","type":"f32","shape":[2,0],"data":{"zero":0}}]}'

@test "raw: little-endian f32 on standard output or in a file" {
    mkhk x.hk
    hk-dequant x.hk a.weight >raw
    [[ $(hex raw) == 000000000000803f000000c000006040cdcccc3d6042a20dcaf2497100000080 ]]
    t hk-dequant -o out x.hk a.weight
    assert_status 0
    assert_out ''
    assert_err ''
    assert_same raw out
    t_sh 'cat x.hk | hk-dequant - a.weight | cmp - raw'
    assert_status 0
    assert_files out raw x.hk
}

@test "text: a row on each line" {
    mkhk x.hk "$shapes"
    t hk-dequant --text x.hk m
    assert_out $'0.0 1.0\n2.0 3.0\n4.0 5.0'
    t hk-dequant --text x.hk n
    assert_out 'nan inf -inf -0.0 1e-45'
    t hk-dequant --text x.hk s
    assert_out 1.5
    t hk-dequant --text x.hk c
    assert_out $'0.0 1.0\n2.0 3.0\n4.0 5.0\n6.0 7.0'
}

@test "json: name, type, shape and flat data" {
    mkhk x.hk "$shapes"
    t hk-dequant --json x.hk c
    assert_json v '{"name":"c","type":"f32","shape":[2,2,2],"data":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]}'
    [[ ${#lines[@]} -eq 1 ]]
    t hk-dequant --json x.hk n
    assert_json 'v["data"]' '[null,null,null,-0.0,1e-45]'
    t hk-dequant --json x.hk s
    assert_json '[v["shape"],v["data"]]' '[[],[1.5]]'
    t hk-dequant --json x.hk e
    assert_json '[v["shape"],v["data"]]' '[[2,0],[]]'
    t hk-dequant --json --rows 1:3 x.hk c
    assert_json '[v["shape"],v["data"]]' '[[2,2],[2.0,3.0,4.0,5.0]]'
    mkhk hostile.hk '{"tensors":[{"name":"a\"\n\u001b","type":"f32","shape":[1],"data":{"zero":4}}]}'
    t hk-dequant --json hostile.hk $'a"\n\e'
    assert_json 'v["name"].encode().hex()' 61220a1b
}

@test "json on a terminal is indented, raw data is not written there" {
    need script
    mkhk x.hk "$shapes"
    script -qec 'hk-dequant --json x.hk m' /dev/null </dev/null | tr -d '\r' >tty.json
    [[ $(json tty.json 'v["data"]') == '[0.0,1.0,2.0,3.0,4.0,5.0]' ]]
    grep -qx '    2.0, 3.0,' tty.json
    for form in '' --npy; do
        t script -qec "hk-dequant $form x.hk m" /dev/null
        assert_status 2
        assert_out_has 'binary data is not written to a terminal'
    done
}

@test "npy: numpy loads it in the right shape" {
    need_numpy
    mkhk x.hk "$shapes"
    for n in s v m c e z; do hk-dequant --npy -o $n.npy x.hk $n; done
    [[ $(py '
for n in "svmcez":
    a = np.load(n + ".npy"); assert a.dtype == np.dtype("<f4") and a.flags.c_contiguous
    print(n, a.shape, a.ravel().tolist())') == "s () [1.5]
v (3,) [1.0, 2.0, 3.0]
m (3, 2) [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
c (2, 2, 2) [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
e (2, 0) []
z (2, 2) [0.0, 0.0, 0.0, 0.0]" ]]
    [[ $(head -c 8 m.npy | hex) == 934e554d50590100 ]]
    # The data begins at a multiple of 64.
    [[ $((($(stat -c %s m.npy) - 24) % 64)) -eq 0 ]]
    hk-dequant --npy --rows 1: x.hk m | py '
import io; a = np.load(io.BytesIO(sys.stdin.buffer.read())); assert a.tolist() == [[2, 3], [4, 5]]'
}

@test "rows: half-open, either end may be missing" {
    mkhk x.hk "$shapes"
    for case in 0:3='0.0 1.0|2.0 3.0|4.0 5.0' 1:2='2.0 3.0' :1='0.0 1.0' 2:='4.0 5.0' 2:2= 3:= \
        :='0.0 1.0|2.0 3.0|4.0 5.0'; do
        t hk-dequant --text --rows "${case%%=*}" x.hk m
        assert_status 0
        assert_out "$(tr '|' '\n' <<<"${case#*=}")"
    done
    t hk-dequant --text --rows 0:1 x.hk v
    assert_out '1.0 2.0 3.0'
    t hk-dequant --rows 2:4 x.hk m
    assert_fails 1 'x.hk: tensor m has 3 rows: 2:4 is out of range'
    t hk-dequant --rows 4: x.hk m
    assert_fails 1 'rows: 4:3 is out of range'
    for bad in 1 a:b 1:x 2:1 -1:2 1:2:3 0x1:2 ' 1:2' 18446744073709551616:; do
        t hk-dequant --rows "$bad" missing.hk m
        assert_fails 2 'hk-dequant: --rows: '
    done
}

@test "rows of every chunk boundary are the rows of the whole" {
    need_numpy
    py 'np.arange(1000 * 701, dtype="<f4").tofile("data")'
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[1000,701],"data":{"file":"data"}}]}'
    hk-dequant x.hk t | cmp - data
    for rows in 0:1000 373:375 1:999 999:1000; do
        a=${rows%:*} b=${rows#*:}
        hk-dequant --rows $rows x.hk t | cmp - <(tail -c +$((a * 2804 + 1)) data | head -c $(((b - a) * 2804)))
    done
    hk-dequant --json x.hk t >t.json
    [[ $(json t.json 'v["data"] == list(range(701000))') == True ]]
    hk-dequant --text x.hk t >t.txt
    py 'assert (np.loadtxt("t.txt", dtype="f4").ravel() == np.fromfile("data", "<f4")).all()'
}

@test "decimals read back as the same floats, and are the shortest" {
    need_numpy
    py 'r = np.random.default_rng(5); b = r.integers(0, 2**32, 20000, dtype=np.uint32).view("<f4"); b[~np.isfinite(b)] = 0.1; b[:6] = [1e-45, 1.17549435e-38, 3.4028235e38, 16777216, 0.3, 1e10]; b.tofile("data")'
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[20000],"data":{"file":"data"}}]}'
    hk-dequant --json x.hk t >t.json
    py '
data = np.fromfile("data", "<f4"); raw = open("t.json").read(); text = raw[raw.index("data\":[") + 7:raw.index("]}")].split(",")
assert (np.array(text).astype("f4").view("u4") == data.view("u4")).all()
for s, f in zip(text, data):
    digits = lambda t: len(t.lower().split("e")[0].replace("-", "").replace(".", "").strip("0"))
    assert digits(s) <= digits(np.format_float_scientific(f, unique=True)), (s, f)'
}

@test "all: every tensor to a file, in every form" {
    mkhk x.hk "$shapes"
    t hk-dequant --all d x.hk
    assert_status 0
    assert_out ''
    [[ $(ls d | tr '\n' ' ') == 'c.f32 e.f32 m.f32 n.f32 s.f32 v.f32 z.f32 ' ]]
    hk-dequant x.hk m | cmp - d/m.f32
    t hk-dequant --all d --text x.hk
    [[ $(cat d/v.txt) == '1.0 2.0 3.0' ]]
    t hk-dequant --all d x.hk
    assert_status 2
    assert_err_has 'hk-dequant: d/'
    t hk-dequant -f --all d x.hk
    assert_status 0
    : >file
    t hk-dequant --all file x.hk
    assert_status 2
}

@test "all: names cannot leave the directory nor meet" {
    mkhk x.hk '{"tensors":[
        {"name":"../up","type":"f32","shape":[1],"data":{"f32":[1]}},
        {"name":"/abs/x","type":"f32","shape":[1],"data":{"f32":[2]}},
        {"name":"..","type":"f32","shape":[1],"data":{"f32":[3]}},
        {"name":"a/b","type":"f32","shape":[1],"data":{"f32":[4]}},
        {"name":"a%2Fb","type":"f32","shape":[1],"data":{"f32":[5]}},
        {"name":{"hex":"ff0a"},"type":"f32","shape":[1],"data":{"f32":[6]}},
        {"name":"-f","type":"f32","shape":[1],"data":{"f32":[7]}},
        {"name":"n\u0000ul","type":"f32","shape":[1],"data":{"f32":[8]}},
        {"name":{"repeat":["/",120]},"type":"f32","shape":[1],"data":{"f32":[9]}},
        {"name":{"cat":[{"repeat":["/",120]},"x"]},"type":"f32","shape":[1],"data":{"f32":[10]}}]}'
    t hk-dequant --all d --text x.hk
    assert_status 0
    assert_files d x.hk
    [[ $(find d -type f | wc -l) -eq 10 && $(find d -type d | wc -l) -eq 1 ]]
    [[ $(cat d/%2E.%2Fup.txt d/%2Fabs%2Fx.txt d/%2E..txt d/a%2Fb.txt d/a%252Fb.txt d/%FF%0A.txt d/-f.txt d/n%00ul.txt | tr '\n' ' ') == '1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 ' ]]
    [[ $(cat d/*~8.txt d/*~9.txt | tr '\n' ' ') == '9.0 10.0 ' ]]
}

@test "a type without a layout is refused by name; --all goes on with the others" {
    mkhk x.hk '{"tensors":[{"name":"odd","type":"dq6","shape":[4],"data":{"zero":4}},
        {"name":"good","type":"f32","shape":[1],"data":{"f32":[1]}}]}'
    t hk-dequant x.hk odd
    assert_fails 1 odd
    assert_err_has dq6
    t hk-dequant -o out x.hk odd
    assert_fails 1 dq6
    t hk-dequant --all d x.hk
    assert_fails 1 dq6
    [[ $(ls d) == good.f32 ]]
    assert_files d x.hk
}

@test "a tensor that is not there is named" {
    mkhk x.hk
    t hk-dequant x.hk no.such
    assert_fails 1 'hk-dequant: x.hk: no tensor no.such'
    t hk-dequant -o out x.hk no.such
    assert_files x.hk
}

@test "an output is not replaced without -f, and never the input" {
    mkhk x.hk
    echo old >out
    t hk-dequant -o out x.hk a.bias
    assert_fails 2 'hk-dequant: out: '
    [[ $(cat out) == old ]]
    t hk-dequant -f -o out x.hk a.bias
    assert_status 0
    [[ $(stat -c %s out) -eq 16 ]]
    cp x.hk copy
    ln x.hk hard
    ln -s x.hk soft
    for o in x.hk ./x.hk hard soft; do
        t hk-dequant -f -o $o x.hk a.bias
        assert_fails 2 'the output is the input file'
    done
    assert_same x.hk copy
    assert_files copy hard out soft x.hk
}

@test "no file of a model directory is written over" {
    hk-convert --to hf "$FIX/models/stories260K-f16.gguf" hf
    cp -r hf before
    local o
    ln -s hf/tokenizer.json link
    for o in hf/config.json hf/tokenizer.json hf/model.safetensors ./hf/../hf/config.json link; do
        t hk-dequant -f -o $o hf output_norm.weight
        assert_fails 2 'the output is the input'
    done
    (cd hf && ! hk-dequant -f -o config.json . output_norm.weight 2>/dev/null) || fail 'written from inside'
    diff -r hf before >&2
    t hk-dequant -o hf/norm.f32 hf output_norm.weight
    assert_status 0
}

@test "failing leaves nothing behind" {
    mkhk x.hk
    t hk-dequant -o nowhere/out x.hk a.bias
    assert_fails 2 'hk-dequant: nowhere/out: '
    t hk-dequant --all no/where x.hk
    assert_fails 2 'hk-dequant: no/where: cannot create: '
    t hk-dequant -o /dev/full x.hk a.bias
    assert_fails 2 'hk-dequant: /dev/full: '
    for form in '' --npy --json --text; do
        t_sh "hk-dequant $form x.hk a.bias >/dev/full"
        assert_fails 2 'hk-dequant: standard output: '
    done
    assert_files x.hk
}

@test "a signal removes the unfinished file" {
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[50000000],"data":{"zero":200000000}}]}'
    for sig in TERM INT HUP; do
        # Job control gives the child its own signals: in a background list INT would be ignored.
        /usr/bin/python3 - $sig <<'PY'
import os, signal, subprocess, sys, time
sig = getattr(signal, "SIG" + sys.argv[1])
p = subprocess.Popen(["hk-dequant", "--text", "-o", "out", "x.hk", "t"])
time.sleep(0.3)
p.send_signal(sig)
sys.exit(p.wait() != -sig)
PY
        assert_files x.hk
    done
}

@test "long work shows a bar on a terminal, short work none" {
    need script
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[20000000],"data":{"zero":80000000}},
        {"name":"s","type":"f32","shape":[1],"data":{"zero":4}}]}'
    script -qec 'hk-dequant --text -o out x.hk t' /dev/null </dev/null >shown
    grep -qE 'decoding \[#* *\] +[0-9]+%' shown
    [[ $(tail -c 4 shown | hex) == 0d1b5b4b ]]
    script -qec 'hk-dequant -f -o out x.hk s' /dev/null </dev/null >shown
    [[ ! -s shown ]]
    hk-dequant -f --text -o out x.hk t 2>shown
    [[ ! -s shown ]]
}

@test "a reader that leaves is no error" {
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[1000000],"data":{"zero":4000000}}]}'
    for form in '' --npy --json --text; do
        t bash -c "hk-dequant $form x.hk t | head -c 100 >/dev/null; echo \${PIPESTATUS[0]}"
        assert_out 0
        assert_err ''
    done
}

@test "usage is checked before any file is opened" {
    for args in '' missing 'missing a b' '--json --npy missing t' '--all d missing t' \
        '--all d --rows 1:2 missing' '--all d -o x missing'; do
        t hk-dequant $args
        assert_fails 2 'hk-dequant: '
        refute_err_has 'missing:'
        assert_files
    done
}

@test "what cannot be read" {
    mkdir dir
    make_unreadable secret
    for f in dir missing; do
        t timeout 5 hk-dequant $f t
        assert_fails 2 "hk-dequant: $f: "
    done
    t_unprivileged hk-dequant "$PWD/secret" t
    assert_fails 2 'Permission denied'
    mkhk bad.hk --set header.tensor_count=99
    t hk-dequant bad.hk t
    assert_fails 1 'hk-dequant: bad.hk: '
}

@test "a GGUF and its .hk decode to the same values" {
    make_models
    hk-dequant --all a model.gguf
    hk-dequant --all b model.hk
    [[ $(ls a | wc -l) -eq 47 ]]
    diff -r a b
    hk-dequant model.gguf output_norm.weight | cmp - a/output_norm.weight.f32
}

@test "every type of the golden vectors that a file can hold decodes bit for bit" {
    need_shared
    need_numpy
    /usr/bin/python3 - "$SHARED/fixtures/quant" <<'PY'
import json, sys
q = sys.argv[1]
types = json.load(open(q + "/index.json"))["types"]
d, stored = {"tensors": []}, []
for name, t in types.items():
    if name in ("q1_0", "q2_0"):
        continue  # types of GGUF only
    n = t["n_blocks"] * t["block_elements"]
    d["tensors"].append({"name": name, "type": name.replace("e4m3fn", "e4m3"), "shape": [n],
                         "data": {"file": q + "/" + t["blocks"]["file"]}})
    stored.append((name, q + "/" + t["f32"]["file"]))
json.dump(d, open("d.json", "w"))
assert len(stored) > 20
open("names", "w").write("".join("%s %s\n" % s for s in stored))
PY
    mkhk x.hk @d.json
    hk-dequant --all got x.hk
    py '
for line in open("names"):
    name, expected = line.rstrip("\n").split(" ", 1)
    a, b = np.fromfile("got/%s.f32" % name, "<u4"), np.fromfile(expected, "<u4")
    nan = lambda x: (x & 0x7fffffff) > 0x7f800000
    assert a.size == b.size and ((a == b) | (nan(a) & nan(b))).all(), name'
}

@test "the types that only GGUF has decode from the GGUF bit for bit" {
    need_shared
    /usr/bin/python3 - "$SHARED/fixtures/quant" <<'PY'
import json, struct, sys
q = sys.argv[1]
types = json.load(open(q + "/index.json"))["types"]
names = ["q1_0", "q2_0"]
infos, data, wanted = b"", b"", b""
for name in names:
    t = types[name]
    n = t["n_blocks"] * t["block_elements"]
    infos += struct.pack("<Q4sIQIQ", 4, name.encode(), 1, n, t["gguf_type"], len(data))
    data += open(q + "/" + t["blocks"]["file"], "rb").read()
    data += bytes(-len(data) % 32)
    open(name + ".f32", "wb").write(open(q + "/" + t["f32"]["file"], "rb").read())
head = struct.pack("<4sIQQ", b"GGUF", 3, len(names), 0) + infos
open("x.gguf", "wb").write(head + bytes(-len(head) % 32) + data)
PY
    for name in q1_0 q2_0; do
        hk-dequant x.gguf $name | cmp - $name.f32
    done
}
