# Models in several files: written by hk-convert, opened by any of them, an index or a directory.
load common.bash

GGUF=$FIX/models/stories260K-f16.gguf
setup() {
    common_setup
    cp "$GGUF" model.gguf
}
dump() { "$PYTHON" "$ROOT/tests/lib/ggufdump.py" "$@"; }

# split FORMAT [SIZE]: set/s-* with its index, and whole.FORMAT.
split() {
    mkdir -p set
    hk-convert -f model.gguf "whole.$1"
    hk-convert --split-size "${2:-100k}" model.gguf "set/s.$1"
}
# Every way into the set gives FORMAT's whole, byte for byte.
comes_back() {
    local way count=0
    for way in set set/ set/s*; do
        hk-convert -f "$way" "back.$1"
        assert_same "back.$1" "whole.$1"
        count=$((count + 1))
    done
    [[ $count -ge 8 ]] || fail "only $count ways"
}

@test ".hk: every shard, the index and the directory lead to the whole" {
    split hk
    comes_back hk
    hk-convert set whole.gguf
    assert_same whole.gguf model.gguf
    t_sh 'cat set/s-00002-of-00006.hk | hk-convert - x.hk'
    assert_fails 1 'one of 6 shards'
}

@test "GGUF: every shard and the directory lead to the whole" {
    split gguf
    comes_back gguf
    hk-convert set back.hk
    hk-convert model.gguf whole.hk
    assert_same back.hk whole.hk
    t hk-inspect --metadata set
    assert_status 0
    t_sh 'cat set/s-00002-of-00006.gguf | hk-convert - x.hk'
    assert_fails 1 'one of 6 shards'
}

@test "safetensors: every shard, the index and the directory lead to the whole" {
    split safetensors
    comes_back safetensors
    hk-convert whole.safetensors whole.hk
    "$PYTHON" - >got <<'PY'
import json, struct
for i in 1, 2:
    with open("set/s-%05d-of-00006.safetensors" % i, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        print(len(json.loads(f.read(n)).get("__metadata__", {})) > 10)
PY
    [[ $(<got) == True$'\n'False ]] || fail 'metadata in the first shard only'
    rm set/s.safetensors.index.json
    hk-convert set/s-00004-of-00006.safetensors back.hk
    assert_same back.hk whole.hk
    hk-convert set again.hk
    assert_same again.hk whole.hk
}

@test "a shard holds as much as fits, at least one tensor, and is a file of its own" {
    split hk
    local file
    t hk-inspect --tensors set
    assert_json '[v["format"],v["parts"],v["files"][0],v["files"][5]]' \
        '["hk",6,"s-00001-of-00006.hk","s-00006-of-00006.hk"]'
    assert_json '[sum(t["size"] for t in v["tensors"] if t["part"]==p) <= 102400 for p in range(6)]' \
        '[true,true,true,true,true,true]'
    assert_json 'all(sum(t["size"] for t in v["tensors"] if t["part"]==p) +
        next(t["size"] for t in v["tensors"] if t["part"]==p+1) > 102400 for p in range(5))' True
    for file in set/s-*; do hk-verify --strict --payload "$file" >/dev/null; done
    t hk-inspect --header set/s-00003-of-00006.hk
    assert_status 0
    [[ $(head -c 16 set/s-00003-of-00006.hk | tail -c 2 | hex) == 0200 ]]
    [[ $(head -c 90 set/s-00003-of-00006.hk | tail -c 2 | hex) == 0600 ]]
    rm -r set
    split hk 1
    t hk-inspect --tensors set
    assert_json '[len(v["tensors"]),v["parts"],[t["part"] for t in v["tensors"]]==list(range(v["parts"]))]' \
        '[47,47,true]'
}

