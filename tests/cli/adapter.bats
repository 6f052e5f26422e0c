# Adapters in the version history: appended, run with, merged.
load common.bash

setup() {
    common_setup
    M=$FIX/models/stories260K-f16.gguf
    TRAINED=$SHARED/fixtures/trained
    printf '{"layers":5,"width":64,"kv_width":32,"ffn":172}' >sizes
}

mklora() { "$PYTHON" "$ROOT/tests/lib/mklora.py" "$@"; }
# peft DIR [CONFIG [SEED]]: an adapter for m.hk.
peft() {
    mkdir "$1"
    mklora make "$1" sizes "${@:2}"
}
# stories: m.hk, and tokens for it.
stories() {
    hk-convert "$M" m.hk
    "$PYTHON" -c 'import struct,sys
sys.stdout.buffer.write(struct.pack("<48I", 1, *(3 + i * 37 % 500 for i in range(47))))' >ids
}
# logits OUT FILE OPTION...: of the tokens in ids.
logits() { hk-perplexity --ids --ctx 64 --logits "$1" "${@:3}" "$2" <ids >/dev/null 2>&1; }

# cosine LEAST A B [C]: of files of f32, the second against the third, or against the third and C added.
cosine() {
    "$PYTHON" - "$@" <<'PY'
import array, math, sys
a, b = (array.array("f", open(p, "rb").read()) for p in sys.argv[2:])
assert len(a) == len(b) > 0, (len(a), len(b))
dot = lambda x, y: math.fsum(p * q for p, q in zip(x, y))
cosine = dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))
print("# cosine", cosine, "least", sys.argv[1], sys.argv[3])
assert cosine >= float(sys.argv[1]), cosine
PY
}
refute_same() { cmp -s "$1" "$2" && fail "the same: $1 $2" || return 0; }

# ---- trained adapters against their references ----

trained() {
    need_shared
    head -c 256 "$TRAINED/$1/lora/val.tokens.u32" >ids
    hk-convert "${2:-$TRAINED/$1}" m.hk
    hk-append --lora "$TRAINED/$1/lora" --name bard m.hk
}

# agrees NAME [BASE]: run and merged, NAME's adapter gives the stored logits and words.
agrees() {
    trained "$@"
    cp m.hk appended.hk
    logits run.f32 m.hk --adapter bard
    cosine 0.99999 run.f32 "$TRAINED/$1/lora/logits.f32"
    hk-merge --type f32 m.hk merged.hk
    logits merged.f32 merged.hk
    cosine 0.99999 merged.f32 "$TRAINED/$1/lora/logits.f32"
    cosine 0.999 run.f32 merged.f32
    logits exact.f32 m.hk --adapter bard --activations f32
    logits merged-exact.f32 merged.hk --activations f32
    cosine 0.999999 exact.f32 merged-exact.f32
    assert_same m.hk appended.hk
    "$PYTHON" - m.hk "$TRAINED/$1/lora/greedy.json" <<'PY'
import json, subprocess, sys
runs = json.load(open(sys.argv[2]))
# Where the best two logits are closer than what the cache's f16 rounds, either may win.
clear = [run for run in runs if run["smallest_gap"] > 0.001]
assert clear
for run in clear:
    got = subprocess.run(["hk-run", "--json", "--activations", "f32", "--adapter", "bard", "-n", str(len(run["ids"])),
                          sys.argv[1], run["prompt"]], check=True, stdout=subprocess.PIPE)
    v = json.loads(got.stdout)
    assert (v["tokens"], v["text"]) == (run["ids"], run["text"]), (v, run)
PY
    hk-rollback m.hk 0 >/dev/null
    hk-convert "${2:-$TRAINED/$1}" again.hk
    assert_same m.hk again.hk
}

