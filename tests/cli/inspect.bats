# hk-inspect
load common.bash

@test "shows header, metadata, tensors and appendix of a .hk" {
    mkhk x.hk '{"alignment":4096,
        "metadata":[["s","string","text"],["i","int64",-9223372036854775808],["f","float64",0.1],
            ["b","bool",false],["j","json",{"a":[1,{"b":null}]}],["o","bytes",{"hex":"deadbeef"}]],
        "tensors":[{"name":"t","type":"q8_0","shape":[2,32],"data":{"zero":68}},
            {"name":"d","type":"dq8","shape":[32],"data":{"zero":32},"scales":{"zero":4},
             "residual":{"zero":128},"sparsity_ratio":1056964608}],
        "appendix":[{"type":"code_eval","name":"n","target":"m","data":"abc","crc":true,
             "metrics":[0.1,0.5,1,2]},{"type":"delta_patch","name":"p","data":"x","generation":7}]}'
    t hk-inspect x.hk
    assert_status 0
    assert_err ''
    assert_json 'list(v)' '["file","format","size","summary","header","metadata","tensors","records","appendix"]'
    assert_json '[v["file"],v["format"]]' '["x.hk","hk"]'
    assert_json 'v["size"]' "$(stat -c %s x.hk)"
    assert_json 'list(v["header"])' '["version","flags","alignment","split_index","split_count","tensor_count","metadata_kv_count","metadata_offset","metadata_size","tensor_toc_offset","tensor_toc_size","tensor_data_offset","appendix_offset","checksum"]'
    assert_json 'v["header"]["version"]' 1.0
    assert_json 'v["header"]["flags"]' \
        '["little_endian","has_appendix","tile_aligned","universal_page_aligned"]'
    assert_json '[v["header"][k] for k in ("alignment","tensor_count","metadata_kv_count","split_count","tensor_data_offset")]' '[4096,2,6,1,4096]'
    assert_json 'v["metadata"]' '{"s":"text","i":-9223372036854775808,"f":0.1,"b":false,"j":{"a":[1,{"b":null}]},"o":{"bytes":4,"hex":"deadbeef"}}'
    assert_json 'v["tensors"]' '[{"name":"t","type":"q8_0","shape":[2,32],"layout":"row_major","sparsity":"none","offset":4096,"size":68,"scale_offset":0,"scale_size":0,"residual_offset":0,"residual_size":0,"block_size":32,"sparsity_ratio":0.0},{"name":"d","type":"dq8","shape":[32],"layout":"row_major","sparsity":"none","offset":8192,"size":32,"scale_offset":12288,"scale_size":4,"residual_offset":16384,"residual_size":128,"block_size":32,"sparsity_ratio":0.5}]'
    assert_json 'list(v["appendix"][0])' '["index","type","name","target","generation","timestamp","active","compressed","metrics","offset","size","parent_hash","hash","crc32","lineage","crc","effective","switch"]'
    assert_json 'v["appendix"][0]["metrics"]' '{"loss":0.1,"acc":0.5,"pass":1.0,"custom":2.0}'
    assert_json '[v["appendix"][0][k] for k in ("type","name","target","size","crc32","crc","lineage","active","compressed","timestamp")]' \
        '["code_eval","n","m",3,891568578,"ok","first",true,false,1700000000]'
    assert_json '[v["appendix"][1][k] for k in ("index","type","generation","crc","lineage")]' \
        '[1,"delta_patch",7,"absent","ok"]'
    assert_json 'v["appendix"][1]["parent_hash"] == v["appendix"][0]["hash"]' True
    assert_json '[v["appendix"][0]["hash"]]' "[\"$(printf nmabc | sha256sum | cut -d' ' -f1)\"]"
}

