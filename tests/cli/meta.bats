# hk-meta: metadata listed, read, edited in place.
load common.bash

# The metadata part of an inspection, and the bytes of all tensors.
metadata() { hk-inspect --metadata --full "$1" | json - 'v["metadata"]'; }
payload() { hk-dequant --all "$2" "$1" && cat "$2"/* | sha256sum; }
# small NAME [DESCRIPTION]: a .hk with room for metadata before its payloads.
small() {
    mkhk "$1" '{"alignment":4096,"metadata":[["general.name","string","x"],["n","int64",7],["f","float64",0.5],
        ["b","bool",true],["j","json","{\"a\": 1}"],["s","bytes",{"strings":["he","","llo"]}],
        ["v","bytes",{"f32_blob":[0.1,-0.0]}],["w","bytes",{"i32_blob":[1,-2]}],["raw","bytes",{"hex":"00ff"}]],
        "tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}}]'"${2:+,$2}"'}'
}
sound() {
    t hk-verify --payload "$1"
    assert_status 0
    assert_json '[v["errors"],v["warnings"]]' '[[],[]]'
}

@test "lists keys with type and value" {
    small x.hk
    t hk-meta list --typed x.hk
    assert_status 0
    assert_json 'v["file"]' x.hk
    assert_json 'list(v["metadata"])' '["general.name","n","f","b","j","s","v","w","raw"]'
    assert_json '[e["type"] for e in v["metadata"].values()]' \
        '["string","int64","float64","bool","json","array<string>","array<f32>","array<i32>","bytes"]'
    assert_json '[e["value"] for e in v["metadata"].values()]' \
        '["x",7,0.5,true,{"a":1},["he","","llo"],[0.1,-0.0],[1,-2],{"bytes":2,"hex":"00ff"}]'
    t hk-meta list --table x.hk
    assert_status 0
    assert_out_like 'n +int64 +7'
}

@test "reads what cannot be edited too" {
    make_models
    t hk-meta get model.gguf general.name
    assert_status 0
    assert_out stories260K
    t_from model.hk hk-meta list --typed -
    assert_status 0
    assert_json 'v["metadata"]["tokenizer.ggml.tokens"]["value"]["count"]' 512
    t_from model.hk hk-meta list --typed --full -
    assert_json 'len(v["metadata"]["tokenizer.ggml.tokens"]["value"])' 512
}

@test "prints a value as it is" {
    small x.hk
    t_sh 'hk-meta get x.hk "$1" | od -An -tx1' general.name
    assert_out ' 78'
    for row in 'n 7' 'f 0.5' 'b true' 's ["he","","llo"]' 'w [1,-2]' 'v [0.1,-0.0]' 'j {"a": 1}'; do
        t hk-meta get x.hk "${row%% *}"
        assert_status 0
        assert_out "${row#* }"
    done
    t_sh 'hk-meta get x.hk raw | od -An -tx1'
    assert_out ' 00 ff'
    t hk-meta get --typed x.hk raw
    assert_out '{"type":"bytes","value":{"bytes":2,"hex":"00ff"}}'
    t hk-meta get --typed x.hk j
    assert_out '{"type":"json","value":{"a":1}}'
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    for f in x.hk model.gguf; do
        t_sh 'hk-meta list --typed --full "$1"' "$f"
        hk-meta list "$f" | json - '"\n".join(v["metadata"])' | while read -r k; do
            [[ $(json - "v['metadata']['$k']" <<<"$output") == "$(hk-meta get --typed "$f" "$k" | json - v)" ]] || fail "$f $k"
        done
    done
    t hk-meta get --typed model.gguf llama.attention.layer_norm_rms_epsilon
    assert_out '{"type":"f32","value":1e-05}'
    t hk-meta get x.hk none
    assert_fails 1 'hk-meta: x.hk: no key none'
}

@test "sets a value and keeps its type, guesses none" {
    small x.hk
    cp x.hk old.hk
    hk-meta set x.hk general.name 123
    hk-meta set x.hk n 8
    hk-meta set x.hk f 1e3
    hk-meta set x.hk b false
    hk-meta set x.hk j '[1,  2]'
    hk-meta set x.hk s '["\u00e9"]'
    hk-meta set x.hk v '[1]'
    hk-meta set x.hk w -- '[-5]'
    hk-meta set x.hk raw zz
    hk-meta set x.hk new 17
    t hk-meta list --typed x.hk
    assert_json '[(e["type"],e["value"]) for e in v["metadata"].values()]' \
        '[["string","123"],["int64",8],["float64",1000.0],["bool",false],["json",[1,2]],["array<string>",["\u00e9"]],["array<f32>",[1.0]],["array<i32>",[-5]],["bytes",{"bytes":2,"hex":"7a7a"}],["string","17"]]'
    t hk-meta get x.hk j
    assert_out '[1,  2]'
    sound x.hk
    [[ $(payload x.hk a) == "$(payload old.hk b)" ]]
    [[ $(stat -c %s x.hk) -eq $(stat -c %s old.hk) ]]
}

@test "takes a type where one is given" {
    small x.hk
    hk-meta set --type int x.hk general.name 5
    hk-meta set --type float x.hk n 5
    hk-meta set --type json x.hk f '"x"'
    hk-meta set --type 'array<i32>' x.hk b '[1,2,3]'
    hk-meta set --type bytes x.hk new abc
    t hk-meta list --typed x.hk
    assert_json '[(v["metadata"][k]["type"],v["metadata"][k]["value"]) for k in ("general.name","n","f","b","new")]' \
        '[["int64",5],["float64",5.0],["json","x"],["array<i32>",[1,2,3]],["bytes",{"bytes":3,"hex":"616263"}]]'
    sound x.hk
}

@test "refuses a value that is none of its type, before anything is written" {
    small x.hk
    cp x.hk old.hk
    while read -r type value; do
        t hk-meta set --type "$type" x.hk k -- "$value"
        assert_fails 2 'hk-meta: x.hk: key k: '
    done <<'ROWS'
int 9223372036854775808
int -9223372036854775809
int 1.0
int 0x10
int +1
int 1_000
float 1,5
float .5
float 1.
float 1e
float nan
float inf
float 1e999
float 1e-999
float 0x1p3
bool True
bool 1
json {"a":1,"a":2}
json {
json NaN
array<string> ["a",1]
array<string> {}
array<f32> ["1"]
array<f32> [1e99]
array<i32> [1.0]
array<i32> [2147483648]
ROWS
    for value in '' ' 1' '1 '; do
        t hk-meta set --type int x.hk k "$value"
        assert_fails 2 'not a 64-bit integer'
    done
    t hk-meta set x.hk general.name $'\xff'
    assert_fails 2 'not UTF-8'
    assert_same x.hk old.hk
    t hk-meta set --type int x.hk k -- -9223372036854775808
    assert_status 0
    t hk-meta get x.hk k
    assert_out -9223372036854775808
    t hk-meta set --type float x.hk k -- -4.9e-324
    assert_status 0
    t hk-meta get --typed x.hk k
    assert_json 'v["value"] == -5e-324' True
}

@test "takes values from pipes and files, byte for byte" {
    small x.hk
    printf 'a\n\tb\n\n' >value
    t_sh 'hk-meta set x.hk tokenizer.chat_template - <value && hk-meta get x.hk tokenizer.chat_template | cmp - value'
    assert_status 0
    t_sh 'cat value | hk-meta set x.hk general.name - && hk-meta get x.hk general.name | cmp - value'
    assert_status 0
    head -c 3000 /dev/urandom >random
    t_sh 'hk-meta set --type bytes --from-file random x.hk r && hk-meta get x.hk r | cmp - random'
    assert_status 0
    echo 12 | hk-meta set x.hk n -
    t hk-meta get x.hk n
    assert_out 12
    t hk-meta set --from-file absent x.hk n
    assert_fails 2 'hk-meta: absent: cannot open: No such file'
    t hk-meta set --from-file . x.hk n
    assert_fails 2 'hk-meta: .: '
    : >empty
    t hk-meta set --from-file empty x.hk general.name
    assert_status 0
    t hk-meta get x.hk general.name
    assert_out ''
}

@test "deletes keys, all that are named or none" {
    small x.hk
    cp x.hk old.hk
    t hk-meta delete x.hk n none f
    assert_fails 1 'hk-meta: x.hk: no key none'
    assert_same x.hk old.hk
    t hk-meta delete x.hk n f n
    assert_status 0
    t hk-meta list --typed x.hk
    assert_json 'list(v["metadata"])' '["general.name","b","j","s","v","w","raw"]'
    sound x.hk
}

@test "an import of an export changes nothing, and makes a file the same" {
    small x.hk
    hk-meta set --type float x.hk g 0.1
    printf %s '{"nan":{"type":"float","base64":"AAAAAAAA+H8="},"odd":{"type":"string","base64":"/w=="},
        "two":{"type":"bool","base64":"Ag=="},"\u2028é\u0001":{"type":"string","value":"\u0000\u007f\\\""},
        "big":{"type":"int","value":9223372036854775807},"e":{"type":"array<string>","value":[]}}' | hk-meta import x.hk
    cp x.hk old.hk
    t hk-meta export x.hk
    assert_status 0
    assert_json '[v["nan"],v["two"],v["raw"],v["g"],v["big"]["value"]]' \
        '[{"type":"float64","base64":"AAAAAAAA+H8="},{"type":"bool","base64":"Ag=="},{"type":"bytes","base64":"AP8="},{"type":"float64","value":0.1},9223372036854775807]'
    printf '%s' "$output" >all.json
    touch -d @1 x.hk
    t hk-meta import x.hk all.json
    assert_status 0
    assert_same x.hk old.hk
    [[ $(stat -c %Y x.hk) -eq 1 ]] # not even written
    mkhk bare.hk '{"alignment":4096,"metadata":[],"tensors":[{"name":"a","type":"f32","shape":[2],"data":{"f32":[1,2]}}]}'
    t hk-meta import bare.hk all.json
    assert_status 0
    assert_same bare.hk x.hk
}

@test "imports many edits as one, or none of them" {
    small x.hk
    cp x.hk old.hk
    t_sh 'echo "$1" | hk-meta import x.hk' '{"n":null,"new":{"type":"int","value":1},"f":{"type":"int","value":1.5}}'
    assert_fails 2 'key f: the value is not a 64-bit integer'
    assert_same x.hk old.hk
    t_sh 'echo "$1" | hk-meta import x.hk -' '{"n":null,"absent":null,"new":{"type":"int","value":1}}'
    assert_status 0
    t hk-meta list --typed x.hk
    assert_json 'list(v["metadata"])' '["general.name","f","b","j","s","v","w","raw","new"]'
    cp x.hk old.hk
    while read -r text; do
        t_sh 'echo "$1" | hk-meta import x.hk' "$text"
        assert_fails 2 'hk-meta: '
    done <<'ROWS'
{"a":1}
{"a":{"type":"int"}}
{"a":{"type":"int","value":1,"base64":"AA=="}}
{"a":{"type":"int","value":1,"more":1}}
{"a":{"type":"none","value":1}}
{"a":{"type":"bytes","base64":"A"}}
{"a":{"type":"bytes","base64":"AB=="}}
{"a":{"type":"bytes","base64":"A=A="}}
{"a":{"type":"bytes","value":"AA=="}}
{"a":{"type":"json","value":"{"}}
{"a":null,"a":null}
{"":{"type":"int","value":1}}
[1]
{
ROWS
    t_sh 'echo "$1" | hk-meta import x.hk' '{"a":{"type":"int","base64":"AAA="}}'
    assert_fails 1 'value of 2 bytes'
    assert_same x.hk old.hk
}

@test "the way back to GGUF keeps types" {
    make_models
    hk-meta set model.hk llama.context_length 64
    hk-meta set model.hk llama.attention.layer_norm_rms_epsilon 1e-6
    hk-meta set model.hk general.name 'Ann'
    hk-convert model.hk back.gguf
    t hk-inspect --metadata --table back.gguf
    assert_out_like 'llama.context_length +u32 +64'
    assert_out_like 'llama.attention.layer_norm_rms_epsilon +f32 +1e-06'
    hk-convert back.gguf again.hk
    [[ $(metadata again.hk) == "$(metadata model.hk)" ]]
    hk-meta set model.hk llama.context_length 512
    hk-meta set model.hk llama.attention.layer_norm_rms_epsilon 9.999999747378752e-06
    hk-meta set model.hk general.name stories260K
    hk-convert -f model.hk back.gguf
    assert_same back.gguf model.gguf
}

@test "metadata that do not fit go behind the payloads, and come back" {
    mkhk x.hk
    cp x.hk old.hk
    head -c 5000 /dev/zero | tr '\0' x >long
    for i in 1 2 3; do
        t hk-meta set --from-file long x.hk "long$((i % 2))"
        assert_status 0
        sound x.hk
    done
    [[ $(stat -c %s x.hk) -lt 12000 ]]
    hk-convert x.hk y.hk
    [[ $(metadata x.hk) == "$(metadata y.hk)" ]]
    [[ $(payload x.hk a) == "$(payload old.hk b)" ]]
    hk-meta delete x.hk long0 long1
    assert_same x.hk old.hk
}

@test "with an appendix what does not fit is refused" {
    small x.hk '"appendix":[{"name":"r","data":"some"},{"name":"s","data":"more"}]'
    cp x.hk old.hk
    t hk-meta set x.hk general.name other
    assert_status 0
    sound x.hk
    hk-inspect --appendix old.hk | json - 'v["appendix"]' >a
    hk-inspect --appendix x.hk | json - 'v["appendix"]' >b
    assert_same a b
    cp x.hk old.hk
    head -c 5000 /dev/zero | tr '\0' x >long
    t hk-meta set --from-file long x.hk long
    assert_fails 1 'hk-convert --room SIZE makes room'
    assert_same x.hk old.hk
    hk-convert --room 8k x.hk wide.hk
    t hk-meta set --from-file long wide.hk long
    assert_status 0
    sound wide.hk
}

@test "a large file is edited without reading it" {
    small x.hk
    /usr/bin/python3 - <<'PY'
import struct
d = bytearray(open("x.hk", "rb").read())
toc, = struct.unpack_from("<Q", d, 0x30)
shape = toc + 2 + 1 + 4
size = 1 << 30
struct.pack_into("<Q", d, shape, size // 4)
struct.pack_into("<Q", d, shape + 16, size)
open("x.hk", "wb").write(d)
with open("x.hk", "r+b") as f:
    f.truncate(struct.unpack_from("<Q", d, 0x40)[0] + size)
PY
    before=$(tail -c +4097 x.hk | head -c 100000 | sha256sum) blocks=$(stat -c %b x.hk)
    hk-meta set x.hk n 12345
    hk-meta set x.hk general.name "$(printf '%02000d' 1)"
    [[ $(tail -c +4097 x.hk | head -c 100000 | sha256sum) == "$before" ]]
    # No block of it was filled, as a copy would.
    [[ $(stat -c %b x.hk) -le $((blocks + 64)) ]]
    t hk-verify x.hk
    assert_status 0
    t hk-meta get x.hk n
    assert_out 12345
}

@test "edits of one file wait for each other" {
    small x.hk
    for i in {1..20}; do
        hk-meta set --type int x.hk "key$i" "$i" &
    done
    wait
    t hk-meta list --typed x.hk
    assert_json 'sorted(e["value"] for k, e in v["metadata"].items() if k.startswith("key")) == list(range(1, 21))' True
    sound x.hk
}

@test "refuses what is not to be edited" {
    make_models
    t hk-meta set model.gguf general.name x
    assert_fails 1 'a gguf file is not edited in place; hk-convert makes a .hk of it'
    t hk-meta set . general.name x
    assert_fails 1 'is a directory of 2 models, name one of them: model.gguf, model.hk'
    mkdir d
    mv model.gguf d
    t hk-meta set d general.name x
    assert_fails 1 'a directory is not edited in place; hk-convert'
    t hk-meta set absent general.name x
    assert_fails 2 'hk-meta: absent: cannot open for writing: No such file'
    t hk-meta set - general.name x
    assert_fails 2 'standard input: cannot be changed in place'
    mkhk shard.hk --set header.split_count=2
    t hk-meta set shard.hk k v
    assert_fails 1 'is shard 1 of 2, and no index names it'
    t hk-meta set --type int model.hk hk.alignment 64
    assert_fails 1 'key hk.alignment says how the file is laid out'
    : >model.hk.hkmeta-journal
    cp model.hk old.hk
    t hk-meta set model.hk k v
    assert_fails 1 'journal'
    assert_same model.hk old.hk
    t hk-meta get model.hk general.name
    assert_status 0
}

@test "a file that may not be written stays as it is" {
    small x.hk
    cp x.hk old.hk
    chmod 444 x.hk
    chmod a+rx "$BATS_TEST_TMPDIR" .
    t_unprivileged hk-meta set "$PWD/x.hk" n 1
    assert_fails 2 'cannot open for writing: Permission denied'
    assert_same x.hk old.hk
}

@test "a full disk keeps the old file" {
    small x.hk
    cp x.hk old.hk
    t bash -c 'ulimit -f 4; exec hk-meta set x.hk general.name "$(printf "%02000d" 1)"'
    assert_fails 2 'cannot write: File too large'
    assert_same x.hk old.hk
}

@test "says how it is used" {
    small x.hk
    for line in '' none 'list' 'list x.hk y' 'get x.hk' 'set x.hk n' 'set x.hk n 1 2' 'delete x.hk' 'export x.hk y' \
        'list --type int x.hk' 'set --table x.hk n 1' 'set --type u32 x.hk n 1' 'get --full x.hk n' \
        'set --from-file x.hk x.hk n 1' 'import x.hk a b'; do
        # shellcheck disable=SC2086 # words
        t hk-meta $line
        assert_fails 2 'try --help'
    done
}

@test "a link stays a link, and other tools see one file" {
    small x.hk
    ln -s x.hk link
    hk-meta set link n 99
    [[ -L link ]]
    t hk meta get x.hk n
    assert_out 99
    assert_files x.hk link
}
