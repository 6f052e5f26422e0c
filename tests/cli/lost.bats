# What another format's readers will not see is told, and what comes in goes out again or is refused
# when it comes in.
load common.bash

mkst() { "$PYTHON" "$ROOT/tests/lib/mkst.py" "$@"; }

# ---- safetensors that only safetensors has ----

# NAME is hk-inspect's, DTYPE the file's.
ONLY='fp8_e8m0 F8_E8M0 [4]
fp8_e4m3fnuz F8_E4M3FNUZ [5]
fp8_e5m2fnuz F8_E5M2FNUZ [1]
fp6_e2m3 F6_E2M3 [2,2]
fp6_e3m2 F6_E3M2 [8]
fp4_e2m1 F4 [2,3]
complex64 C64 [3]'

@test "dtypes that .hk has not are listed, verified, hashed and compared, and refused by name elsewhere" {
    local name dtype shape to file
    while read -r name dtype shape; do
        mkst make a.safetensors "{\"x\":[\"$dtype\",$shape],\"y\":[\"F32\",[2]]}"
        t hk-inspect a.safetensors
        assert_status 0
        assert_json 'v["tensors"][0]["type"]' "$name"
        t hk-verify a.safetensors
        assert_status 0
        assert_json 'v["valid"], v["warnings"]' '[true,[]]'
        t hk-hash a.safetensors
        assert_status 0
        assert_out_has "$(mkst show a.safetensors | json - 'v["tensors"][0][5]')  a.safetensors:tensor:x"
        t hk-diff a.safetensors a.safetensors
        assert_status 0
        hk-convert -f a.safetensors b.safetensors
        for file in a b; do
            mkst show $file.safetensors | json - '[t[:3] + t[4:] for t in v["tensors"]]' >$file.json
        done
        assert_same a.json b.json
        for to in hk gguf; do
            t hk-convert a.safetensors "c.$to"
            assert_fails 1 "tensor x"
            assert_err_has "$name"
        done
    done <<<"$ONLY"
}

@test "a set of such shards becomes one file" {
    mkst make model-00001-of-00002.safetensors '{"a":["F4",[2]]}'
    mkst make model-00002-of-00002.safetensors '{"b":["C64",[1]],"c":["F8_E8M0",[2]]}'
    cat >model.safetensors.index.json <<'JSON'
{"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors",
"c":"model-00002-of-00002.safetensors"}}
JSON
    hk-convert model.safetensors.index.json whole.safetensors
    t hk-inspect whole.safetensors
    assert_json '[x["type"] for x in v["tensors"]]' '["fp4_e2m1","complex64","fp8_e8m0"]'
}

@test "scales of E8M0 are powers of two, and what has no decoder says so" {
    t hk-dequant --text "$FIX/cases/c046-e8m0.safetensors" s
    assert_status 0
    mkst make a.safetensors '{"e":["F8_E8M0",[3]],"x":["F4",[3,2]],"y":["F6_E2M3",[4]]}'
    "$PYTHON" - <<'PY'
b = bytearray(open("a.safetensors", "rb").read())
b[-9:-6] = bytes([0, 127, 255])
open("a.safetensors", "wb").write(b)
PY
    t hk-dequant --json a.safetensors e
    assert_status 0
    assert_json 'v["data"]' '[5.877472e-39,1.0,null]'
    t hk-dequant a.safetensors x
    assert_fails 1 'tensor x: type fp4_e2m1 is not decoded'
}

@test "elements that do not fill their last byte are refused" {
    printf '\x41\0\0\0\0\0\0\0%s\1\2' '{"x":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}             ' >a.safetensors
    t hk-inspect a.safetensors
    assert_fails 1 "tensor x: 3 elements of fp4_e2m1 are not whole bytes"
}

# ---- split patterns on the way to GGUF ----