@test "tiny-llama's adapter on the model directory" { agrees tiny-llama; }
@test "tiny-qwen3's adapter on the model directory" { agrees tiny-qwen3; }
@test "tiny-llama's adapter on the GGUF, whose query rows are in pairs" {
    need_shared
    agrees tiny-llama "$TRAINED/tiny-llama/tiny-llama-f16.gguf"
}
@test "tiny-qwen3's adapter on the GGUF" {
    need_shared
    agrees tiny-qwen3 "$TRAINED/tiny-qwen3/tiny-qwen3-f16.gguf"
}

# quantised TYPE LEAST
quantised() {
    need_shared
    [[ -n ${PEER_LIB:-} ]] || skip "SKIPPED: needs the peer's quantizer (PEER_LIB)"
    for name in tiny-llama tiny-qwen3; do
        "$PYTHON" "$SHARED/peer/peer.py" quantize "$TRAINED/$name/$name-f16.gguf" q.gguf "$1" >/dev/null 2>&1
        trained "$name" q.gguf
        for how in q8 f32; do
            logits q.f32 m.hk --adapter bard --activations $how -f
            cosine "$2" q.f32 "$TRAINED/$name/lora/logits.f32"
        done
        hk-merge --type f32 -f m.hk merged.hk
        logits merged.f32 merged.hk --activations f32 -f
        cosine 0.99999 merged.f32 q.f32
        rm m.hk
    done
}
@test "adapters on bases of q8_0" { quantised Q8_0 0.999; }
@test "adapters on bases of q4_k_m" { quantised Q4_K_M 0.99; }

@test "a GGUF adapter becomes the payload that its PEFT form does" {
    need_shared
    for row in 'tiny-llama 4 2' 'tiny-qwen3 0 0'; do
        # shellcheck disable=SC2086 # words
        set -- $row
        trained "$1"
        mklora gguf "$TRAINED/$1/lora" lora.gguf "$2" "$3"
        hk-append --lora lora.gguf --name gguf m.hk
        hk-log --extract bard -f -o peft.st m.hk
        hk-log --extract gguf -f -o gguf.st m.hk
        mklora same peft.st gguf.st
        logits a.f32 m.hk -f --adapter bard
        logits b.f32 m.hk -f --adapter gguf
        assert_same a.f32 b.f32
        rm m.hk
    done
}

# ---- made adapters on the bundled model ----

@test "the same bytes for every number of threads, batch and kernels" {
    stories
    peft one
    hk-append --lora one m.hk
    logits want.f32 m.hk --adapter one
    logits base.f32 m.hk
    refute_same want.f32 base.f32
    for options in '--threads 1' '--threads 2' '--threads 3' '--threads 4' '--batch 1' '--batch 7' '--batch 64'; do
        # shellcheck disable=SC2086 # words
        logits got.f32 m.hk --adapter one -f $options
        assert_same got.f32 want.f32
    done
    for level in $(hk-hardware-profile | json - '" ".join(v["kernels"]["runnable"])'); do
        HK_KERNELS=$level logits got.f32 m.hk --adapter one -f
        assert_same got.f32 want.f32
    done
}

@test "PEFT directory, its file, a payload, a pipe and a GGUF are one adapter" {
    stories
    peft one
    mklora gguf one one.gguf 8 4
    hk-append --lora one --name directory --lora one/ --name slash --lora one/adapter_model.safetensors --name file \
        --lora one.gguf --name gguf m.hk
    hk-log --extract directory -o payload m.hk
    (cd one && hk-append --lora adapter_model.safetensors --name beside --lora . --name dot ../m.hk)
    hk-append --lora payload --lora - --name piped m.hk < <(cat payload)
    hk-append --lora <(cat payload) --name fifo --lora <(cat one.gguf) --name gguf-fifo -z m.hk
    logits want.f32 m.hk --adapter directory
    t hk-log m.hk
    assert_json '[r["name"] for r in v["records"]]' \
        '["directory","slash","file","gguf","beside","dot","payload","piped","fifo","gguf-fifo"]'
    for name in slash file gguf beside dot payload piped fifo gguf-fifo; do
        logits got.f32 m.hk -f --adapter $name
        assert_same got.f32 want.f32
        hk-log --extract $name -f -o got m.hk
        mklora same payload got
    done
}

