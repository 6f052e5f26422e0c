# Adapters converted between PEFT and GGUF: hk-convert --base, hk-log --to.
load common.bash

setup() {
    common_setup
    M=$FIX/models/stories260K-f16.gguf # 8 heads, 4 of keys
    TRAINED=$SHARED/fixtures/trained
    ADAPTERS=$SHARED/fixtures/adapters
    printf '{"layers":5,"width":64,"kv_width":32,"ffn":172}' >sizes
}

mklora() { "$PYTHON" "$ROOT/tests/lib/mklora.py" "$@"; }
# peft DIR [CONFIG [SEED [MORE]]]: an adapter for the bundled model.
peft() {
    mkdir "$1"
    mklora make "$1" sizes "${@:2}"
}
# dump GGUF: its keys; and its tensors, sorted, with type, dimensions and digest.
dump() { "$PYTHON" "$ROOT/tests/lib/ggufdump.py" --strict "$1" | sort; }
keys() { dump "$1" | grep '^key'; }
tensors() { dump "$1" | grep '^tensor'; }
assert_tensors() { diff <(tensors "$1") <(tensors "$2") >&2 || fail "tensors differ: $1 $2"; }
cosine() { "$PYTHON" "$ROOT/tests/cli/cosine.py" "$@"; }
ids() {
    "$PYTHON" -c 'import struct,sys
sys.stdout.buffer.write(struct.pack("<48I", 1, *(3 + i * 37 % 500 for i in range(47))))' >ids
}
# logits OUT FILE OPTION...: of the tokens in ids.
logits() { hk-perplexity --ids --ctx 64 -f --logits "$1" "${@:3}" "$2" <ids >/dev/null 2>&1; }
# with_adapter OUT ADAPTER: the logits with it in a version history of m.hk.
with_adapter() {
    cp m.hk with.hk
    hk-append --lora "$2" --name a with.hk
    logits "$1" with.hk --adapter a --activations f32
}

# ---- what is written ----

@test "PEFT becomes the GGUF that llama.cpp's converter makes" {
    peft one
    mklora gguf one want.gguf 8 4
    hk-convert "$M" m.hk
    for base in "$M" m.hk; do
        t hk-convert --base "$base" -f one one.gguf
        assert_status 0
        assert_err ''
        assert_tensors one.gguf want.gguf
        diff <(keys one.gguf) <(keys want.gguf)
    done
    t hk-convert --base "$M" one/adapter_model.safetensors --to gguf -
    assert_status 0
    hk-convert --base "$M" one/adapter_model.safetensors --to gguf - >piped.gguf
    assert_same piped.gguf one.gguf
}

@test "the model that an adapter was made for goes both ways" {
    while read -r name want; do
        rm -rf one back
        peft one "{\"base_model_name_or_path\":\"$name\"}"
        hk-convert -f --base "$M" one one.gguf
        keys one.gguf | grep -o "general.base_model[a-z0-9_.]*'.*" | sed "s/'//g" | paste -sd' ' >got
        [[ $(<got) == "$want" ]] || fail "$name: $(<got)"
        hk-convert --base "$M" --to peft one.gguf back
        [[ $(json back/adapter_config.json 'v["base_model_name_or_path"]') == "$name" ]]
    done <<'ROWS'
org/model-1.0 general.base_model.0.name string bmodel-1.0 general.base_model.0.organization string borg general.base_model.0.repo_url string bhttps://huggingface.co/org/model-1.0 general.base_model.count u32 1
./org/model general.base_model.0.name string b./org/model general.base_model.count u32 1
model general.base_model.0.name string bmodel general.base_model.count u32 1
ROWS
}

@test "there and back: the same tensors, and the same GGUF" {
    peft one '{"r":2,"lora_alpha":5}'
    hk-convert --base "$M" one one.gguf
    hk-convert --base "$M" --to peft one.gguf back
    mklora same one/adapter_model.safetensors back/adapter_model.safetensors
    hk-convert --base "$M" back again.gguf
    assert_same again.gguf one.gguf
    t json back/adapter_config.json '[v[k] for k in ("peft_type","r","lora_alpha","rank_pattern","target_modules","bias")]'
    assert_out '["LORA",2,5.0,{},["q_proj","k_proj","v_proj","o_proj","gate_proj","down_proj"],"none"]'
    [[ $(ls back) == $'adapter_config.json\nadapter_model.safetensors' ]]
}