@test "shows only the sections asked for" {
    mkhk x.hk
    for s in header metadata tensors; do
        t hk-inspect --$s x.hk
        assert_json 'list(v)' "[\"file\",\"format\",\"size\",\"$s\"]"
    done
    t hk-inspect --appendix x.hk
    assert_json 'list(v)' '["file","format","size","records","appendix"]'
    t hk-inspect --tensors --header x.hk
    assert_json 'list(v)' '["file","format","size","header","tensors"]'
}

@test "shows a GGUF as the same thing" {
    cp "$FIX/models/stories260K-f16.gguf" m.gguf
    t hk-inspect m.gguf
    assert_status 0
    assert_json '[v["format"],v["header"]["version"],v["header"]["alignment"]]' '["gguf","3",32]'
    assert_json 'v["metadata"]["llama.attention.layer_norm_rms_epsilon"]' 1e-05
    assert_json 'v["metadata"]["tokenizer.ggml.tokens"]' \
        '{"array":"string","count":512,"first":["<unk>","<s>","</s>","<0x00>","<0x01>","<0x02>","<0x03>","<0x04>"]}'
    assert_json '[v["tensors"][0][k] for k in ("name","type","shape")]' \
        '["token_embd.weight","f16",[512,64]]'
    make_models
    t hk-inspect model.hk
    assert_json 'len(v["tensors"])' 47
}

@test "arrays are shown up to 16 elements, summarised beyond, whole with --full" {
    /usr/bin/python3 -c '
import json
print(json.dumps({"metadata": [
  ["s16","bytes",{"strings":[str(i) for i in range(16)]}],
  ["s17","bytes",{"strings":[str(i) for i in range(17)]}],
  ["f17","bytes",{"f32_blob":[i/10 for i in range(17)]}],
  ["i17","bytes",{"i32_blob":[-i for i in range(17)]}],
  ["j17","json",json.dumps(list(range(17)))],
  ["e","bytes",{"strings":[]}],
  ["b32","bytes",{"hex":"ff"*32}],
  ["b33","bytes",{"hex":"ff"*33}]]}))' >d.json
    mkhk x.hk @d.json
    t hk-inspect --metadata x.hk
    assert_json 'len(v["metadata"]["s16"])' 16
    assert_json 'v["metadata"]["s17"]' '{"array":"string","count":17,"first":["0","1","2","3","4","5","6","7"]}'
    assert_json 'v["metadata"]["f17"]' '{"array":"f32","count":17,"first":[0.0,0.1,0.2,0.3,0.4,0.5,0.6,0.7]}'
    assert_json 'v["metadata"]["i17"]["first"]' '[0,-1,-2,-3,-4,-5,-6,-7]'
    assert_json 'v["metadata"]["j17"]' '{"array":"json","count":17,"first":[0,1,2,3,4,5,6,7]}'
    assert_json 'v["metadata"]["e"]' '[]'
    assert_json '[len(v["metadata"][k]["hex"]) for k in ("b32","b33")]' '[64,64]'
    t hk-inspect --metadata --full x.hk
    assert_json '[len(v["metadata"][k]) for k in ("s17","f17","i17","j17")]' '[17,17,17,17]'
    assert_json 'v["metadata"]["f17"][16]' 1.6
    assert_json 'len(v["metadata"]["b33"]["hex"])' 66
}

@test "numbers are exact, and null where JSON has none" {
    mkhk x.hk '{"metadata":[["big","int64",9223372036854775807],["tiny","float64",5e-324],
        ["third","float64",0.3333333333333333],["e","float64",1e22],["nan","float64",0],
        ["f","bytes",{"cat":[{"hex":"0200000003000000"},{"hex":"0000c07f"},{"hex":"0000807f"},{"f32":[16777216]}]}],
        ["j","json","{\"x\":1e400}"],["dup","json","{\"a\":1,\"a\":2}"],
        ["huge","json","[18446744073709551615]"]],
        "header":{"checksum":18446744073709551615}}' --set 'metadata[4].value=0x:000000000000f87f'
    t hk-inspect x.hk
    assert_status 0
    assert_json '[v["metadata"][k] for k in ("big","tiny","third","e","nan","f")]' \
        '[9223372036854775807,5e-324,0.3333333333333333,1e+22,null,[null,null,16777216.0]]'
    assert_json 'v["metadata"]["j"]' '{"x":1e400}'
    assert_json 'v["metadata"]["dup"]' '{"a":1,"a":2}'
    assert_json 'v["metadata"]["huge"]' '[18446744073709551615]'
    assert_json 'v["header"]["checksum"]' 18446744073709551615
    assert_json 'type(v["header"]["checksum"]).__name__' str
}