# hf DIR CHANGE: DIR is c020-digits with tokenizer.json changed by the Python statements CHANGE, in which t is it,
# c config.json, s tokenizer_config.json and d the directory.
hf() {
    cp -r "$FIX/cases/c020-digits" "$1"
    chmod -R u+w "$1"
    "$PYTHON" - "$1" "$2" <<'PY'
import json, os, sys
d, change = sys.argv[1:]
names = {"t": "tokenizer.json", "c": "config.json", "s": "tokenizer_config.json"}
x = {k: json.load(open(os.path.join(d, n))) for k, n in names.items()}
x.update(d=d, json=json, os=os)
def split(p, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": p}, "behavior": behavior, "invert": invert}
def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}
level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
word, short = r"[^\r\n\p{L}\p{N}]?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
rest = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
tekken = word + upper + "*" + lower + "+|" + word + upper + "+" + lower + r"*|\p{N}" + rest
gpt4o = word + upper + "*" + lower + "+" + short + "|" + word + upper + "+" + lower + "*" + short + r"|\p{N}{1,3}" + rest
cl100k = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
# As it is published: with the line ends themselves in it.
deepseek3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
             "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
x.update(split=split, sequence=sequence, level=level, tekken=tekken, gpt4o=gpt4o, cl100k=cl100k, deepseek3=deepseek3)
exec(change, x)
for k, n in names.items():
    json.dump(x[k], open(os.path.join(d, n), "w"))
PY
}

# splits PRE, WHOLE, NAME, LOST: a directory with these pre-tokenizers and ignore_merges becomes a GGUF whose
# tokenizer.ggml.pre is NAME (none), and what is told to be lost is LOST (nothing).
splits() {
    rm -rf dir
    hf dir "t['pre_tokenizer'] = $1; t['model']['ignore_merges'] = $2"
    t hk-convert -f dir m.gguf
    assert_status 0
    if [[ -n $4 ]]; then assert_err_has "lost: $4"; else assert_err ''; fi
    t hk-meta get m.gguf tokenizer.ggml.pre
    assert_out "$3"
    # The own key stays, so that the way back does not depend on a name.
    t hk-convert -f m.gguf m.hk
    t hk-tokenize m.hk 'ab 12345 cd'
    assert_status 0
}

@test "split patterns go to GGUF by the name that llama.cpp has for them" {
    splits "sequence({'type': 'Digits', 'individual_digits': True}, dict(level, use_regex=True))" False smollm ''
    splits "sequence(split('\\\\p{N}'), dict(level, use_regex=True))" False smollm ''
    splits "dict(level, use_regex=True)" False gpt-2 ''
    splits "sequence(split(gpt4o), level)" False gpt-4o ''
    splits "sequence(split(tekken), level)" True tekken ''
    splits "sequence(split(tekken), level)" False tekken "key tokenizer.ggml.ignore_merges is false"
    splits "sequence(split(cl100k), level)" False dbrx ''
    splits "sequence(split(cl100k), level)" True llama-bpe ''
    splits "sequence(split('\\\\p{N}{1,3}'), split('[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+'), \
split(deepseek3), level)" False deepseek-v3 ''
    splits "sequence(split('[\\r\\n]'), split('\\\\s?\\\\p{L}+'), split('\\\\s?\\\\p{P}+'), \
split('[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+'), split('\\\\p{N}'), level)" False deepseek-coder ''
}

@test "split patterns that llama.cpp has no name for are told to be lost" {
    splits "sequence(split('\\\\p{L}+'), level)" False '' "key tokenizer.hk.pre_regex: llama.cpp has no name"
    splits "sequence({'type': 'Digits', 'individual_digits': False}, dict(level, use_regex=True))" False '' \
        "key tokenizer.hk.pre_regex: llama.cpp has no name"
    splits "sequence(split('\\\\p{N}{3}'), dict(level, use_regex=True))" False '' \
        "key tokenizer.hk.pre_regex: llama.cpp has no name"
    # A name that somebody set, and that means something else.
    hk-convert -f "$FIX/cases/c020-digits" m.hk
    hk-meta --type string set m.hk tokenizer.ggml.pre qwen2
    t hk-convert -f m.hk m.gguf
    assert_status 0
    assert_err_has "lost: key tokenizer.hk.pre_regex: llama.cpp goes by 'tokenizer.ggml.pre', which is 'qwen2'"
}

