# A set is one model to every program: any shard, the index and the directory name all of it.
load common.bash

setup() {
    common_setup
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    echo '{"passed": 1}' >e.json
}
# make_set [FORMAT]: set/s-* in three files, and whole.FORMAT.
make_set() {
    mkdir -p set
    hk-convert model.gguf "whole.${1:-hk}"
    hk-convert --split-size 200k model.gguf "set/s.${1:-hk}"
}
make_keys() {
    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out key.pub
}
WAYS=(set set/ set/s.hk.index.json set/s-0000{1,2,3}-of-00003.hk)
first=set/s-00001-of-00003.hk
# Change one byte of FILE: the last of its payloads or, where it has records, well before them.
tamper() {
    "$PYTHON" - "$1" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    size = f.seek(0, 2)
    f.seek(size - 5000)
    b = f.read(1)[0]
    f.seek(size - 5000)
    f.write(bytes([b ^ 0x55]))
PY
}

@test "a record goes to the first file, bound to all of them, and back again" {
    make_set
    cp -r set old
    local way base
    base=$(hk-hash --json --base whole.hk | json - 'v["base"]')
    for way in "${WAYS[@]}"; do
        t hk-append --bind-base --eval e.json --name n "$way"
        assert_status 0
        t hk-log "$way"
        assert_json '[(r["name"],r["parent_hash"]) for r in v["records"]]' "[[\"n\",\"$base\"]]"
        t hk-inspect --appendix "$first"
        assert_json 'v["appendix"][0]["lineage"]' first
        t hk-verify --payload --strict "$way"
        assert_status 0
        assert_json '[v["valid"],v["lineage"],v["checked"]["base"],v["checked"]["tensors"],v["checked"]["payload"]]' \
            '[true,"ok","bound",47,true]'
        t hk-append --bind-base --eval e.json "$way"
        assert_fails 2 'only the first record can bind the base'
        t hk-append --eval e.json --name more "$way"
        assert_status 0
        t hk-rollback "$way" 1
        assert_json '[v["kept"],v["removed"]]' '[1,1]'
        t hk-rollback "$way" 0
        assert_status 0
        diff -r set old >&2
    done
}

@test "a byte changed in any file, and the base is another" {
    make_set
    make_keys
    hk-append --bind-base --eval e.json set
    hk-sign --key key.pem set
    cp -r set good
    local i file
    for i in 1 2 3; do
        file=s-0000$i-of-00003.hk
        tamper set/$file
        t hk-verify --payload set/s.hk.index.json
        assert_status 1
        assert_json '[v["valid"],[(e["code"],e["file"]) for e in v["errors"]],v["checked"]["base"]]' \
            '[false,[["base-changed","s-00001-of-00003.hk"]],"changed"]'
        t hk-verify --key key.pub set/s-00002-of-00003.hk
        assert_status 1
        assert_json 'v["signature"]' '{"genuine":true,"changed":["base"]}'
        cp good/$file set/$file
    done
    hk-verify --payload --key key.pub set
}