@test "the index of a set" {
    split hk
    json set/s.hk.index.json '[v["metadata"],len(v["weight_map"])]' >got
    [[ $(<got) == '[{"total_size":521472,"total_tensors":47,"split_count":6,"format":"hk","version":"1.0.0"},47]' ]] ||
        fail "$(<got)"
    split safetensors
    json set/s.safetensors.index.json '[v["metadata"],v["weight_map"]["output_norm.weight"]]' >got
    [[ $(<got) == '[{"total_size":521472},"s-00001-of-00006.safetensors"]' ]] || fail "$(<got)"
    split gguf
    [[ ! -e set/s.gguf.index.json ]]
}

@test "what fits into one shard is one file, without a number" {
    local format
    for format in hk gguf safetensors; do
        hk-convert model.gguf whole.$format
        hk-convert --split-size 1M model.gguf one.$format
        assert_same whole.$format one.$format
    done
    assert_files model.gguf whole.{hk,gguf,safetensors} one.{hk,gguf,safetensors}
}

@test "names: the extension of the format is given once" {
    hk-convert --split-size 300k --to hk model.gguf a.bin
    hk-convert --split-size 300k --to gguf model.gguf sub.hk
    hk-convert --split-size 300k model.gguf ./b.hk
    assert_files model.gguf a.bin-0000{1,2}-of-00002.hk a.bin.hk.index.json \
        sub.hk-0000{1,2}-of-00002.gguf b-0000{1,2}-of-00002.hk b.hk.index.json
    mkdir d
    local name
    for name in '' d/; do
        t hk-convert --to hk --split-size 300k model.gguf "$name"
        assert_fails 2 'cannot create files without a name'
    done
}

@test "shards of GGUF have the keys that llama.cpp wants, in its types" {
    split gguf
    dump --strict set/s-00001-of-00006.gguf >first.txt
    dump --strict set/s-00002-of-00006.gguf >second.txt
    grep -q "key b'split.no' u16 0" first.txt
    grep -q "key b'split.no' u16 1" second.txt
    grep -q "key b'split.count' u16 6" second.txt
    grep -q "key b'split.tensors.count' i32 47" second.txt
    [[ $(grep -c ^key second.txt) -eq 3 ]] || fail "$(<second.txt)"
    hk-convert --align 64 --split-size 300k model.gguf aligned.gguf
    dump --strict aligned-00002-of-00002.gguf >second.txt
    grep -q "key b'general.alignment' u32 64" second.txt
    hk-convert aligned-00002-of-00002.gguf back.gguf
    hk-convert -f --align 64 model.gguf whole.gguf
    assert_same back.gguf whole.gguf
}

@test "the peer loads a set of GGUF and gives the same logits" {
    need_shared
    [[ -n ${PEER_LIB:-} ]] || skip 'SKIPPED: PEER_LIB does not say where llama.cpp is'
    split gguf
    "$PYTHON" -c 'import struct; open("ids","wb").write(struct.pack("<6I",1,403,407,261,378,400))'
    "$PYTHON" "$SHARED/peer/peer.py" logits set/s-00001-of-00006.gguf --tokens ids --out set.f32
    "$PYTHON" "$SHARED/peer/peer.py" logits model.gguf --tokens ids --out whole.f32
    assert_same set.f32 whole.f32
}

@test "a tensor that shares another one's bytes becomes a copy in its own shard" {
    mkhk shared.hk '{"metadata":[["k","string","v"]],"tensors":[
        {"name":"a","type":"f32","shape":[4],"data":{"f32":[1,2,3,4]}},
        {"name":"b","type":"f32","shape":[2],"data":{"f32":[5,6]}},
        {"name":"c","type":"shared_ref","shape":[4],"shared":0}]}'
    hk-convert --split-size 16 shared.hk s.hk
    t hk-inspect --tensors s.hk.index.json
    assert_json '[[t["name"],t["type"],t["part"]] for t in v["tensors"]]' \
        '[["a","f32",0],["b","f32",1],["c","f32",2]]'
}