@test "modules that not all layers have are targets by their whole name" {
    peft one
    "$PYTHON" - "$ROOT/tests/lib" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import mklora
tensors, metadata = mklora.read("one/adapter_model.safetensors")
tensors = {k: v for k, v in tensors.items() if ".v_proj." in k or "layers.1.self_attn.q_proj" in k}
mklora.write("one/adapter_model.safetensors", tensors, metadata)
PY
    hk-convert --base "$M" one one.gguf
    hk-convert --base "$M" --to peft one.gguf back
    t json back/adapter_config.json 'sorted(v["target_modules"])'
    assert_out '["model.layers.1.self_attn.q_proj","v_proj"]'
}

@test "f16 and bf16 stay what they are, other types become f32" {
    local tied='hk-convert: one.gguf: lost: token_embd.weight: llama.cpp cannot use a pair of the embedding where one matrix is embedding and output head'
    for dtype in F16 BF16 F64; do
        rm -rf one
        peft one '{}' 1 embedding
        "$PYTHON" - $dtype <<'PY'
import json, struct, sys
path, dtype = "one/adapter_model.safetensors", sys.argv[1]
raw = open(path, "rb").read()
n, = struct.unpack("<Q", raw[:8])
head, out = json.loads(raw[8:8 + n]), b""
for name, t in head.items():
    if name == "__metadata__":
        continue
    data = raw[8 + n:][slice(*t["data_offsets"])]
    values = struct.unpack("<%df" % (len(data) // 4), data)
    data = (struct.pack("<%de" % len(values), *values) if dtype == "F16" else
            struct.pack("<%dd" % len(values), *values) if dtype == "F64" else
            b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4)))
    head[name] = {"dtype": dtype, "shape": t["shape"], "data_offsets": [len(out), len(out) + len(data)]}
    out += data
text = json.dumps(head).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + out)
PY
        t hk-convert -f --base "$M" one one.gguf
        assert_status 0
        case $dtype in
        F64) assert_err_has 'lost: ' && assert_err_has 'f64' ;;
        *) assert_err "$tied" ;;
        esac
        [[ $(tensors one.gguf | awk '{ print $3 }' | sort -u) == "$(case $dtype in F16) echo 1 ;; BF16) echo 30 ;; *) echo 0 ;; esac)" ]]
        rm -rf back
        hk-convert --base "$M" --to peft one.gguf back
        [[ $dtype == F64 ]] || mklora same one/adapter_model.safetensors back/adapter_model.safetensors
        hk-convert -f --base "$M" back again.gguf 2>/dev/null
        assert_same again.gguf one.gguf
    done
}

# ---- scales ----

@test "scales: one alpha where one will do, else the rest goes into lora_b and is told" {
    ids
    hk-convert "$M" m.hk
    while read -r alpha lost config; do
        rm -rf one
        peft one "$config"
        t hk-convert -f --base m.hk one one.gguf
        assert_status 0
        if [[ $lost == - ]]; then
            assert_err ''
        else
            [[ $(wc -l <<<"$stderr") -eq 1 ]] && assert_err_has "one.gguf: lost: $lost"
        fi
        [[ $(keys one.gguf | grep -o 'alpha.*') == "alpha' f32 $(printf '%d' 0x"$alpha")" ]] || fail "$config: $(keys one.gguf)"
        with_adapter peft.f32 one
        with_adapter gguf.f32 one.gguf
        cosine 0.99999999 peft.f32 gguf.f32
    done <<'ROWS'
40800000 - {}
40200000 - {"lora_alpha":2.5}
3dcccccd the {"lora_alpha":0.1}
40b504f3 the {"use_rslora":true}
40800000 scales {"alpha_pattern":{"q_proj":8}}
40800000 scales {"alpha_pattern":{"layers.0.self_attn.q_proj":-3}}
41000000 scales {"alpha_pattern":{"(q|k|v|o|gate)_proj":8}}
ROWS
}

# ---- what is refused ----

@test "what GGUF cannot carry is refused by name, and nothing is written" {
    while read -r more said config; do
        rm -rf one
        peft one "$config" 1 "$more"
        t hk-convert --base "$M" one out.gguf
        assert_fails 1 "hk-convert: one: "
        assert_err_has "$said"
        [[ ! -e out.gguf ]]
    done <<'ROWS'
magnitudes lora_magnitude_vector {"use_dora":true}
norm model.norm.weight {"modules_to_save":["norm"]}
- peft_type {"peft_type":"LOHA"}
- fan_in_fan_out {"fan_in_fan_out":true}
ROWS
    rm -rf one
    peft one '{"lora_alpha":1e-30,"alpha_pattern":{"q_proj":1e30}}'
    t hk-convert --base "$M" one out.gguf
    assert_status 1
    assert_err_has 'blk.0.attn_q.weight.lora_b: multiplied by 1e+60 for the scale of its module, it is outside of f32'
    assert_files one sizes
}