@test "only patterns that leave nothing out may be given as what stays" {
    hf dir "t['pre_tokenizer'] = sequence(split(' ?[^(\\\\s|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+', \
'Removed', True), level)"
    t hk-convert dir m.hk
    assert_fails 1 'Split with behavior'
}

@test "every name of split patterns is run by the tokenizer, and gives texts back" {
    local name count=0 text=$'Hello HelloWorld  iOS13, don\'t we\'LL 1234567 a1b2\n\n x\u4e2d\u6587\u304b\u30ab \ud55c\uad6d\uc5b4 \u0928\u093f {}[]|~\t\r\n end '
    hk-convert -f "$FIX/cases/c020-digits" m.hk
    hk-meta delete m.hk tokenizer.hk.pre_regex
    while read -r name; do
        count=$((count + 1))
        hk-meta --type string set m.hk tokenizer.ggml.pre "$name"
        hk-tokenize --no-bos --ids m.hk "$text" >ids || fail "$name"
        hk-detokenize --json --ids m.hk <ids >back.json
        [[ $(json back.json 'v["text"] + "."') == "$text." ]] || fail "$name"
    done < <(sed -n 's/^    ROW("\([^"]*\)".*/\1/p' "$ROOT/libhkfmt/model/pre_patterns.c")
    [[ $count -ge 70 ]] || fail "only $count names"
    hk-meta --type string set m.hk tokenizer.ggml.pre no-such
    t hk-tokenize m.hk x
    assert_fails 1 'unknown pre-tokenizer "no-such"'
}

# ---- what else llama.cpp does not see ----