@test "a thousand shards, in little time and with few open files" {
    "$PYTHON" - <<'PY'
import struct
with open("many.gguf", "wb") as f:
    f.write(b"GGUF" + struct.pack("<IQQ", 3, 1000, 0))
    for i in range(1000):
        f.write(struct.pack("<Q4sIQIQ", 4, b"%04d" % i, 1, 8, 0, 32 * i))
    f.write(b"\0" * (-f.tell() % 32))
    for i in range(1000):
        f.write(struct.pack("<8f", *range(i, i + 8)))
PY
    local format
    for format in hk gguf safetensors; do
        t_sh 'ulimit -n 40; hk-convert --split-size 32 many.gguf s.$1' $format
        assert_status 0
        [[ $(find . -name "s-*-of-01000.$format" | wc -l) -eq 1000 ]] || fail "not 1000 of $format"
        t_sh 'ulimit -n 40; hk-convert s-00500-of-01000.$1 back.$1' $format
        assert_status 0
        hk-convert many.gguf whole.$format
        assert_same back.$format whole.$format
    done
}

@test "no more shards than can be counted" {
    "$PYTHON" - <<'PY'
import struct
with open("many.gguf", "wb") as f:
    f.write(b"GGUF" + struct.pack("<IQQ", 3, 65536, 0))
    for i in range(65536):
        f.write(struct.pack("<Q5sIQIQ", 5, b"%05d" % i, 1, 1, 24, 32 * i))
    f.write(b"\0" * (-f.tell() % 32 + 32 * 65536))
PY
    local format
    for format in hk gguf; do
        t hk-convert --split-size 1 many.gguf s.$format
        assert_fails 1 "would take 65536 shards; $format has up to 65535"
    done
    assert_files model.gguf many.gguf
}

# ---- what is in the way ----

@test "files that exist are replaced only with -f, and all or none" {
    split hk
    cp -r set before
    t hk-convert --split-size 100k model.gguf set/s.hk
    assert_fails 2 's-00001-of-00006.hk exists; use -f'
    rm set/s-0000[1-5]*
    t hk-convert --split-size 100k model.gguf set/s.hk
    assert_fails 2 's-00006-of-00006.hk exists; use -f'
    rm set/s-00006*
    t hk-convert --split-size 100k model.gguf set/s.hk
    assert_fails 2 's.hk.index.json exists; use -f'
    chmod 640 set/s.hk.index.json
    hk-convert -f --split-size 100k model.gguf set/s.hk
    diff -r set before >&2
    [[ $(stat -c %a set/s.hk.index.json) == 640 ]]
    mkdir d
    mkdir d/s-00004-of-00006.hk
    echo old >d/s-00002-of-00006.hk
    t hk-convert -f --split-size 100k model.gguf d/s.hk
    assert_fails 2 's-00004-of-00006.hk is there and no regular file'
    [[ $(find d -mindepth 1 | wc -l) -eq 2 && $(<d/s-00002-of-00006.hk) == old ]]
}

@test "a set that is replaced by one of other shards goes as a whole, and nothing else" {
    split hk
    echo mine >set/s-00001-of-00099.hk
    hk-convert -f --split-size 300k model.gguf set/s.hk
    (cd set && assert_files s-0000{1,2}-of-00002.hk s.hk.index.json s-00001-of-00099.hk)
    hk-convert set/s.hk.index.json back.hk
    assert_same back.hk whole.hk
}

@test "the input survives whatever the output is called" {
    local format name
    for format in hk safetensors gguf; do
        split $format
        cp -r set before
        for name in set/s-00002-of-00006.$format set/s.$format.index.json set; do
            [[ -e $name ]] || continue
            t hk-convert -f "$name" set/s-00003-of-00006.$format
            assert_fails 2 'the output is the input'
            t hk-convert -f --split-size 100k "$name" set/s.$format
            assert_fails 2 'the output is the input'
            [[ $format != gguf ]] || continue
            t hk-convert -f --split-size 200k "$name" set/s.$format
            assert_fails 2 'the output is the input'
            t hk-convert -f "$name" set/s.$format.index.json
            assert_fails 2 'is the name of an index'
        done
        diff -r set before >&2
        rm -r set before
    done
}