@test "the config stays as it was, in the payload" {
    stories
    peft one '{"task_type":"CAUSAL_LM","note":"\u00e9"}'
    hk-append --lora one m.hk
    hk-log --extract one -o payload m.hk
    "$PYTHON" - payload one/adapter_config.json <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", raw[:8])
metadata = json.loads(raw[8:8 + n])["__metadata__"]
assert json.loads(metadata["adapter_config"]) == json.load(open(sys.argv[2])), metadata
PY
}

@test "scale 0 is the base, halves make a whole, two are their sum" {
    stories
    peft one
    peft two '{"r":2}' 2
    hk-append --lora one --inactive --lora two m.hk
    logits base.f32 m.hk
    logits zero.f32 m.hk --adapter one=0
    assert_same zero.f32 base.f32
    logits one.f32 m.hk --adapter one --activations f32
    logits halves.f32 m.hk --adapter one=0.5 -a one=0.5 --activations f32
    cosine 0.9999999 halves.f32 one.f32
    logits none.f32 m.hk --adapter one --adapter one=-1 --activations f32
    logits exact.f32 m.hk --activations f32
    cosine 0.9999999 none.f32 exact.f32
    logits both.f32 m.hk --adapter one --adapter two=0.5 --activations f32
    hk-merge --adapter one --adapter two=0.5 --type f32 m.hk both.hk
    logits merged.f32 both.hk --activations f32
    cosine 0.999999 both.f32 merged.f32
    hk-merge --adapter two=0.5 -a one --type f32 m.hk swapped.hk
    logits swapped.f32 swapped.hk --activations f32
    cosine 0.999999 swapped.f32 merged.f32
    refute_same both.f32 one.f32
    hk-merge --type f32 m.hk active.hk
    logits active.f32 active.hk --activations f32
    logits two.f32 m.hk --adapter two --activations f32
    cosine 0.999999 active.f32 two.f32
}

@test "what was merged has no history and says so" {
    stories
    peft one
    hk-append --lora one --bind-base --generation 3 m.hk
    cp m.hk old.hk
    hk-merge -a one=0.5 m.hk merged.hk
    assert_same m.hk old.hk
    t hk-verify --payload --strict merged.hk
    assert_status 0
    assert_json '[v["lineage"],v["checked"]["records"]]' '["none",0]'
    t hk-meta get merged.hk hk.merged
    assert_json 'v' '[{"name":"one","type":"lora_adapter","generation":3,"scale":0.5}]'
    t hk-diff --json --tensors m.hk merged.hk
    assert_json 'sorted(set(t["name"].split(".", 2)[-1] for t in v["tensors"]["changed"]))' \
        '["attn_k.weight","attn_output.weight","attn_q.weight","attn_v.weight","ffn_down.weight","ffn_gate.weight"]'
    t hk-inspect merged.hk
    assert_json '[t["type"] for t in v["tensors"] if t["name"] == "blk.0.attn_q.weight"]' '["f16"]'
    t hk-merge m.hk merged.hk
    assert_fails 2 merged.hk
    for type in f32 bf16; do
        hk-merge --type $type -f m.hk merged.hk
        hk-inspect merged.hk >report
        [[ $(json report '[t["type"] for t in v["tensors"] if t["name"] == "blk.0.attn_q.weight"]') == "[\"$type\"]" ]]
    done
}

