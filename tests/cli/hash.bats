# hk-hash: digests as sha256sum prints them, of any format, and lists of them checked.
load common.bash

# Base digest and tensors' digests of FILE, computed from the bytes by another program.
expected() {
    "$PYTHON" - "$1" <(hk-inspect "$1") <<'PY'
import hashlib, json, struct, sys
raw, v = open(sys.argv[1], "rb").read(), json.load(open(sys.argv[2]))
LAYOUT = "row_major col_major tile_16x16 tile_16x8 tile_32x16 block_sparse_2_4 tile_32x32 tile_64x64".split()
SPARSITY = "none bitmask csr structured_2_4 physical_pruned bsr".split()
TYPE = {"f32": 0, "f16": 1, "bf16": 2, "dq4": 0x10, "q4_0": 0x15, "q8_0": 0x16, "null_ref": 0x30, "shared_ref": 0x31}
sha = lambda b: hashlib.sha256(b).digest()
field = lambda b: struct.pack("<Q", len(b)) + b
base, by_shape = b"", {}
for t in v["tensors"]:
    own = by_shape.get(tuple(t["shape"]), t) if t["type"] == "shared_ref" else t
    by_shape.setdefault(tuple(t["shape"]), t)
    sections = [raw[own[p + "offset"]:own[p + "offset"] + own[p + "size"]] for p in ("", "scale_", "residual_")]
    digests = [sha(s) for s in sections]
    whole = digests[0] if not sections[1] and not sections[2] else sha(b"".join(digests))
    print(whole.hex(), t["name"])
    for b in (t["name"].encode(), struct.pack("<H", TYPE[t["type"]]), bytes([LAYOUT.index(t["layout"])]),
              bytes([SPARSITY.index(t["sparsity"])]), b"".join(struct.pack("<Q", d) for d in t["shape"]),
              struct.pack("<H", t["block_size"] or 32), *digests):
        base += field(b)
print(sha(base).hex(), "base")
PY
}

# A model of tensors with every kind of section, 128 bytes aligned.
mixed='{"metadata":[["k","string","v"]],"tensors":[
    {"name":"a","type":"f32","shape":[2,2],"data":{"f32":[1,2,3,4]}},
    {"name":"dq","type":"dq4","shape":[64],"block_size":32,"data":{"repeat":["x",32]},
     "scales":{"f32":[1,2]},"residual":{"zero":256}},
    {"name":"empty","type":"f32","shape":[0],"data":""},
    {"name":"null","type":"null_ref","shape":[7]},
    {"name":"again","type":"shared_ref","shape":[2,2],"shared":0}]}'

@test "tensors, base and file are what another program computes" {
    mkhk x.hk "$mixed"
    t hk-hash x.hk
    assert_status 0
    assert_err ''
    expected x.hk >want
    [[ ${output%%$'\n'*} == "$(sha256sum x.hk)" ]]
    [[ $(sed -n 's/^\([0-9a-f]*\)  x.hk:tensor:/\1 /p' <<<"$output") == "$(grep -v ' base$' want)" ]]
    assert_out_has "$(sed -n 's/ base$//p' want)  x.hk:base"
    [[ $(wc -l <<<"$output") -eq 7 ]]
}

@test "a tensor's digest is that of its bytes in any format" {
    make_models
    for f in model.gguf model.hk; do
        read -r offset size < <(hk-inspect "$f" | jq -r '.tensors[3] | "\(.offset) \(.size)"')
        want=$(tail -c +$((offset + 1)) "$f" | head -c "$size" | sha256sum | cut -d ' ' -f 1)
        t hk-hash --tensors "$f"
        assert_status 0
        assert_out_has "$want  $f:tensor:blk.0.attn_q.weight"
        [[ $(wc -l <<<"$output") -eq 47 ]]
    done
}