# ---- interrupted ----

# A model of 64 MiB in tensors of 1 MiB.
make_big() {
    "$PYTHON" - <<'PY'
import struct
with open("big.gguf", "wb") as f:
    f.write(b"GGUF" + struct.pack("<IQQ", 3, 64, 0))
    for i in range(64):
        f.write(struct.pack("<Q4sIQIQ", 4, b"%04d" % i, 1, 1 << 18, 0, i << 20))
    f.write(b"\0" * (-f.tell() % 32))
    for i in range(64):
        f.write(bytes([i]) * (1 << 20))
PY
}

@test "a signal in the middle leaves nothing, or what was there" {
    make_big
    mkdir out
    echo old >out/s-00001-of-00064.hk
    local signal pid i
    for signal in TERM INT HUP; do
        env --default-signal=INT hk-convert -f --split-size 1M big.gguf out/s.hk &
        pid=$!
        for ((i = 0; i < 500; i++)); do
            compgen -G 'out/.s.hk.*/s-*' >/dev/null && break
            sleep 0.01
        done
        kill -$signal $pid
        i=0
        wait $pid || i=$?
        [[ $i -eq $((128 + $(kill -l $signal))) ]] || fail "status $i after $signal"
        [[ $(find out -mindepth 1) == out/s-00001-of-00064.hk && $(<out/s-00001-of-00064.hk) == old ]] ||
            fail "$(find out)"
    done
}