hostile='{"metadata":[[{"hex":"ff"},"string","one"],[{"hex":"fe"},"string","two"],
    [{"hex":"efbfbd7e30"},"string","spelt like the first"],[{"hex":"00"},"string","nul"],
    ["v","string",{"hex":"1b5b33316d220a5c09c29be280aeedA080c0afF5808080e28080ff"}],["k\"\u0007","string",""],
    ["l","bytes",{"strings":[{"hex":"80"},"\u001b","\u2028"]}]],
    "tensors":[{"name":"a\n\u001b[2J\"\\","type":"f32","shape":[1],"data":{"zero":4}},
        {"name":{"hex":"c328"},"type":"f32","shape":[1],"data":{"zero":4}}],
    "appendix":[{"name":{"hex":"1bff"},"target":"\u0000","data":"x"}]}'

@test "names that are no text never make invalid JSON, nor reach the terminal raw" {
    mkhk x.hk "$hostile"
    hk-inspect x.hk >out.json
    [[ $(json out.json 'len(v["metadata"])') -eq 7 ]]
    [[ $(json out.json '[k for k, x in v["metadata"].items() if x == "one"][0].encode().hex()') == efbfbd7e307e30 ]]
    [[ $(json out.json '[k for k, x in v["metadata"].items() if x == "two"][0].encode().hex()') == efbfbd7e31 ]]
    [[ $(json out.json 'v["metadata"]["\0"]') == nul ]]
    [[ $(json out.json 'v["tensors"][0]["name"].encode().hex()') == 610a1b5b324a225c ]]
    [[ $(json out.json 'v["metadata"]["v"][:10].encode().hex()') == 1b5b33316d220a5c09c29b ]]
    hk-inspect --table x.hk >out.txt
    for f in out.json out.txt; do
        refute grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' $f
        iconv -f utf-8 -t utf-8 $f >/dev/null
    done
    [[ $(wc -l <out.json) -eq 1 ]]
    grep -qF 'a\x0a\x1b[2J"\' out.txt
}