@test "the base of a GGUF is that of its .hk, whatever the alignment and metadata" {
    make_models
    hk-convert --align 4096 model.hk aligned.hk
    hk-convert model.hk back.gguf
    t hk-hash --base model.gguf model.hk aligned.hk back.gguf
    assert_status 0
    [[ $(cut -d ' ' -f 1 <<<"$output" | sort -u | wc -l) -eq 1 ]]
    mkhk other.hk "${mixed/\"v\"/\"another value\"}"
    mkhk x.hk "$mixed"
    [[ $(hk-hash --base x.hk | cut -c -64) == "$(hk-hash --base other.hk | cut -c -64)" ]]
    refute cmp -s x.hk other.hk
}

@test "every storage type of a GGUF has the same base as .hk" {
    "$PYTHON" "$ROOT/tests/lib/mktypes.py" .
    n=0
    for f in *.gguf; do
        hk-convert "$f" x.hk 2>/dev/null || continue
        [[ $(hk-hash --base "$f" | cut -c -64) == "$(hk-hash --base x.hk | cut -c -64)" ]]
        rm x.hk
        n=$((n + 1))
    done
    [[ $n -ge 20 ]]
}

@test "what an old writer left out of the table does not change the base when it is written anew" {
    mkhk x.hk '{"tensors":[{"name":"a","type":"f32","shape":[2,2],"data":{"f32":[1,2,3,4]},"block_size":0},
        {"name":"r","type":"shared_ref","shape":[2,2],"data_offset":0,"data_size":0}]}'
    hk-convert --align 64 x.hk y.hk
    t hk-hash --base x.hk y.hk
    [[ $(cut -c -64 <<<"$output" | sort -u | wc -l) -eq 1 ]]
    [[ ${output:0:64} == "$(expected x.hk | sed -n 's/ base$//p')" ]]
}

@test "any change of a tensor changes the base" {
    mkhk x.hk "$mixed"
    base=$(hk-hash --base x.hk | cut -c -64)
    for change in 's/"name":"a"/"name":"b"/' 's/"shape":\[7\]/"shape":[8]/' 's/\[1,2,3,4\]/[1,2,3,5]/' \
        's/{"zero":256}/{"repeat":["y",256]}/' 's/"scales":{"f32":\[1,2\]}/"scales":{"f32":[1,3]}/' \
        's/"name":"empty","type":"f32"/"name":"empty","type":"f16"/'; do
        mkhk y.hk "$(sed "$change" <<<"$mixed")"
        [[ $(hk-hash --base y.hk | cut -c -64) != "$base" ]] || fail "$change"
    done
}

@test "threads change nothing" {
    make_models
    hk-hash --threads 1 model.hk >one
    for n in 2 3 8; do
        hk-hash --threads $n model.hk | cmp - one
    done
    HK_THREADS=4 hk-hash model.hk | cmp - one
    HK_THREADS=0 t hk-hash model.hk
    assert_fails 2 HK_THREADS
    t hk-hash --threads 0 model.hk
    assert_fails 2 --threads
}

@test "JSON" {
    mkhk x.hk "$mixed"
    t hk-hash --json x.hk
    assert_status 0
    assert_json 'list(v)' '["file","sha256","base","tensors"]'
    assert_json '[v["file"],v["sha256"]]' "[\"x.hk\",\"$(sha256sum x.hk | cut -c -64)\"]"
    assert_json '[[t["name"],t["type"],t["size"]] for t in v["tensors"]]' \
        '[["a","f32",16],["dq","dq4",296],["empty","f32",0],["null","null_ref",0],["again","shared_ref",16]]'
    [[ $(jq -r '(.tensors[] | "\(.sha256) \(.name)"), "\(.base) base"' <<<"$output") == "$(expected x.hk)" ]]
    t hk-hash --json --base x.hk
    assert_json 'list(v)' '["file","base"]'
    t hk-hash --json --file --tensors x.hk
    assert_json 'list(v)' '["file","sha256","tensors"]'
}