# PEFT takes a base's weights and adds scale B A: the merged tensor by hand.
@test "a merged tensor is W + scale B A, by another program" {
    stories
    while read -r scale config; do
        rm -rf one
        peft one "$config"
        cp m.hk y.hk
        hk-append --lora one y.hk
        hk-merge --type f32 -f y.hk merged.hk
        for name in attn_v.weight self_attn.v_proj ffn_down.weight mlp.down_proj; do
            [[ $name == *.weight ]] && { tensor=$name; continue; }
            hk-dequant -f -o w m.hk "blk.1.$tensor"
            hk-dequant -f -o got merged.hk "blk.1.$tensor"
            "$PYTHON" - "base_model.model.model.layers.1.$name" "$scale" <<'PY'
import array, json, struct, sys
raw = open("one/adapter_model.safetensors", "rb").read()
n, = struct.unpack("<Q", raw[:8])
header = json.loads(raw[8:8 + n])
def tensor(name):
    t = header[name]
    return t["shape"], array.array("f", raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
(rank, cols), a = tensor(sys.argv[1] + ".lora_A.weight")
(rows, _), b = tensor(sys.argv[1] + ".lora_B.weight")
w, got = (array.array("f", open(p, "rb").read()) for p in ("w", "got"))
scale = eval(sys.argv[2])
assert len(w) == len(got) == rows * cols
for i in range(rows):
    for k in range(cols):
        want = w[i * cols + k] + scale * sum(b[i * rank + r] * a[r * cols + k] for r in range(rank))
        assert abs(got[i * cols + k] - want) <= 1e-6 * max(1, abs(want)), (i, k, got[i * cols + k], want)
PY
        done
    done <<'ROWS'
4/2 {}
4/2**.5 {"use_rslora":true}
3.5/2 {"alpha_pattern":{"v_proj":3.5,"down_proj":3.5}}
7/2 {"lora_alpha":7,"rank_pattern":{"model.layers.1.mlp.down_proj":2}}
5/2 {"alpha_pattern":{".*.(v|down)_proj":5}}
ROWS
}

@test "what cannot be applied is an error by name, to run and to merge" {
    stories
    while read -r what config; do
        rm -rf bad
        peft bad "$config"
        cp m.hk y.hk
        hk-append --lora bad y.hk
        t_from ids hk-perplexity --ids --adapter bad y.hk
        assert_fails 1 "$what"
        assert_err_has 'bad'
        t hk-merge y.hk out.hk
        assert_fails 1 "$what"
        [[ ! -e out.hk ]]
    done <<'ROWS'
fan_in_fan_out {"fan_in_fan_out":true}
lora_bias {"lora_bias":true}
bias {"bias":"some"}
LOHA {"peft_type":"LOHA"}
peft_type {"peft_type":null}
alora_invocation_tokens {"alora_invocation_tokens":[1]}
layer_replication {"layer_replication":[[0,2],[1,3]]}
use_qalora {"use_qalora":true}
target_parameters {"target_parameters":["x"]}
trainable_token_indices {"trainable_token_indices":[1,2]}
pissa {"init_lora_weights":"pissa_niter_4"}
olora {"init_lora_weights":"olora"}
corda {"init_lora_weights":"corda"}
loftq {"init_lora_weights":"loftq"}
magnitude {"use_dora":true}
rank {"r":3}
rank {"r":0}
lora_alpha {"lora_alpha":"16"}
rank {"rank_pattern":{"q_proj":1}}
pattern {"alpha_pattern":{"\\d_proj":1}}
pattern {"alpha_pattern":{"(?:q)_proj":1}}
pattern {"alpha_pattern":{"((q_proj":1}}
rank {"rank_pattern":{"q_proj":"2"}}
alpha {"alpha_pattern":{"q_proj":"2"}}
ROWS
}

@test "harmless settings do no harm" {
    stories
    peft plain
    peft one '{"init_lora_weights":"gaussian","lora_dropout":0.1,"inference_mode":true,"future":null,
        "alpha_pattern":{"no_proj":9},"rank_pattern":{"q_proj":2},"layers_to_transform":[1],"modules_to_save":null}'
    hk-append --lora plain --lora one m.hk
    logits plain.f32 m.hk --adapter plain
    logits one.f32 m.hk --adapter one
    assert_same plain.f32 one.f32
}

@test "a pattern deeper than any stack is refused" {
    stories
    peft one "$("$PYTHON" -c 'print("{\"alpha_pattern\":{\"" + "(" * 90000 + "\":1}}")')"
    hk-append --lora one m.hk
    t hk-merge m.hk out.hk
    assert_fails 1 pattern
}