@test "a file removed, doubled, or of another set" {
    make_set
    make_keys
    hk-append --bind-base --eval e.json set
    hk-sign --key key.pem set
    cp -r set good
    local program
    rm set/s-00002-of-00003.hk
    for way in set set/s.hk.index.json "$first"; do
        t hk-verify "$way"
        assert_status 1
        assert_json '[v["valid"],[(e["code"],e["file"]) for e in v["errors"]]]' \
            '[false,[["set-missing","s-00002-of-00003.hk"]]]'
        for program in 'hk-sign --key key.pem' 'hk-append --eval e.json' hk-hash hk-log hk-inspect \
            'hk-diff whole.hk' 'hk-meta list' 'hk-verify --key key.pub'; do
            t $program "$way"
            [[ $status -ge 1 && $stderr == *"s-00002-of-00003.hk"* ]] || fail "$program $way"
        done
        t hk-meta set "$way" general.name x
        assert_fails 1 '1 of 3 files are missing: s-00002-of-00003.hk'
        t hk-rollback "$way" 0
        assert_fails 1 '1 of 3 files are missing: s-00002-of-00003.hk'
        t hk-merge "$way" out.hk
        assert_fails 1 '1 of 3 files are missing: s-00002-of-00003.hk'
    done
    cmp "$first" good/s-00001-of-00003.hk >&2
    rm set/s.hk.index.json set/s-00003-of-00003.hk
    t hk-verify "$first"
    assert_status 1
    assert_json '[e["file"] for e in v["errors"]]' '["s-00002-of-00003.hk","s-00003-of-00003.hk"]'
    cp good/* set/
    cp set/s-00003-of-00003.hk set/s-00002-of-00003.hk
    t hk-verify set
    assert_status 1
    assert_json '[(e["code"],e["file"],e["message"]) for e in v["errors"]]' \
        '[["set","s-00003-of-00003.hk","s-00003-of-00003.hk: is shard 3, as s-00002-of-00003.hk is"]]'
    rm set/s.hk.index.json
    t hk-verify set
    assert_status 1
    assert_json '[(e["code"],e["file"]) for e in v["errors"]]' '[["set","s-00002-of-00003.hk"]]'
    assert_err_has 'says that it is shard 3 of 3'
}

@test "index and files have to agree in both directions, in every format" {
    local format edit code
    for format in hk safetensors; do
        rm -rf set whole.*
        make_set $format
        cp -r set good
        while IFS='|' read -r edit text; do
            rm -r set
            cp -r good set
            "$PYTHON" - "$edit" "$format" <<'PY'
import json, sys
path = "set/s.%s.index.json" % sys.argv[2]
v = json.load(open(path)); m = v["weight_map"]
f = lambda i: "s-%05d-of-00003.%s" % (i, sys.argv[2])
exec(sys.argv[1])
json.dump(v, open(path, "w"))
PY
            t hk-verify set
            assert_status 1
            assert_json '[v["valid"],len(v["errors"])]' '[false,1]'
            assert_json 'v["errors"][0]["code"] in ("set","set-missing")' True
            assert_err_has "$text"
        done <<'ROWS'
m["new"] = f(1)|tensor new is not in s-00001-of-00003
del m["output_norm.weight"]|but not in s.
m["output_norm.weight"] = f(2)|tensor output_norm.weight is in s-00001-of-00003
m["output_norm.weight"] = "none.bin"|none.bin: is missing: the model is in 4 files
m["output_norm.weight"] = "../" + f(1)|is no name of a file beside the index
v["weight_map"] = []|has no object "weight_map"
ROWS
        rm -r good
    done
}

@test "a tensor in two files; a file that breaks rules of its own" {
    make_set
    mkdir two
    for i in 0 1; do
        mkhk "two/s-0000$((i + 1))-of-00002.hk" '{"metadata":[],"tensors":[{"name":"a","type":"f32",
            "shape":[1],"data":{"f32":[1]}}]}' --set header.split_index=$i --set header.split_count=2 \
            --set header.flags=0x51
    done
    t hk-verify two
    assert_status 1
    assert_json '[(e["code"],"a occurs again" in e["message"]) for e in v["errors"]]' '[["set",true]]'
    printf '\377' | dd of=set/s-00002-of-00003.hk bs=1 seek=24 conv=notrunc status=none
    printf '\377' | dd of=set/s-00003-of-00003.hk bs=1 seek=0 conv=notrunc status=none
    for way in set set/s-00002-of-00003.hk set/s-00003-of-00003.hk; do
        t hk-verify "$way"
        assert_status 1
        assert_json 'sorted({e["file"] for e in v["errors"]})' '["s-00002-of-00003.hk","s-00003-of-00003.hk"]'
        assert_err_has "hk-verify: $way: s-00003-of-00003.hk: not a "
    done
}

@test "one signature for a set, which is also that of the whole file" {
    make_set
    make_keys
    local way
    hk-sign --key key.pem whole.hk
    for way in "${WAYS[@]}"; do
        t hk-sign --force --key key.pem "$way"
        assert_status 0
        t hk-verify --key key.pub "$way"
        assert_status 0
        assert_json 'v["signature"]' '{"genuine":true,"changed":[]}'
    done
    [[ $(find set -name '*.sig') == "$first.sig" ]] || fail "$(find set)"
    json whole.hk.sig '[v["base"],v["metadata"],v["history"]]' >a
    json $first.sig '[v["base"],v["metadata"],v["history"]]' >b
    assert_same a b
    hk-sign --key key.pem -o elsewhere set
    hk-verify --key key.pub --signature elsewhere "$first" >/dev/null
    hk-append --eval e.json set
    t hk-verify --key key.pub set
    assert_status 1
    assert_json 'v["signature"]["changed"]' '["history"]'
    hk-rollback set 0 >/dev/null
    hk-verify --key key.pub set >/dev/null
}

@test "threads change nothing" {
    make_set
    make_keys
    local n
    for n in 1 2 5; do
        hk-sign --threads $n --key key.pem -o $n.sig set
        assert_same 1.sig $n.sig
        hk-verify --threads $n --payload --key key.pub --signature $n.sig set >$n.json
        assert_same 1.json $n.json
    done
}

@test "metadata of a set is edited in its first file" {
    make_set
    local way n=0 i
    for i in 2 3; do sha256sum set/s-0000$i-of-00003.hk; done >sums
    for way in "${WAYS[@]}"; do
        n=$((n + 1))
        hk-meta set --type int "$way" my.number $n
        t hk-meta get "${WAYS[$((n % 6))]}" my.number
        assert_out $n
        hk-meta set "$way" general.name "$(printf "%${n}000d" $n)"
        hk-verify --strict --payload set >/dev/null
    done
    hk-meta delete set my.number
    t hk-meta get "$first" my.number
    assert_status 1
    echo '{"general.author": {"type": "string", "value": "we"}}' | hk-meta import set
    t hk-meta get set/s-00003-of-00003.hk general.author
    assert_out we
    sha256sum --quiet -c sums
    for key in split_index split_count shard_files index_file total_size_bytes total_tensors hk.alignment; do
        t hk-meta set set $key 1
        assert_fails 1 "key $key says how the file is laid out"
    done
}

# What writers did before: every file has the metadata.
@test "an older set, whose files all have the metadata, opens and is edited" {
    local i way
    mkdir set
    for i in 0 1; do
        mkhk "set/s-0000$((i + 1))-of-00002.hk" "{\"metadata\":[[\"general.name\",\"string\",\"old\"],
            [\"split_index\",\"string\",\"$i\"],[\"split_count\",\"string\",\"2\"]],
            \"tensors\":[{\"name\":\"t$i\",\"type\":\"f32\",\"shape\":[1],\"data\":{\"f32\":[1]}}]}" \
            --set header.split_index=$i --set header.split_count=2 --set header.flags=0x51
    done
    hk-verify --strict set >/dev/null
    hk-meta set set general.name new
    for way in set set/s-0000{1,2}-of-00002.hk; do
        t hk-meta get "$way" general.name
        assert_out new
        t hk-verify "$way"
        assert_status 0
        assert_json '[v["valid"],[(w["code"],w["key"],w["file"]) for w in v["warnings"]]]' \
            '[true,[["set-metadata","general.name","s-00002-of-00002.hk"]]]'
    done
    hk-convert set whole.hk
    t hk-meta get whole.hk general.name
    assert_out new
    hk-meta delete set general.name
    t hk-meta get set/s-00002-of-00002.hk general.name
    assert_status 1
    t hk-verify set
    assert_json 'v["warnings"][0]["message"]' \
        'key general.name is not in s-00001-of-00002.hk, whose metadata is that of the set'
}

@test "what reads a set sees all of it" {
    make_set
    local way
    hk-hash --base --json whole.hk | json - 'v["base"]' >base
    hk-hash --tensors whole.hk | cut -d' ' -f1 >tensors
    for way in "${WAYS[@]}"; do
        t hk-hash --base --json "$way"
        assert_json 'v["base"]' "$(<base)"
        t_sh 'hk-hash --tensors "$1" | cut -d" " -f1 | cmp - tensors' "$way"
        assert_status 0
        t hk-diff "$way" whole.hk
        assert_status 0
        hk-hash --file "$way" >list
        [[ $(wc -l <list) -eq 3 ]]
        hk-hash --quiet --check list
    done
    tamper set/s-00003-of-00003.hk
    t hk-hash --quiet --check list
    assert_status 1
    t hk-diff set whole.hk
    assert_status 1
}

@test "sets of other formats, and directories, are checked whole" {
    local format way
    for format in gguf safetensors; do
        rm -rf set
        make_set $format
        for way in set set/s-*; do
            t hk-verify --payload "$way"
            assert_status 0
            assert_json '[v["valid"],v["checked"]["tensors"],v["checked"]["payload"]]' '[true,47,true]'
        done
        rm set/s-00003*
        t hk-verify set/s-00001-of-00003.$format
        assert_status 1
        assert_json '[(e["code"],e["file"]) for e in v["errors"]]' \
            "[[\"set-missing\",\"s-00003-of-00003.$format\"]]"
    done
    cp -r "$FIX/cases/c023-zero-based" zero
    t hk-verify zero
    assert_status 0
    assert_json '[v["valid"],v["checked"]["tensors"]]' '[true,11]'
    rm zero/model-00001-of-00002.safetensors
    t hk-verify zero
    assert_status 1
    assert_json '[(e["code"],e["file"]) for e in v["errors"]]' \
        '[["set-missing","model-00001-of-00002.safetensors"]]'
    cp -r "$FIX/cases/untied" untied
    t hk-verify untied
    assert_status 0
    echo '{' >untied/config.json
    t hk-verify untied
    assert_status 1
    assert_json '[v["valid"],v["errors"][0]["code"]]' '[false,"set"]'
    mkdir one
    cp model.gguf one
    t hk-verify one
    assert_status 0
    assert_json '[v["file"],v["valid"]]' '["one",true]'
    cp model.gguf one/other.gguf
    t hk-verify one
    assert_status 1
    assert_err_has 'is a directory of 2 models, name one of them: '
    mkdir none
    t hk-verify none
    assert_fails 2 'is a directory without a model'
}

@test "no output replaces a file of the set or its index, whatever name leads to the set" {
    make_set
    make_keys
    hk-convert model.gguf d.safetensors
    hk-append --eval e.json --name n --delta d.safetensors set
    cp -r set old
    printf 'a\0\0\0b\0\0\0c\0\0\0' >ids
    local way out
    for way in "${WAYS[@]}"; do
        for out in set/s-0000{1,3}-of-00003.hk set/s.hk.index.json; do
            t hk-log -x n -f -o "$out" "$way"
            assert_fails 2 'the output is the input file'
            t hk-merge -f "$way" "$out"
            [[ $out == *.index.json ]] || assert_fails 2 'the output is the input file'
            [[ $out != *.index.json ]] || assert_fails 2 'is the name of an index, not of a model'
            t hk-dequant -f -o "$out" "$way" output_norm.weight
            assert_fails 2 'the output is the input file'
            t hk-sign --key key.pem -f -o "$out" "$way"
            assert_fails 2 'the output is the input file'
            t_from ids hk-perplexity --ids -f --logits "$out" "$way"
            assert_fails 2 'the output is the input file'
        done
    done
    diff -r set old >&2
    hk-append --eval e.json --name n whole.hk
    cp whole.hk old.hk
    t_from whole.hk hk-log -x n -f -o whole.hk -
    assert_fails 2 'the output is the input file'
    t_from whole.hk hk-dequant -f -o whole.hk - output_norm.weight
    assert_fails 2 'the output is the input file'
    cmp whole.hk old.hk
}

@test "files put together by cat are refused by name" {
    local format program count
    for format in hk gguf safetensors; do
        rm -rf set
        make_set $format
        cat set/s-*.$format >cat.$format
        cat whole.$format whole.$format >twice.$format
        for file in cat.$format twice.$format; do
            cp $file before
            t hk-verify $file
            assert_status 1
            assert_json 'v["valid"]' False
            assert_err_has 'several files put together: another model begins here'
            for program in hk-inspect hk-hash 'hk-convert -f'; do
                [[ $program == hk-convert* ]] && count=out.hk || count=
                t $program $file $count
                assert_fails 1 'several files put together'
            done
            t_sh "cat $file | hk-convert -f - out.hk"
            assert_status 1
            [[ $file == cat.gguf ]] || assert_err_has 'several files put together'
            t hk-meta set $file general.name x
            assert_status 1
            t hk-append --eval e.json $file
            [[ $status -ge 1 ]] || fail append
            t hk-rollback --repair $file
            [[ $status -ge 1 ]] || fail repair
            assert_same $file before
        done
    done
    rm -rf set whole.hk
    make_set
    hk-append --eval e.json set
    cat set/s-*.hk >cat.hk
    t hk-inspect cat.hk
    assert_fails 1 'several files put together'
    t hk-verify cat.hk
    assert_status 1
    assert_json '[(e["code"],e["offset"]) for e in v["errors"]]' "[[\"several-files\",$(stat -c %s $first)]]"
}

# With HK_FULL=1 and the maker of models, one of 1.2 GB in five files.
@test "what every program says of a set that is changed, signed, and one again" {
    local size=100k model=model.gguf
    if [[ -n ${HK_FULL:-} && -n $SHARED && -e $SHARED/peer/mkmodel.py ]]; then
        size=255M model=large.gguf
        "$PYTHON" "$SHARED/peer/mkmodel.py" --type f16 large.gguf qwen3-0.6b >&2
    fi
    mkdir table
    (cd table && bash "$ROOT/tests/cli/set-table.sh" "../$model" $size) >rows
    sed 's/^/# /' rows >&3
    "$PYTHON" - <<'PY'
rows = [line.rstrip("\n").split("\t") for line in open("rows")]
bad = ("byte of", "the same", "without", "put together", "verify edited", "verify appended")
for what, status, _, said in rows:
    assert int(status) == (1 if what.startswith(bad) else 0), (what, status, said)
    if what.startswith("byte of"):
        assert "not the digest of the set's tensors" in said, said
    if what.startswith("without"):
        assert "is missing: the model is in" in said, said
assert len(rows) >= 30
PY
}