@test "an adapter without --base is refused, whatever it is and whatever it would become" {
    peft one
    hk-convert --base "$M" one one.gguf
    hk-convert --base "$M" one payload.safetensors
    for in in one one/adapter_model.safetensors one.gguf payload.safetensors; do
        for out in out.hk out.gguf out.safetensors out/; do
            t hk-convert $in $out
            assert_fails 1 "hk-convert: $in: is a low-rank adapter, not a model: name its model with --base"
        done
    done
    t_sh 'cat one.gguf | hk-convert - out.hk'
    assert_fails 1 '--base'
    assert_files one one.gguf payload.safetensors sizes
}

@test "--base with a model, with options of models, with no place for an adapter" {
    peft one
    hk-convert --base "$M" one one.gguf
    while read -r want said words; do
        # shellcheck disable=SC2086 # words
        t hk-convert $words
        assert_fails "$want" "$said"
    done <<ROWS
1 which --base $M $M out.gguf
1 which --base $M sizes out.gguf
2 hk-append --base $M one out.hk
2 hk-append --base $M one out
2 --split-size --base $M --split-size 1M one out.gguf
2 --type --base $M --type f16 --to peft one out
2 --no-history --base $M --no-history one out.gguf
2 --max-output --base $M --max-output 1G one out.gguf
2 --align --base $M --align 64 --to peft one out
2 --base --to peft $M out
2 output --base $M --to peft one -
2 input --base - - out.gguf
2 none.gguf --base none.gguf one out.gguf
2 none --base $M none out.gguf
ROWS
    assert_files one one.gguf sizes
}

@test "an adapter for another model is refused" {
    printf '{"layers":6,"width":64,"kv_width":32,"ffn":172}' >sizes
    peft deep
    t hk-convert --base "$M" deep out.gguf
    assert_fails 1 'layers.5'
    [[ ! -e out.gguf ]]
}

# ---- outputs ----

@test "an output that exists, or is an input, is left alone" {
    peft one
    cp -r one old
    cp "$M" base.gguf
    hk-convert --base base.gguf one one.gguf
    hk-convert --base base.gguf --to peft one.gguf dir
    cp one.gguf old.gguf
    for out in one.gguf dir; do
        t hk-convert --base base.gguf --to "$([[ $out == dir ]] && echo peft || echo gguf)" one $out
        assert_fails 2 exists
    done
    ln one.gguf link.gguf
    while read -r in to out; do
        t hk-convert -f --base base.gguf --to "$to" "$in" "$out"
        assert_fails 2 "$out: "
    done <<'ROWS'
one.gguf gguf one.gguf
one.gguf gguf link.gguf
one gguf base.gguf
one peft one
one/adapter_model.safetensors peft one
one gguf one/adapter_model.safetensors
one safetensors one/adapter_model.safetensors
one gguf one/adapter_config.json
one/adapter_model.safetensors gguf one/adapter_config.json
ROWS
    hk-convert base.gguf hf/
    cp -r hf before
    for out in hf/config.json hf/tokenizer.json hf/model.safetensors; do
        t hk-convert -f --base hf --to gguf one $out
        assert_fails 2 'the output is the input'
    done
    diff -r hf before
    diff -r one old
    assert_same one.gguf old.gguf
    assert_same base.gguf "$M"
    : >dir/notes
    t hk-convert -f --base base.gguf --to peft one dir
    assert_fails 2 notes
    rm dir/notes
    t hk-convert -f --base base.gguf --to peft one dir
    assert_status 0
    mklora same one/adapter_model.safetensors dir/adapter_model.safetensors
}

@test "payloads, pipes and standard output" {
    peft one
    hk-convert --base "$M" one one.gguf
    hk-convert --base "$M" one one.safetensors
    hk-convert "$M" m.hk
    hk-append --lora one --name a m.hk
    hk-log -x a m.hk | cmp - one.safetensors
    t_sh 'cat "$1" | hk-convert --base "$2" --to gguf - - | cmp - one.gguf' one.safetensors "$M"
    assert_status 0
    t_sh 'cat "$1" | hk-convert --base "$2" --to peft - dir' one.gguf "$M"
    assert_status 0
    mklora same one/adapter_model.safetensors dir/adapter_model.safetensors
}

# ---- hk-log ----

@test "hk-log --to writes a record as either form" {
    peft one '{"target_modules":["q_proj","x"]}'
    hk-convert --base "$M" one one.gguf
    hk-convert "$M" m.hk
    hk-append --lora one --name peft --lora one.gguf --name gguf -z m.hk
    for name in peft gguf 0 1; do
        t hk-log -x $name --to gguf -f -o out.gguf m.hk
        assert_status 0
        assert_same out.gguf one.gguf
        hk-log -x $name --to gguf m.hk | cmp - one.gguf
        t hk-log -x $name --to peft -f -o out m.hk
        assert_status 0
        mklora same one/adapter_model.safetensors out/adapter_model.safetensors
    done
    hk-log -x peft --to peft -f -o out m.hk
    [[ $(json out/adapter_config.json 'v["target_modules"]') == '["q_proj","x"]' ]]
}