@test "a set has a digest for each file, and the base of the whole" {
    mkhk m-00001-of-00002.hk '{"header":{"split_count":2},"metadata":[["a","string","b"]],
        "tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}}]}'
    mkhk m-00002-of-00002.hk '{"header":{"split_count":2,"split_index":1},"metadata":[["a","string","b"]],
        "tensors":[{"name":"b","type":"f32","shape":[2],"data":{"f32":[3,4]}}]}'
    mkhk whole.hk '{"tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}},
        {"name":"b","type":"f32","shape":[2],"data":{"f32":[3,4]}}]}'
    mkdir d && mv m-* d
    t hk-hash --file d/m-00002-of-00002.hk
    assert_status 0
    assert_out "$(sha256sum d/*)"
    t hk-hash --file d
    assert_out "$(sha256sum d/*)"
    t hk-hash --json d
    assert_json '[v["sha256"],[p["file"] for p in v["parts"]],[t["name"] for t in v["tensors"]]]' \
        '[null,["d/m-00001-of-00002.hk","d/m-00002-of-00002.hk"],["a","b"]]'
    [[ $(hk-hash --base d | cut -c -64) == "$(hk-hash --base whole.hk | cut -c -64)" ]]
    hk-hash d >list
    t hk-hash --check list
    assert_status 0
    [[ $(wc -l <<<"$output") -eq 5 ]]
}

@test "a model directory, a safetensors file and shards have the base of their .hk" {
    need_shared
    local m=$SHARED/fixtures/models
    for source in stories260K-hf stories260K-hf-bf16-sharded stories260K-hf/model.safetensors; do
        hk-convert -f "$m/$source" x.hk 2>/dev/null
        [[ $(hk-hash --base "$m/$source" | cut -c -64) == "$(hk-hash --base x.hk | cut -c -64)" ]] || fail "$source"
    done
    hk-convert -f "$m/stories260K-hf" x.hk
    hk-convert --split-size 300k x.hk s.hk
    t hk-hash --base x.hk s-*.hk s.hk.index.json
    assert_status 0
    [[ $(wc -l <<<"$output") -gt 3 && $(cut -c -64 <<<"$output" | sort -u | wc -l) -eq 1 ]]
    t hk-hash --file s-00001-of-*.hk
    assert_out "$(sha256sum s-*.hk)"
}

@test "sha256sum checks what hk-hash prints, and hk-hash what sha256sum prints" {
    make_models
    hk-hash --file model.hk model.gguf >list
    sha256sum --status -c list
    sha256sum model.hk model.gguf "$ROOT/README.md" >list
    t hk-hash --check list
    assert_status 0
    assert_err ''
    assert_out "model.hk: OK
model.gguf: OK
$ROOT/README.md: OK"
    sed 's/  / */; s/^./\U&/' list | hk-hash --check - --status
}

@test "names with newlines and backslashes are written as sha256sum writes them" {
    name=$'a\nb\\c\rd.hk'
    mkhk "$name" '{"tensors":[{"name":"x\ny\\z","type":"f32","shape":[1],"data":{"f32":[1]}}]}'
    t hk-hash --file "$name"
    [[ $output == "$(sha256sum "$name")" ]]
    hk-hash "$name" >list
    [[ $(wc -l <list) -eq 3 && $(grep -c '^\\' list) -eq 3 ]]
    grep -q ':tensor:x\\ny\\\\z$' list
    t hk-hash --check list
    assert_status 0
    [[ $(grep -c ': OK$' <<<"$output") -eq 3 ]]
}

@test "a name that can be read in two ways is the one whose file exists" {
    mkhk x.hk
    cp x.hk 'x.hk:base'
    sha256sum 'x.hk:base' >list
    t hk-hash --check list
    assert_status 0
    rm 'x.hk:base'
    t hk-hash --check list
    assert_status 1
    assert_out 'x.hk:base: FAILED'
    mkhk 'p:tensor:q' '{"tensors":[{"name":":tensor:r","type":"f32","shape":[1],"data":{"f32":[1]}}]}'
    hk-hash --tensors 'p:tensor:q' >list
    t hk-hash --check list
    assert_out 'p:tensor:q:tensor::tensor:r: OK'
}