@test "steps and settings that llama.cpp has not are told to be lost, each by its key" {
    local change expected
    while IFS='|' read -r change expected; do
        rm -rf dir
        hf dir "$change"
        t hk-convert -f dir m.gguf
        assert_status 0
        assert_err_has "lost: $expected"
        [[ $(grep -c lost: <<<"$stderr") -eq 1 ]] || fail 'expected one line'
        # Over .hk it is the same line.
        hk-convert -f dir m.hk
        t hk-convert -f m.hk n.gguf
        assert_err_has "lost: $expected"
        assert_same m.gguf n.gguf
    done <<'TABLE'
t['normalizer'] = {'type': 'NFC'}|key tokenizer.hk.normalizer is 'nfc': llama.cpp does not normalise texts
t['added_tokens'][0]['lstrip'] = s['added_tokens_decoder']['258']['lstrip'] = True|key tokenizer.hk.added_flags: llama.cpp does not know lstrip, rstrip and single_word, which 1 added token has
t['added_tokens'][0]['single_word'] = s['added_tokens_decoder']['258']['single_word'] = True|key tokenizer.hk.added_flags
c['eos_token_id'] = [259, 3]|key tokenizer.hk.eog_ids: llama.cpp does not know that token 3 (
json.dump({'temperature': 0.6, 'top_p': 0.9}, open(d + '/generation_config.json', 'w'))|key hk.hf.generation_config: llama.cpp does not see temperature, top_p
TABLE
    hf whole ''
    printf '{"eos_token_id":259,"bos_token_id":258}' >whole/generation_config.json
    t hk-convert whole w.gguf
    assert_status 0
    assert_err ''
}

@test "a kind of leading blank that llama.cpp has not is told to be lost" {
    hk-convert "$FIX/models/stories260K-f16.gguf" m.hk
    t hk-convert m.hk none.gguf
    assert_status 0
    assert_err ''
    hk-meta set m.hk tokenizer.hk.space_prefix first
    t hk-convert m.hk m.gguf
    assert_status 0
    assert_err_has "lost: key tokenizer.hk.space_prefix"
}

@test "keys that change a text and that no file of a directory says are told to be lost, and stay" {
    hk-convert "$FIX/models/stories260K-f16.gguf" m.hk
    t hk-convert --to hf m.hk plain
    assert_status 0
    refute_err_has "no file beside"
    hk-meta set --type int m.hk tokenizer.ggml.fim_pre_token_id 5
    hk-meta set m.hk general.sampling.temp 0.7
    hk-meta set m.hk general.author Someone
    t hk-convert --to hf m.hk dir
    assert_status 0
    for key in tokenizer.ggml.fim_pre_token_id general.sampling.temp; do
        assert_err_has "lost: key $key: no file beside the weights says it"
    done
    refute_err_has general.author
    hk-convert dir back.hk
    [[ $(hk-meta get back.hk tokenizer.ggml.fim_pre_token_id) == 5 ]]
}

# ---- what comes in goes out again ----

@test "named chat templates come from a list and from files, and go back with their names" {
    local d
    hf list "s['chat_template'] = [{'name': 'default', 'template': 'D'}, {'name': 'rag', 'template': 'R'}, \
{'name': 'tool_use', 'template': 'T'}]"
    hf files "os.mkdir(d + '/additional_chat_templates'); open(d + '/chat_template.jinja', 'w').write('D'); \
open(d + '/additional_chat_templates/tool_use.jinja', 'w').write('T'); \
open(d + '/additional_chat_templates/rag.jinja', 'w').write('R'); s['chat_template'] = 'another'"
    for d in list files; do
        t hk-convert "$d" "$d.hk"
        assert_status 0
        t hk-meta get "$d.hk" tokenizer.chat_template
        assert_out D
        t hk-meta get "$d.hk" tokenizer.chat_template.rag
        assert_out R
        t hk-meta --json get "$d.hk" tokenizer.chat_templates
        assert_out_has '["rag","tool_use"]'
        t hk-convert --to hf "$d.hk" "$d.back"
        assert_status 0
        assert_err ''
        t json "$d.back/tokenizer_config.json" '{x["name"]: x["template"] for x in v["chat_template"]}'
        assert_out '{"default":"D","rag":"R","tool_use":"T"}'
        # llama.cpp asks for tokenizer.chat_template.NAME too.
        t hk-convert "$d.hk" "$d.gguf"
        assert_err ''
        hk-convert "$d.back" "$d.again.hk"
        t hk-meta get "$d.again.hk" tokenizer.chat_template.tool_use
        assert_out T
    done
}

@test "files that cannot be named or read as text are refused when they come in" {
    t hk-convert "$FIX/cases/c032-template-not-utf8" m.hk
    assert_fails 1 'chat_template.jinja: text that is not UTF-8'
    assert_files
    hf more "os.mkdir(d + '/additional_chat_templates'); \
open(d + '/additional_chat_templates/x.jinja', 'wb').write(b'\\xff')"
    t hk-convert more m.hk
    assert_fails 1 'additional_chat_templates/x.jinja: text that is not UTF-8'
    mv more/additional_chat_templates/x.jinja more/additional_chat_templates/$'\xff.jinja'
    t hk-convert more m.hk
    assert_fails 1 'a name that is too long or not UTF-8'
}

# unreadable DIR: the tokenizer of fz-hf-export-unreadable.bin, with weights.
unreadable() {
    "$PYTHON" - "$FIX/cases/hostile/fz-hf-export-unreadable.bin" "$1" <<'PY'
import json, math, os, struct, sys
parts, d = open(sys.argv[1], "rb").read().split(b"\n%%\n"), sys.argv[2]
os.mkdir(d)
for name, i in (("config.json", 0), ("tokenizer_config.json", 2), ("tokenizer.model", 5)):
    open(os.path.join(d, name), "wb").write(parts[i])
layer = {"self_attn.q_proj": [4, 4], "self_attn.k_proj": [2, 4], "self_attn.v_proj": [2, 4], "self_attn.o_proj": [4, 4],
         "mlp.gate_proj": [6, 4], "mlp.up_proj": [6, 4], "mlp.down_proj": [4, 6], "input_layernorm": [4],
         "post_attention_layernorm": [4]}
shapes = {"model.layers.0.%s.weight" % n: s for n, s in layer.items()}
shapes.update({"model.embed_tokens.weight": [300, 4], "model.norm.weight": [4]})
head, at = {}, 0
for n, s in shapes.items():
    head[n] = {"dtype": "F32", "shape": s, "data_offsets": [at, at + 4 * math.prod(s)]}
    at += 4 * math.prod(s)
text = json.dumps(head).encode()
open(os.path.join(d, "model.safetensors"), "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
PY
}

@test "a tokenizer.model that no tokenizer.json can equal is refused as it is beside one" {
    unreadable dir
    t hk-convert dir m.hk
    assert_fails 1 'tokenizer.model: no two pieces make "he" of what its text comes to'
}

@test "a directory that could not be read again is not written, and what it would replace stays" {
    hk-convert "$FIX/cases/c020-digits" m.hk
    # A GGUF may have as many templates as it likes, and names that no file of a directory has.
    hk-meta --type string set m.hk "tokenizer.chat_template.$(printf 'x%.0s' {1..70})" T
    t hk-convert --to hf m.hk dir
    assert_fails 1 'as a directory it could not be read again'
    assert_files m.hk
    hk-convert "$FIX/cases/c020-digits" good.hk
    hk-convert --to hf good.hk dir
    cp -r dir before
    t hk-convert -f --to hf m.hk dir
    assert_fails 1 'as a directory it could not be read again'
    diff -r dir before
    assert_files m.hk good.hk dir before
}

# Seed 65 is a template that is not UTF-8, which came in and did not go out.
@test "odd model directories, at random, are refused in one clear line, or go out again to a fixed point" {
    export TMPDIR=$PWD
    t "$PYTHON" "$ROOT/tests/cli/odd_dirs.py" try "$FIX/cases/untied:$FIX/cases/c020-digits" "$([[ -n ${HK_FULL:-} ]] \
        && echo 1000 || echo 60)" 10
    assert_status 0
    assert_out_like '[0-9]+ same'
}

# ---- what is not said ----

@test "a rope, token types or split patterns that a file does not say are told by inspect, verify and convert" {
    local key expected program
    hk-convert "$FIX/cases/base.gguf" base.hk
    hf dir "c.pop('rope_theta', None); c.pop('rope_parameters', None)"
    while IFS='|' read -r key expected; do
        cp base.hk m.hk
        hk-meta delete m.hk "$key"
        for program in 'hk-inspect m.hk' 'hk-verify m.hk' 'hk-convert -f m.hk m.gguf' 'hk-inspect m.gguf'; do
            t_sh "$program"
            assert_status 0
            assert_err_has "note: no key $key: $expected"
            [[ $(grep -c note: <<<"$stderr") -eq 1 ]] || fail 'expected one line'
        done
    done <<'TABLE'
llama.rope.freq_base|10000 is taken
tokenizer.ggml.token_type|what the spelling and the special ids of the tokens tell is taken
TABLE
    cp base.hk m.hk
    hk-meta --type float set m.hk llama.rope.scaling.factor 2
    t hk-inspect m.hk
    assert_err_has "note: no key llama.rope.scaling.type: linear, as there is a factor, is taken"
    for program in 'hk-inspect dir' 'hk-verify dir' 'hk-convert dir d.hk'; do
        t_sh "$program"
        assert_status 0
        assert_err_has 'note: no rope_theta in config.json: 10000 is taken'
    done
    hk-convert -f "$FIX/cases/c020-digits" m.hk
    hk-meta delete m.hk tokenizer.hk.pre_regex
    hk-meta delete m.hk tokenizer.ggml.pre
    t hk-verify m.hk
    assert_err_has "note: no key tokenizer.ggml.pre: 'default' is taken"
    for program in 'hk-inspect base.hk' 'hk-verify base.hk' 'hk-convert base.hk base2.gguf' \
        'hk-inspect --header m.hk'; do
        t_sh "$program"
        assert_err ''
    done
}

@test "a directory of any family converts in and out again, or is refused in one line that says what it is" {
    need_shared
    local config dir
    for config in "$SHARED"/fixtures/families/*/hf/config.json; do
        dir=${config%/config.json}
        rm -rf x.hk o y.hk
        t hk-convert "$dir" x.hk
        if [[ $status -eq 0 ]]; then
            hk-convert --to hf x.hk o
            hk-convert o y.hk
            hk-diff --tensors x.hk y.hk
        else
            assert_fails 1 config.json
            [[ ! -e x.hk ]]
        fi
    done
}