@test "hk-log --to: what is no adapter, and words that do not go together" {
    peft one
    hk-convert "$M" m.hk
    echo '{}' >eval
    echo bytes >adapter.bin
    hk-append --lora one --name a --eval eval --name e --lora adapter.bin --name b m.hk
    cp m.hk old.hk
    while read -r want said words; do
        # shellcheck disable=SC2086 # words
        t hk-log $words m.hk
        assert_fails "$want" "$said"
    done <<'ROWS'
1 adapter -x e --to gguf -o out.gguf
1 --raw -x b --to gguf -o out.gguf
1 record -x c --to gguf -o out.gguf
2 --output -x a --to peft
2 --raw -x a --raw --to gguf -o out.gguf
2 --extract --to gguf
2 gguf -x a --to hk -o out.hk
2 input -x a --to gguf -f -o m.hk
2 directory -x a --to gguf -o one
2 directory -x a --to peft -f -o m.hk
ROWS
    assert_same m.hk old.hk
    assert_files adapter.bin eval m.hk old.hk one sizes
}

# ---- trained models: llama.cpp's converter, and its loader ----

@test "adapters of each kind become the tensors that llama.cpp's converter gives, and come back" {
    need_shared
    local n=0
    for dir in "$ADAPTERS"/*/*; do
        [[ -d $dir ]] || continue
        local base what=''
        base=$TRAINED/$(basename "$(dirname "$dir")")
        case $dir in
        *dora) what=lora_magnitude_vector ;;
        *save*) what='trained whole' ;;
        *trainable*) what=trainable_tokens_delta ;;
        esac
        t hk-convert -f --base "$base" "$dir" out.gguf
        rm -rf back
        if [[ -n $what ]]; then
            assert_fails 1 "$what"
            hk-convert --base "$base" --to peft "$dir" back # goes as it is
            assert_same back/adapter_model.safetensors "$dir/adapter_model.safetensors"
            continue
        fi
        assert_status 0
        case $dir in
        *rslora*) assert_err_has 'lost: scales of 8 modules' ;;
        *qwen3/embed | *qwen3/lm-head) assert_err_has 'lost: ' ;;
        *) assert_err '' ;;
        esac
        if [[ -f $dir/adapter.gguf && $dir != *rslora* ]]; then
            assert_tensors out.gguf "$dir/adapter.gguf"
            diff <(keys out.gguf | grep -v general.base_model) <(keys "$dir/adapter.gguf" |
                grep -E "'(general.(architecture|type)|adapter[.].*)'") >&2
            n=$((n + 1))
        fi
        hk-convert --base "$base" --to peft out.gguf back
        [[ $dir == *rslora* ]] || mklora same "$dir/adapter_model.safetensors" back/adapter_model.safetensors
        t hk-convert -f --base "$base" back again.gguf
        assert_status 0
        refute_err_has scales
        assert_same again.gguf out.gguf
    done
    [[ $n -eq 11 ]]
}

@test "the peer loads them, and they change its logits as they change hk's" {
    need_shared
    [[ -n ${PEER_LIB:-} ]] || skip "SKIPPED: needs the peer's library (PEER_LIB)"
    local n=0
    for base in tiny-llama tiny-qwen3; do
        head -c 160 "$TRAINED/$base/val.tokens.u32" >ids
        "$PYTHON" "$SHARED/peer/peer.py" quantize "$TRAINED/$base/$base-f16.gguf" base.gguf F32 >/dev/null 2>&1
        hk-convert -f base.gguf m.hk
        "$PYTHON" "$ROOT/tests/peer/lora.py" base.gguf none ids peer-base.f32
        logits base.f32 m.hk
        for dir in "$ADAPTERS/$base"/*; do
            hk-convert -f --base base.gguf "$dir" a.gguf 2>err || continue
            ! grep 'llama.cpp cannot use' err || continue
            "$PYTHON" "$ROOT/tests/peer/lora.py" base.gguf a.gguf ids peer.f32
            cp m.hk with.hk
            hk-append --lora "$dir" --name a with.hk
            logits hk.f32 with.hk --adapter a
            # On a base of f16 the peer rounds activations, which is much of what one layer changes.
            cosine 0.9999 peer.f32 hk.f32 peer-base.f32 base.f32
            n=$((n + 1))
        done
    done
    [[ $n -eq 12 ]]
}