@test "one line a file in a pipe, indented on a terminal" {
    need script
    mkhk x.hk
    cp x.hk y.hk
    t hk-inspect x.hk y.hk
    [[ ${#lines[@]} -eq 2 ]]
    script -qec 'hk-inspect --json x.hk' /dev/null </dev/null | tr -d '\r' >tty.json
    [[ $(wc -l <tty.json) -gt 20 ]]
    [[ $(sed -n 2p tty.json) == '  "file": "x.hk",' ]]
    hk-inspect x.hk >pipe.json
    [[ $(json tty.json v) == "$(json pipe.json v)" ]]
}

@test "a summary on a terminal; the same facts in the JSON" {
    need script
    make_models
    hk-append -q --lora "$FIX/adapter" --name timmy --loss 0.5 model.hk >/dev/null
    hk-append -q --lora "$FIX/adapter" --name off model.hk >/dev/null
    hk-append -q --deactivate off model.hk >/dev/null
    script -qec 'hk-inspect model.hk' /dev/null </dev/null | tr -d '\r' >tty
    hk-inspect --summary model.hk | cmp - tty
    t hk-inspect --summary model.hk
    assert_out 'file           model.hk
name           stories260K
family         llama
parameters     260.03 thousand
type           f16: f16 99.7 %, f32 0.271 %
bits a weight  16.04
layers         5, hidden size 64
context        512
vocabulary     512
history        3 records, adapters: timmy
size           541.4 KiB, hk'
    t hk-inspect model.hk
    assert_json 'v["summary"]' '{"name":"stories260K","family":"llama","params":260032,"size":521472,"bits_per_weight":16.043317745508244,"type":"f16","types":[{"type":"f16","params":259328,"size":518656},{"type":"f32","params":704,"size":2816}],"layers":5,"hidden":64,"context":512,"vocab":512,"records":3,"adapters":["timmy"]}'
    one=$(json - '[v["summary"][k] for k in ("name","family","params","type","context","vocab")]' <<<"$output")
    hk-convert -q --to hf --no-history model.hk dir
    for m in model.gguf dir; do
        t hk-inspect --summary --json $m
        assert_json '[v["summary"][k] for k in ("name","family","params","type","context","vocab")]' "$one"
    done
    hk-convert -q --no-history model.hk x.safetensors
    t hk-inspect --summary x.safetensors
    assert_out_has 'parameters     260.03 thousand'
    assert_out_has ' KiB, safetensors'
    t hk-inspect --summary --header --table model.hk
    assert_out_like 'size .*

version +1.0'
    t hk-inspect --json --table model.hk
    assert_fails 2 'hk-inspect: --json and --table exclude each other'
}

@test "a file that ends too early: its tables, and where it ends" {
    make_models
    hk-convert -q model.hk x.safetensors
    for m in model.hk:539648 model.gguf:535840 x.safetensors:534872; do
        for n in 500000 300000 20000; do
            head -c $n "${m%:*}" >cut
            t hk-inspect cut
            assert_status 1
            assert_err_like '^hk-inspect: cut: tensor .*, at 0x[0-9a-f]+$'
            assert_json '[v["size"],v["cut"]["size"],v["cut"]["needed"]]' "[$n,$n,${m#*:}]"
            assert_json 'len(v["tensors"])' 47
            assert_json '[sum(t["offset"] + t["size"] > v["size"] for t in v["tensors"])] == [v["cut"]["tensors"]]' True
            assert_json 'next(t["name"] for t in v["tensors"] if t["offset"] + t["size"] > v["size"]) == v["cut"]["first"]' True
        done
    done
    head -c 500000 model.hk >cut
    t hk-inspect --summary cut
    assert_status 1
    assert_out_has 'cut            ends after 500000 of 539648 bytes; 2 tensors are not whole, from blk.4.ffn_down.weight on'
    hk-append -q --lora "$FIX/adapter" --name timmy model.hk >/dev/null
    head -c 500000 model.hk >cut
    t hk-inspect --summary cut
    assert_out_like 'ends after 500000 of more than 5396[0-9]+ bytes; 2 tensors'
    t_sh 'cat cut | hk-inspect --header -'
    assert_status 1
    assert_json 'v["cut"]["first"]' blk.4.ffn_down.weight
    assert_err_like '^hk-inspect: standard input: tensor '
}

# The JSON of a model ($1) and of its first $2 bytes ($3): as much as is whole, the same.
check_start() {
    "$PYTHON" - "$@" <<'PY'
import json, sys
whole, n, v = json.load(open(sys.argv[1])), int(sys.argv[2]), json.load(open(sys.argv[3]))
loose = v["format"] == "safetensors" # in another order, its values without their types
assert [v["size"], v["cut"]["size"], v["cut"]["needed"]] == [n, n, None]
keys, names = list(v["metadata"]), [t["name"] for t in whole["tensors"]]
assert loose or keys == list(whole["metadata"])[:len(keys)]
assert loose or all(v["metadata"][k] == whole["metadata"][k] for k in keys)
for i, t in enumerate(v["tensors"]):
    at = names.index(t["name"])
    place = {"offset": None} if v["format"] == "gguf" else {}
    assert t == {**whole["tensors"][at], **place} and (loose or at == i), t
assert len(v["tensors"]) < len(names) and v["records"] == []
assert [v["summary"][k] for k in ("params", "size", "bits_per_weight", "type", "types")] == [None] * 4 + [[]]
assert v["summary"]["name"] == "stories260K" or n < 200
PY
}

@test "a file that ends within its tables: as much of them as is whole" {
    make_models
    hk-convert -q model.hk x.safetensors
    for m in model.hk model.gguf x.safetensors; do
        hk-inspect $m >whole.json
        for n in 130 200 2000 9700 11000 12000; do
            head -c $n $m >cut
            t hk-inspect cut
            assert_status 1
            assert_err_like '^hk-inspect: cut: .*, at 0x[0-9a-f]+$'
            printf %s "$output" >cut.json
            check_start whole.json $n cut.json || fail "$m $n"
        done
        assert_json 'len(v["metadata"]) >= 26 and len(v["tensors"]) > 5' True
    done
    head -c 12000 model.hk >cut
    t hk-inspect --summary cut
    assert_err 'hk-inspect: cut: tensor table at 9606 of 4444 bytes is not inside the file of 12000, at 0x30'
    assert_out 'file        cut
name        stories260K
family      llama
layers      5, hidden size 64
context     512
vocabulary  512
size        11.7 KiB, hk
cut         ends after 12000 bytes, within its tables: 28 of 28 keys and 25 of 47 tensors are there'
    head -c 12000 model.gguf >cut
    t hk-inspect --tensors --table cut
    assert_status 1
    assert_out_like 'token_embd.weight +f16 +512 x 64 +64.0 KiB +unknown'
    for n in $(seq 128 211 14050); do
        head -c "$n" model.hk >cut
        t hk-inspect --summary cut
        assert_status 1
        assert_out_has "ends after $n bytes"
    done
    # What has another fault is not shown.
    mkhk bad.hk '{"metadata":[["a",99,"x"],["b","string","y"]]}'
    head -c 140 bad.hk >cut
    t hk-inspect cut
    assert_fails 1 'hk-inspect: cut: '
}

@test "types of values, where they are asked for" {
    make_models
    t hk-inspect --metadata --typed model.gguf
    assert_json '[v["metadata"]["llama." + k] for k in ("context_length", "attention.layer_norm_rms_epsilon")]' '[{"type":"u32","value":512},{"type":"f32","value":1e-05}]'
    t hk-inspect --metadata --typed model.hk
    assert_json '[v["metadata"]["llama." + k] for k in ("context_length", "attention.layer_norm_rms_epsilon")]' '[{"type":"int64","value":512},{"type":"float64","value":1e-05}]'
    assert_json '[v["metadata"]["tokenizer.ggml." + k]["type"] for k in ("tokens", "scores", "token_type")]' '["array<string>","array<f32>","array<i32>"]'
    one=$(hk-inspect --metadata model.gguf | json - '{k: w for k, w in v["metadata"].items() if "token_type" not in k}')
    t hk-inspect --metadata model.hk
    assert_json '{k: w for k, w in v["metadata"].items() if "token_type" not in k and not k.startswith("hk.")}' "$one"
}

@test "tables for people" {
    mkhk x.hk '{"metadata":[["k","string","line\nbreak"],["n","int64",5]],
        "tensors":[{"name":"long.name","type":"f32","shape":[2,3],"data":{"zero":24}},
                   {"name":"s","type":"f32","shape":[],"data":{"zero":4}}],
        "appendix":[{"name":"rec","data":{"zero":2048},"crc":5}]}'
    t hk-inspect --table x.hk
    assert_status 0
    assert_out_has $'KEY  TYPE    VALUE\nk    string  line\\x0abreak\nn    int64   5\n'
    assert_out_like 'TENSOR +TYPE +SHAPE +SIZE +OFFSET'
    assert_out_like 'long.name  f32   2 x 3   24 B +[0-9]+'
    assert_out_like 's          f32   scalar   4 B '
    assert_out_like '0 +1  lora_adapter  rec +2.0 KiB  2023-11-14T22:13:20Z  first +bad'
    refute grep -q ' $' <<<"$output"
    t hk-inspect --table --header x.hk
    assert_out_has 'little_endian has_appendix tile_aligned'
    refute_out_has TENSOR
}

@test "a table's rows are not as wide as the longest name of a hostile file" {
    local long='{"repeat":["n",60000]}'
    mkhk x.hk "{\"metadata\":[[$long,\"int64\",5]],\"tensors\":[{\"name\":$long,\"type\":\"null_ref\",\"shape\":[1]}],
        \"appendix\":[{\"name\":$long,\"target\":$long}]}"
    t hk-inspect --table x.hk
    assert_status 0
    [[ ${#output} -lt 3000 ]] || fail 'wide rows'
}

@test "standard input, mapped or spooled" {
    mkhk x.hk
    t_from x.hk hk-inspect --header -
    assert_json 'v["file"]' -
    t_sh 'cat x.hk | hk-inspect --header -'
    assert_json 'v["header"]["tensor_count"]' 2
    t_sh 'cat x.hk | TMPDIR=/nonexistent hk-inspect -'
    assert_fails 2 'hk-inspect: standard input: cannot create a temporary file in /nonexistent (TMPDIR): No such file'
    t_sh 'printf "" | hk-inspect -'
    assert_fails 1 'standard input: '
}

@test "standard input without end that is no model is not copied" {
    t_sh 'timeout 20 hk-inspect - </dev/zero'
    assert_fails 1 'hk-inspect: standard input: not a .hk, GGUF or safetensors file: no known magic'
    t_sh 'yes | timeout 20 hk-inspect -'
    assert_fails 1 'no known magic'
}

@test "trouble with one file does not keep it from the others, and the worst status counts" {
    mkhk x.hk
    mkhk bad.hk --set header.tensor_count=3
    t hk-inspect --header bad.hk x.hk
    assert_status 1
    assert_json 'v["file"]' x.hk
    t hk-inspect --header x.hk missing bad.hk
    assert_status 2
    assert_json 'v["file"]' x.hk
    assert_err_has 'missing: '
    assert_err_has 'bad.hk: '
}

@test "a fault is one line with file, what and offset" {
    mkhk bad.hk --set header.tensor_count=30
    t hk-inspect bad.hk
    assert_fails 1
    assert_err_like '^hk-inspect: bad.hk: tensor_count 30 .*, at 0x10$'
}

@test "what is no model is told, never waited for" {
    mkdir dir
    make_unreadable secret
    ln -s nowhere dangling
    : >empty
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n' >lfs
    printf '<!DOCTYPE html><html>' >html
    printf 'PK\003\004xxxxxxxxxxxxxxxxxxxxxxx' >zip
    printf '\011\0\0\0\0\0\0\0{}      ' >safetensors
    head -c 500 /dev/zero >zeros
    for f in dir dangling /dev/null missing; do
        t timeout 5 hk-inspect $f
        assert_fails 2 "hk-inspect: $f: "
    done
    t_unprivileged hk-inspect "$PWD/secret"
    assert_fails 2 'Permission denied'
    for f in empty lfs html zip safetensors zeros; do
        t hk-inspect $f
        assert_fails 1 "hk-inspect: $f: "
    done
    t hk-inspect lfs
    assert_err_has LFS
    t hk-inspect html
    assert_err_has HTML
    t hk-inspect zip
    assert_err_has zip
    t hk-inspect safetensors
    assert_err_has safetensors
}

@test "any name of a file will do" {
    for name in 'a b' $'new\nline' --table "quote'\"" $'\xff\xfe' '$HOME'; do
        mkhk x.hk
        mv -- x.hk "$name"
        t hk-inspect --header -- "$name"
        assert_status 0
        assert_json 'v["format"]' hk
        rm -- "$name"
    done
}

@test "a full disk is an error, a reader that leaves is not" {
    mkhk x.hk '{"metadata":[["k","bytes",{"zero":1000000}]]}'
    t_sh 'hk-inspect --full x.hk >/dev/full'
    assert_fails 2 'hk-inspect: standard output: cannot write: No space left on device'
    t bash -c 'hk-inspect --full x.hk x.hk x.hk | head -c 10; echo " ${PIPESTATUS[0]}"'
    assert_err ''
    assert_out '{"file":"x 0'
}

@test "payloads are not touched" {
    mkhk x.hk '{"tensors":[{"name":"t","type":"f32","shape":[4],"data":{"zero":16}}]}'
    # A payload of 64 GiB that the disk does not hold.
    mkhk big.hk '{"tensors":[{"name":"t","type":"f32","shape":[17179869184],"data":{"zero":16},"data_size":68719476736}]}'
    truncate -s $((68719476736 + 256)) big.hk || skip 'SKIPPED: no sparse files here'
    t timeout 5 hk-inspect big.hk
    assert_status 0
    assert_json 'v["tensors"][0]["size"]' 68719476736
}

shards() {
    for i in 0 1; do
        mkhk m-0000$((i + 1))-of-00002.hk '{"header":{"split_index":'$i',"split_count":2},
            "metadata":[["split_index","int64",'$i']],
            "tensors":[{"name":"t'$i'","type":"f32","shape":[1],"data":{"f32":['$i'.5]}}]}'
    done
}

@test "any shard stands for the whole set" {
    shards
    t hk-inspect m-00002-of-00002.hk
    assert_status 0
    assert_json '[v["parts"],v["header"]["split_count"],v["metadata"]["split_index"]]' '[2,2,0]'
    assert_json '[(t["name"],t["part"]) for t in v["tensors"]]' '[["t0",0],["t1",1]]'
    assert_json 'v["size"]' $(($(stat -c %s m-00001-of-00002.hk) + $(stat -c %s m-00002-of-00002.hk)))
    t hk-dequant --text m-00001-of-00002.hk t1
    assert_out 1.5
    rm m-00001-of-00002.hk
    t hk-inspect m-00002-of-00002.hk
    assert_fails 1 '1 of 2 files are missing: m-00001-of-00002.hk'
}

@test "an output is no shard of its input" {
    shards
    t hk-dequant -f -o m-00002-of-00002.hk m-00001-of-00002.hk t0
    assert_fails 2 'the output is the input file'
    t hk-inspect m-00001-of-00002.hk
    assert_status 0
}

@test "every malformed GGUF of the fixtures: refused in one line, or read; in a second and 64 MiB" {
    need_shared
    t /usr/bin/python3 - "$SHARED/fixtures/malformed" <<'PY'
import json, os, resource, subprocess, sys
folder, bad = sys.argv[1], []
entries = [e for e in json.load(open(folder + "/index.json")) if e["format"] == "gguf"]
assert len(entries) > 50
for e in entries:
    path = folder + "/" + e["file"]
    p = subprocess.Popen(["hk-inspect", "--full", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.stdout.read(), p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    good = {"reject": (1,), "accept": (0,), "either": (0, 1)}[e["expect"]]
    ok = code in good and usage.ru_utime + usage.ru_stime < 1
    ok = ok and (os.environ.get("SAN") or usage.ru_maxrss < 65536)
    if code == 0:
        json.loads(out)
        ok = ok and err == b""
    else:
        ok = ok and (out == b"" or json.loads(out)["cut"]) and err.count(b"\n") == 1
        ok = ok and err.startswith(b"hk-inspect: " + path.encode() + b": ")
    if not ok:
        bad.append("%s (%s): %d %d KiB %s" % (e["file"], e["expect"], code, usage.ru_maxrss, err))
print("\n".join(bad))
PY
    assert_out ''
    assert_err ''
}