@test "an adapter that is broken is refused before the file is touched" {
    stories
    peft one
    hk-append --lora one m.hk
    cp m.hk old.hk
    broken() {
        t hk-append --eval <(echo '{}') --lora "$1" m.hk
        assert_fails "$2" "hk-append: $1: "
        assert_same m.hk old.hk
    }
    cp -r one config && printf '{"r":' >config/adapter_config.json
    cp -r one list && printf '[]' >list/adapter_config.json
    cp -r one empty && : >empty/adapter_config.json
    cp -r one short && head -c 5000 one/adapter_model.safetensors >short/adapter_model.safetensors
    for name in config list empty short; do broken $name 1; done
    for name in config list empty; do broken $name/adapter_model.safetensors 1; done
    cp -r one alone && rm alone/adapter_model.safetensors
    broken alone 2
    mklora gguf one other.gguf 8 4
    "$PYTHON" -c 'import sys
raw = open("other.gguf", "rb").read()
open("name.gguf", "wb").write(raw.replace(b"blk.0.attn_q.weight.lora_a", b"blk.7.attn_q.weight.lora_a"))
open("part.gguf", "wb").write(raw.replace(b"blk.0.attn_q.weight.lora_a", b"blk.0.attn_q.weight.lora_x"))
open("alpha.gguf", "wb").write(raw.replace(b"adapter.lora.alpha", b"adapter.lora.alphb"))'
    while read -r name said; do
        cp m.hk y.hk
        t hk-append --lora $name.gguf y.hk
        assert_status 0
        assert_err_has "hk-append: $name.gguf: stored, but it cannot be applied to this model: $said"
        t hk-append --strict --lora $name.gguf m.hk
        assert_fails 1 "$said"
        assert_same m.hk old.hk
        t hk-merge -a $name y.hk out.hk
        assert_fails 1 "$said"
    done <<'ROWS'
name tensor blk.7.attn_q.weight has no place
part tensor blk.0.attn_q.weight.lora_x is neither
alpha key adapter.lora.alphb is not known
ROWS
}

@test "norms that were trained are merged but not run with" {
    stories
    while read -r name more said config; do
        peft "$name" "$config" 1 "$more"
        cp m.hk y.hk
        hk-append --lora "$name" y.hk
        for tool in 'hk-perplexity --ids' 'hk-run -n 1'; do
            # shellcheck disable=SC2086 # words
            t_from ids $tool --adapter "$name" y.hk
            assert_fails 1 'is not applied while running; hk-merge folds it in'
            assert_err_has "$said"
        done
        hk-merge -f --type f32 y.hk merged.hk
        logits merged.f32 merged.hk -f
        logits base.f32 m.hk -f
        refute_same merged.f32 base.f32
    done <<'ROWS'
whole norm output_norm.weight {"modules_to_save":["norm"]}
ROWS
}

@test "a pickle is stored, listed and extracted, and never applied" {
    stories
    "$PYTHON" -c 'import zipfile
with zipfile.ZipFile("adapter.bin", "w") as z:
    z.writestr("archive/data.pkl", b"\x80\x02cposix\nsystem\nq\x00X\x0a\x00\x00\x00touch ownedq\x01\x85q\x02Rq\x03.")'
    hk-append --lora adapter.bin m.hk
    t hk-log m.hk
    assert_json '[(r["type"],r["name"]) for r in v["records"]]' '[["lora_adapter","adapter"]]'
    hk-log --extract adapter -o back m.hk
    assert_same back adapter.bin
    for tool in 'hk-perplexity --ids --adapter adapter m.hk' 'hk-run --adapter adapter m.hk x' 'hk-merge m.hk out.hk'; do
        # shellcheck disable=SC2086 # words
        t_from ids $tool
        assert_fails 1 "record 'adapter': its payload is no safetensors file"
    done
    [[ ! -e owned && ! -e out.hk ]]
}