@test "a full disk leaves nothing, or what was there" {
    t_sh 'ulimit -f 90; exec hk-convert --split-size 100k model.gguf s.hk'
    assert_fails 2 'hk-convert: s.hk: cannot write: File too large'
    assert_files model.gguf
    mkdir d
    unshare -rm mount -t tmpfs none d 2>/dev/null || skip 'SKIPPED: no file systems of our own here'
    t unshare -rm bash -c 'mount -t tmpfs -o size=400k none d && echo old >d/s-00002-of-00006.hk &&
        hk-convert -f --split-size 100k model.gguf d/s.hk; echo $? $(ls -A d) $(cat d/*)'
    assert_out '2 s-00002-of-00006.hk old'
    assert_err_has 'No space left'
}

# ---- what disagrees ----

@test "index and safetensors have to agree" {
    split safetensors
    cp -r set good
    local row
    # what is done to index v and map m | what is said
    while IFS='|' read -r edit text; do
        rm -r set
        cp -r good set
        "$PYTHON" - "$edit" <<'PY'
import json, sys
path = "set/s.safetensors.index.json"
v = json.load(open(path)); m = v["weight_map"]
f = lambda i: "s-%05d-of-00006.safetensors" % i
exec(sys.argv[1])
json.dump(v, open(path, "w"))
PY
        for row in set/s-00002-of-00006.safetensors set/s.safetensors.index.json; do
            t hk-inspect "$row"
            [[ $status -eq 1 || $status -eq 2 ]] || fail "expected a refusal of $edit"
            assert_err_has "$text"
        done
    done <<'ROWS'
m["new"] = f(1)|tensor new is not in s-00001-of-00006.safetensors
del m["output_norm.weight"]|tensor output_norm.weight is in s-00001-of-00006.safetensors, but not in
m["output_norm.weight"] = f(2)|tensor output_norm.weight is in s-00001-of-00006.safetensors, not in s-00002-of
m["output_norm.weight"] = "other.safetensors"|1 of 7 files are missing: other.safetensors
m["output_norm.weight"] = "../" + f(1)|is no name of a file beside the index
v["weight_map"] = []|has no object "weight_map"
import os; os.remove("set/" + f(3))|1 of 6 files are missing: s-00003-of-00006.safetensors
import os; os.remove("set/" + f(3)); os.mkfifo("set/" + f(3))|s-00003-of-00006.safetensors: not a regular file
import shutil; shutil.copy("model.gguf", "set/" + f(3))|00003-of-00006.safetensors: is gguf, and the files before
ROWS
}

@test "shards of GGUF have to agree" {
    split gguf
    cp set/s-00003-of-00006.gguf set/s-00002-of-00006.gguf
    t hk-inspect set/s-00001-of-00006.gguf
    assert_fails 1 's-00002-of-00006.gguf: says that it is shard 3 of 6'
    rm set/s-0000[25]*
    t hk-inspect set
    assert_fails 1 '2 of 6 files are missing: s-00002-of-00006.gguf, s-00005-of-00006.gguf'
    mv set/s-00001-of-00006.gguf first.gguf
    t hk-inspect first.gguf
    assert_fails 1 'its name should end in -00001-of-00006'
}

# ---- directories ----

@test "a directory of several models, or of none" {
    mkdir none
    t hk-inspect none
    assert_fails 2 'none: is a directory without a model'
    hk-convert model.gguf other.hk
    t hk-inspect .
    assert_fails 1 '2 models, name one of them: model.gguf, other.hk'
    rm other.hk
    t hk-inspect .
    assert_status 0
    assert_json '[v["file"],v["format"],v["files"]]' '[".","gguf",["model.gguf"]]'
    split gguf
    split hk
    t hk-inspect set
    assert_fails 1 '2 models, name one of them: s-00001-of-00006.gguf, s.hk.index.json'
}

@test "a model directory in three shards" {
    need_shared
    local hf=$SHARED/fixtures/models/stories260K-hf-bf16-sharded
    t hk-inspect "$hf"
    assert_status 0
    assert_json '[v["format"],len(v["files"]),v["files"][2],len(v["tensors"])]' \
        '["hf",3,"model-00003-of-00003.safetensors",47]'
    t hk-convert "$hf/model-00002-of-00003.safetensors" tensors.hk
    assert_status 0
    assert_err_has 'the model is its directory'
    t hk-inspect --tensors tensors.hk
    assert_json 'len(v["tensors"])' 47
    hk-convert "$hf" a.hk
    hk-convert --split-size 100k "$hf" b.hk
    hk-convert b.hk.index.json c.hk
    assert_same a.hk c.hk
    hk-convert --split-size 100k a.hk out/
    [[ -e out/model-00006-of-00006.safetensors && -e out/config.json && ! -e out/model.safetensors ]]
    hk-convert out d.hk
    assert_same a.hk d.hk
}

# ---- what counts: the index, and the first file ----

@test "an index decides which files are the set, whatever they are called" {
    local way dir=$FIX/cases/c023-zero-based
    cp -r "$dir" zero
    for way in zero zero/model.safetensors.index.json zero/model-0000{0,1}-of-00002.safetensors; do
        t hk-inspect --tensors "$way"
        assert_status 0
        assert_json '[v["files"],len(v["tensors"])]' \
            '[["model-00000-of-00002.safetensors","model-00001-of-00002.safetensors"],11]'
    done
    split hk
    local i
    for i in 1 2 3 4 5 6; do
        mv set/s-0000$i-of-00006.hk "set/part $((7 - i)).bin"
        sed -i "s/s-0000$i-of-00006.hk/part $((7 - i)).bin/" set/s.hk.index.json
    done
    for way in set set/s.hk.index.json set/part*; do
        hk-convert -f "$way" back.hk
        assert_same back.hk whole.hk
    done
}

@test "metadata stands in the first shard, and only there" {
    local format i
    for format in hk safetensors gguf; do
        rm -rf set
        split $format
        for i in 2 6; do
            cp set/s-0000$i-of-00006.$format alone.bin
            [[ $format != hk ]] || printf '\1\0' | dd of=alone.bin bs=1 seek=88 conv=notrunc status=none
            [[ $format != hk ]] || printf '\0\0' | dd of=alone.bin bs=1 seek=14 conv=notrunc status=none
            [[ $format != gguf ]] || continue
            t hk-inspect --metadata alone.bin
            assert_status 0
            assert_json 'sorted(v["metadata"])' "[]"
        done
    done
}