@test "says what fails, with the status of the worst" {
    mkhk x.hk "$mixed"
    hk-hash x.hk >list
    mkhk x.hk "${mixed/\[1,2,3,4\]/[1,2,3,9]}"
    t hk-hash --check list
    assert_status 1
    assert_out 'x.hk: FAILED
x.hk:base: FAILED
x.hk:tensor:a: FAILED
x.hk:tensor:dq: OK
x.hk:tensor:empty: OK
x.hk:tensor:null: OK
x.hk:tensor:again: FAILED'
    assert_err 'hk-hash: list: 4 of 7 do not match'
    t hk-hash --quiet --check list
    assert_status 1
    [[ $(wc -l <<<"$output") -eq 4 ]]
    assert_err 'hk-hash: list: 4 of 7 do not match'
    t hk-hash --status --check list
    assert_status 1
    assert_out ''
    assert_err ''
    sed 's/tensor:dq$/tensor:none/' list >list2
    t hk-hash --check list2
    assert_out_has 'x.hk:tensor:none: FAILED no such tensor'
    sed 's/x\.hk/gone.hk/' list >list2
    t hk-hash --check list2
    assert_status 2
    [[ $(grep -c ': FAILED open or read$' <<<"$output") -eq 7 ]]
    assert_err_has 'hk-hash: gone.hk: cannot open'
}

@test "lines that are none" {
    mkhk x.hk
    hk-hash --file x.hk >list
    { echo '# comment'; echo; cat list; echo nonsense; } >list2
    t hk-hash --check list2
    assert_status 1
    assert_out 'x.hk: OK'
    assert_err 'hk-hash: list2: line 4: not a digest and a name'
    for line in "$(cut -c -64 list)" "$(cut -c 2- list)" "g$(cut -c 2- list)" "\\$(cut -c -66 list)a\\b"; do
        t_sh 'printf "%s\n" "$1" | hk-hash --check -' "$line"
        assert_status 1
        assert_out ''
    done
    t_sh 'printf "" | hk-hash --check -'
    assert_fails 1 'contains no digests'
    t_sh 'head -c 3000000 /dev/zero | hk-hash --check -'
    assert_fails 1 'line 1: not a digest and a name'
    t hk-hash --check gone
    assert_fails 2 'gone: cannot open'
    t_sh 'sed s/x.hk/-/ list | hk-hash --check -'
    assert_status 2
    assert_err 'hk-hash: standard input: is the list itself'
}

@test "standard input" {
    mkhk x.hk
    t_sh 'cat x.hk | hk-hash --file -'
    assert_status 0
    assert_out "$(sha256sum <x.hk)"
    hk-hash --base --file - <x.hk >list
    t_from x.hk hk-hash --check list
    assert_status 0
    assert_out '-: OK
-:base: OK'
}

@test "refuses what is no model, and goes on with the next" {
    mkhk x.hk
    echo text >bad
    t hk-hash bad gone x.hk
    assert_status 2
    [[ $(wc -l <<<"$stderr") -eq 2 && $(wc -l <<<"$output") -eq 4 ]]
    mkhk y.hk '{"tensors":[{"name":"r","type":"shared_ref","shape":[3],"data_offset":0,"data_size":0}]}'
    t hk-hash y.hk
    assert_fails 1 'shared_ref'
    t hk-hash --file y.hk
    assert_status 0
}

@test "options that do not go together" {
    for o in '' '--check x y' '--check x --json' '--check x --base' '--status x' '--bogus'; do
        # shellcheck disable=SC2086
        t hk-hash $o
        assert_status 2
        assert_out ''
    done
}

@test "links neither engine nor kernels" {
    [[ -z ${SAN:-} ]] || skip 'SKIPPED: sanitizers add libraries'
    t ldd "$BIN/hk-hash"
    refute_out_has pcre
    t nm "$BIN/hk-hash"
    refute_out_has hkk_
}