@test "names: the last of that name, equal signs, none such, no adapter" {
    stories
    peft one
    peft two '{}' 2
    echo '{}' >j
    hk-append --lora one --name a --lora two --name a --lora one --name a=1 --lora one --name b=x --eval j --name e m.hk
    logits one.f32 m.hk --adapter b=x
    logits two.f32 m.hk --adapter a
    logits got.f32 m.hk --adapter a=1 # a name before a scale
    assert_same got.f32 one.f32
    logits got.f32 m.hk -f --adapter a=1=1
    assert_same got.f32 one.f32
    logits got.f32 m.hk -f --adapter a=1.0
    assert_same got.f32 two.f32
    refute_same one.f32 two.f32
    while read -r wanted words; do
        # shellcheck disable=SC2086 # words
        t_from ids hk-perplexity --ids $words m.hk
        assert_fails "$wanted"
        # shellcheck disable=SC2086 # words
        t hk-merge $words m.hk out.hk
        assert_fails "$wanted"
    done <<'ROWS'
1 --adapter none
1 --adapter none=1
1 --adapter e
2 --adapter a=nan
2 --adapter a=
2 --adapter a=1x
2 --adapter a=inf
2 --adapter
ROWS
    [[ ! -e out.hk ]]
}

@test "merging: nothing to merge, bad words, wrong files" {
    stories
    peft one
    t hk-merge m.hk out.hk
    assert_fails 1 'no active adapter or delta'
    hk-append --lora one --inactive m.hk
    t hk-merge m.hk out.hk
    assert_fails 1 'no active adapter or delta'
    for words in 'm.hk' 'm.hk a b' '--type q8_0 m.hk out.hk' '--type x m.hk out.hk' '--align 3 m.hk out.hk' '--align 0 m.hk out.hk'; do
        # shellcheck disable=SC2086 # words
        t hk-merge $words
        assert_fails 2
    done
    cp m.hk old.hk
    t hk-merge -f -a one m.hk m.hk
    if [[ $status -ne 0 ]]; then
        assert_same m.hk old.hk
    else
        hk-meta get m.hk hk.merged
    fi
    [[ ! -e out.hk ]]
}

@test "an adapter for another model is an error by name" {
    stories
    printf '{"layers":6,"width":64,"kv_width":32,"ffn":172}' >sizes
    peft deep
    printf '{"layers":5,"width":32,"kv_width":32,"ffn":172}' >sizes
    peft thin
    hk-append --lora deep --lora thin m.hk
    t hk-merge --adapter deep m.hk out.hk
    assert_fails 1 "record 'deep': "
    assert_err_has 'layers.5'
    t hk-merge --adapter thin m.hk out.hk
    assert_fails 1 "record 'thin': "
    assert_err_has 'q_proj'
    t_from ids hk-perplexity --ids --adapter thin m.hk
    assert_fails 1 "record 'thin': "
}

@test "deltas are added in order, whole tensors never twice" {
    stories
    hk-dequant -o w m.hk blk.2.attn_v.weight
    "$PYTHON" - <<'PY'
import json, struct
n = 32 * 64
def write(path, name, shape, values):
    head = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * len(values)]}}).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<%df" % len(values), *values))
write("d.st", "blk.2.attn_v.weight", [32, 64], [i / 64 for i in range(n)])
write("shape.st", "blk.2.attn_v.weight", [64, 32], [0] * n)
write("name.st", "blk.9.attn_v.weight", [32, 64], [0] * n)
PY
    hk-append --delta d.st m.hk
    hk-merge --type f32 -a d -a d=-0.5 m.hk out.hk
    hk-dequant -o got out.hk blk.2.attn_v.weight
    "$PYTHON" - <<'PY'
import array
w, got = (array.array("f", open(p, "rb").read()) for p in ("w", "got"))
assert all(abs(b - (a + i / 128)) < 1e-5 for i, (a, b) in enumerate(zip(w, got)))
PY
    for name in shape name; do
        hk-append --delta $name.st m.hk
        t hk-merge -a $name -f m.hk out.hk
        assert_fails 1 attn_v.weight
    done
    t_from ids hk-perplexity --ids --adapter d m.hk
    assert_fails 1 "record 'd' is not an adapter"
}
