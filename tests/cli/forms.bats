# A model is the same in every form: the directory that it came from, the .hk, the GGUF and the directory made
# of that. Same logits (bit for bit where the rows are in the same order), same refusals.
load common.bash

setup() {
    common_setup
    "$PYTHON" - <<'PY'
import struct
open("ids", "wb").write(b"".join(struct.pack("<I", (i * 37 + i // 5) % 64) for i in range(100)))
PY
}
mkhf() { "$PYTHON" "$ROOT/tests/lib/mkhf.py" "$@"; }

# logits MODEL: into MODEL.f32, with nothing rounded.
logits() {
    hk-perplexity --ids --ctx 100 -f --activations f32 --logits "$1.f32" "$1" <ids >"$1.json" 2>"$1.err" ||
        fail "$1: $(cat "$1.err")"
}
# same_bits MODEL...: all have the logits of the first.
same_bits() {
    local model first=$1
    for model; do
        logits "$model"
        cmp "$first.f32" "$model.f32" >&2 || fail "logits differ: $first $model"
    done
}
# as_good_as_same A B: their logits but for the order of sums, and perplexities in all digits shown.
as_good_as_same() {
    "$PYTHON" - "$1" "$2" <<'PY'
import array, json, math, sys
a, b = (array.array("f", open(p + ".f32", "rb").read()) for p in sys.argv[1:])
assert len(a) == len(b) > 0, (len(a), len(b))
dot = lambda x, y: math.fsum(p * q for p, q in zip(x, y))
cosine = dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))
assert cosine > 0.99999999, cosine
x, y = (json.load(open(p + ".json"))["perplexity"] for p in sys.argv[1:])
assert abs(x - y) <= 1e-6 * x, (x, y)
PY
}

# The ropes, as config.json has them.
ropes=(default linear dynamic yarn llama3)
scaling() {
    case $1 in
    default) echo null ;;
    linear) echo '{"type":"linear","factor":2.5}' ;;
    dynamic) echo '{"type":"dynamic","factor":3}' ;;
    yarn) echo '{"type":"yarn","factor":4,"original_max_position_embeddings":64,"attention_factor":1.2}' ;;
    llama3) echo '{"type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,
        "original_max_position_embeddings":64}' ;;
    esac
}
# with_rope ROPE: a change for mkhf.
with_rope() { printf '{"config":{"rope_scaling":%s}}' "$(scaling "$1")"; }
# The same as keys of a .hk whose architecture is $1: "TYPE KEY VALUE" a line.
keys_of() {
    case $2 in
    linear) printf '%s\n' "string $1.rope.scaling.type linear" "float $1.rope.scaling.factor 2.5" ;;
    dynamic) printf '%s\n' "string $1.rope.scaling.type dynamic" "float $1.rope.scaling.factor 3" ;;
    yarn) printf '%s\n' "string $1.rope.scaling.type yarn" "float $1.rope.scaling.factor 4" \
        "int $1.rope.scaling.original_context_length 64" "float $1.rope.scaling.attn_factor 1.25" ;;
    llama3) printf '%s\n' "string $1.rope.scaling.type llama3" "float $1.rope.scaling.factor 8" \
        "int $1.rope.scaling.original_context_length 64" "float hk.rope.low_freq_factor 1" \
        "float hk.rope.high_freq_factor 4" ;;
    esac
}
set_keys() {
    local type key value
    while read -r type key value; do
        hk-meta set --type "$type" "$1" "$key" "$value"
    done
}

# as_mistral FILE: a .hk of architecture llama becomes one of architecture mistral.
as_mistral() {
    "$PYTHON" - "$1" <<'PY'
import json, subprocess, sys
path = sys.argv[1]
meta = lambda *arguments: subprocess.run(["hk-meta", *arguments], check=True, capture_output=True, text=True).stdout
for key, value in json.loads(meta("list", "--full", "--typed", path))["metadata"].items():
    if key.startswith("llama."):
        meta("set", "--type", value["type"], path, "mistral." + key[6:], str(value["value"]))
        meta("delete", path, key)
meta("set", "--type", "string", path, "general.architecture", "mistral")
PY
}

@test "every rope is the same in every form" {
    local family rope
    for family in llama mistral qwen2 qwen3; do
        for rope in "${ropes[@]}"; do
            rm -rf ./*.f32 m d e
            mkhf make --family $family --change "$(with_rope "$rope")" m
            hk-convert -f m m.hk
            hk-convert -f --to hf m.hk d
            same_bits m m.hk d
            if [[ $rope == llama3 && $family == qwen* ]]; then
                continue # llama.cpp refuses such a model, so no GGUF is made of it
            fi
            hk-convert -f m.hk m.gguf 2>/dev/null
            hk-convert -f m.gguf g.hk
            hk-convert -f --to hf g.hk e
            same_bits m.gguf g.hk
            [[ $family != qwen* ]] || same_bits m m.gguf
            same_bits m e
            as_good_as_same m m.gguf
        done
    done
}

@test "a rope given as keys has the same bits in the GGUF made of it" {
    local family rope style
    for family in llama mistral qwen2 qwen3; do
        mkhf make --family $family m
        hk-convert -f m m.gguf
        style=$([[ $family == qwen* ]] && echo neox || echo norm)
        for rope in "${ropes[@]}"; do
            [[ $rope != llama3 || $family != qwen* ]] || continue
            hk-convert -f m.gguf p.hk
            keys_of "${family/mistral/llama}" "$rope" | set_keys p.hk
            hk-meta set p.hk hk.rope_style "$style"
            hk-convert -f p.hk p.gguf 2>/dev/null
            hk-convert -f p.gguf again.hk
            same_bits p.hk p.gguf again.hk
        done
        rm -r m
    done
}

@test "architecture mistral is taken in every form, and is llama in a GGUF" {
    mkhf make --family mistral --change "$(with_rope llama3)" m
    hk-convert m m.hk
    hk-convert m.hk own.hk
    as_mistral own.hk
    hk-meta delete own.hk hk.hf.config
    hk-convert -f own.hk own.gguf
    hk-convert m.hk m.gguf
    hk-convert --to hf own.hk d
    same_bits m.hk own.hk d
    same_bits m.gguf own.gguf
    t hk-meta get own.gguf general.architecture
    assert_out llama
    t json d/config.json 'v["model_type"]'
    assert_out mistral
    local q=base_model.model.model.layers.0.self_attn.q_proj
    mkdir a
    "$PYTHON" "$ROOT/tests/lib/mkadapter.py" peft a '{}' $q.lora_A.weight:2x32:1 $q.lora_B.weight:64x2:2
    for name in m own; do
        hk-append --strict --lora a $name.hk
        hk-merge --type f32 $name.hk $name.merged.hk
    done
    same_bits m.merged.hk own.merged.hk
    refute cmp m.merged.hk.f32 m.gguf.f32
}

# refused_everywhere MESSAGE TYPE KEY VALUE: a model with that key is refused by whoever runs it, and in the
# GGUF made of it, or already when one is made; and no directory is made of it. Always for the same reason.
refused_everywhere() {
    local message=$1 status_of_gguf=0
    cp m.hk x.hk
    printf '%s %s %s\n' "$2" "$3" "$4" | set_keys x.hk
    t_from ids hk-perplexity --ids --ctx 100 x.hk
    assert_fails 1 "$message"
    t hk-convert -f x.hk x.gguf
    status_of_gguf=$status
    if [[ $status_of_gguf -eq 0 ]]; then
        t_from ids hk-perplexity --ids --ctx 100 x.gguf
    fi
    assert_fails 1 "$message"
    t hk-convert --to hf x.hk x
    assert_fails 1 "$message"
}

@test "what does not run is refused alike in every form" {
    mkhf make m
    hk-convert m m.hk
    local a=llama
    refused_everywhere 'no key llama.expert_used_count' int $a.expert_count 8
    refused_everywhere 'attention that is not causal is not supported' bool $a.attention.causal false
    refused_everywhere "rope scaling 'longrope' is not supported" string $a.rope.scaling.type longrope
    refused_everywhere 'yarn_log_multiplier is 0.1, which is not supported' float \
        $a.rope.scaling.yarn_log_multiplier 0.1
    refused_everywhere "order of rows 'glm' is not supported" string hk.rope_style glm
    refused_everywhere 'rope.dimension_count is 3: not even' int $a.rope.dimension_count 3
    refused_everywhere 'rope.freq_base is 0, not a number above 0' float $a.rope.freq_base 0
    refused_everywhere 'cannot share 3 heads of keys and values' int $a.attention.head_count_kv 3
    refused_everywhere "architecture 'rwkv7' is not supported" string general.architecture rwkv7
}

@test "beyond the context a dynamic rope is refused in every form" {
    mkhf make --change "$(with_rope dynamic)" m
    hk-convert m m.hk
    hk-convert m.hk m.gguf 2>/dev/null
    hk-convert --to hf m.gguf d
    for model in m m.hk m.gguf d; do
        t_from ids hk-perplexity --ids --ctx 256 "$model"
        assert_status 0
        t_from ids hk-perplexity --ids --ctx 257 "$model"
        assert_fails 1 'a context of 257 positions: beyond the 256 of the model its rope would change'
    done
}

@test "the same text from every form" {
    need_shared
    local name rope
    for name in tiny-llama tiny-qwen3; do
        for rope in linear yarn; do
            rm -rf m
            cp -r "$SHARED/fixtures/trained/$name" m
            chmod -R u+w m
            "$PYTHON" - "$(scaling "$rope")" <<'PY'
import json, sys
with open("m/config.json") as f:
    config = json.load(f)
theta = config.pop("rope_theta", None) or config.pop("rope_parameters")["rope_theta"]
config["rope_theta"], config["rope_scaling"] = theta, json.loads(sys.argv[1])
config.pop("rope_parameters", None)
with open("m/config.json", "w") as f:
    json.dump(config, f)
PY
            hk-convert -f m m.hk
            hk-convert -f m.hk m.gguf 2>/dev/null
            rm -rf d
            hk-convert --to hf m.hk d
            hk-run --temp 0 -n 40 m 'Once upon a time' >m.txt 2>/dev/null
            for model in m.hk m.gguf d; do
                hk-run --temp 0 -n 40 "$model" 'Once upon a time' >other.txt 2>/dev/null
                assert_same m.txt other.txt
            done
        done
    done
}
