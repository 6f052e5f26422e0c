# Model directories that are written: what was read comes back, what comes from elsewhere is what
# transformers would load.
load common.bash

setup() {
    common_setup
    "$PYTHON" - <<'PY'
import struct
open("ids", "wb").write(b"".join(struct.pack("<I", (i * 37 + i // 5) % 64) for i in range(100)))
PY
}
hfdir() { "$PYTHON" "$ROOT/tests/lib/hfdir.py" "$@"; }
mkhf() { "$PYTHON" "$ROOT/tests/lib/mkhf.py" "$@"; }

# close_to A B: files of f32 whose cosine is as good as 1.
close_to() {
    "$PYTHON" - "$1" "$2" <<'PY'
import array, math, sys
a, b = (array.array("f", open(p, "rb").read()) for p in sys.argv[1:])
assert len(a) == len(b) > 0, (len(a), len(b))
dot = lambda x, y: math.fsum(p * q for p, q in zip(x, y))
cosine = dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))
assert cosine > 0.9999999, cosine
PY
}
# logits_of MODEL OUT [IDS]: with nothing rounded.
logits_of() {
    hk-perplexity --ids --ctx 100 -f --activations f32 --logits "$2" "$1" <"${3:-ids}" >/dev/null 2>&1
}
# Every word of the rest is in standard error.
assert_losses() {
    local word
    for word; do
        assert_err_has "$word"
    done
}

# round_trip DIR: to .hk and back, nothing else; then once more from what was written.
round_trip() {
    rm -rf rt.hk rt again.hk
    t hk-convert "$1" rt.hk
    assert_status 0
    t hk-convert --to hf rt.hk rt
    assert_status 0
    assert_err ''
    hfdir same "$1" rt
    hfdir json "$1" rt config.json generation_config.json tokenizer.json tokenizer_config.json \
        special_tokens_map.json
    hk-convert rt again.hk
    assert_same rt.hk again.hk
}

@test "directories go to .hk and back: every family" {
    local family
    for family in llama mistral qwen2 qwen3; do
        rm -rf m
        mkhf make --family $family m
        round_trip m
        assert_same m/config.json rt/config.json
    done
    rm -rf m
    mkhf make --change '{"head":"other","config":{"tie_word_embeddings":false},"dtype":"BF16"}' m
    round_trip m
    assert_same m/config.json rt/config.json
}

@test "directories go to .hk and back: every one of the shared directory" {
    need_shared
    local dir
    for dir in models/stories260K-hf models/stories260K-hf-bf16-sharded trained/tiny-llama trained/tiny-qwen3; do
        round_trip "$SHARED/fixtures/$dir"
        assert_same "$SHARED/fixtures/$dir/config.json" rt/config.json
        assert_same "$SHARED/fixtures/$dir/generation_config.json" rt/generation_config.json
    done
}

@test "shards and one file are the same directory" {
    mkhf make m
    hk-convert m m.hk
    hk-convert --to hf --split-size 8k m.hk split
    [[ -e split/model.safetensors.index.json && ! -e split/model.safetensors ]] || fail 'no shards'
    hfdir same m split
    hk-convert split again.hk
    assert_same m.hk again.hk
}

# forget KEY... FILE: keys of a GGUF become keys that nobody reads.
forget() {
    local key
    for key in "${@:1:$#-1}"; do
        grep -q "$key" "${*: -1}" || fail "no $key in ${*: -1}"
        sed -i "s/$key/xx${key:2}/" "${*: -1}"
    done
}

# through_gguf NAME [OPTIONS]: a directory that is made again from the GGUF made of it, which may
# have kept config.json or not, has the logits of the first by transformers' definitions, and by hk.
through_gguf() {
    local name=$1
    shift
    rm -rf m m.gguf kept back back.hk
    mkhf make "$@" m
    mkhf logits m ids want.f32
    hk-convert m m.gguf
    hk-convert --to hf m.gguf kept
    assert_same m/config.json kept/config.json
    hfdir values m kept # norms are f32 in GGUF
    forget hk.hf.config m.gguf
    hk-convert --to hf m.gguf back
    hfdir loads back
    hfdir values m back
    mkhf logits back ids got.f32
    assert_same want.f32 got.f32
    hk-convert back back.hk
    logits_of m want.f32
    logits_of back.hk got.f32
    cmp want.f32 got.f32 >&2 || fail "$name"
}

@test "GGUF to a directory: what transformers defines, every family" {
    local family
    for family in llama qwen2 qwen3; do
        through_gguf $family --family $family
    done
    through_gguf head --change '{"head":"other","config":{"tie_word_embeddings":false}}'
    through_gguf bf16 --change '{"dtype":"BF16"}'
}

@test "GGUF to a directory: every kind of rope" {
    local rope
    for rope in '{"rope_type":"linear","factor":2.5}' '{"rope_type":"yarn","factor":4.0,
        "original_max_position_embeddings":64}' '{"rope_type":"yarn","factor":4.0,
        "original_max_position_embeddings":64,"attention_factor":0.75,"beta_fast":24,"beta_slow":2}' \
        '{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
        "original_max_position_embeddings":64}' '{"rope_type":"llama3","factor":32.0,
        "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}'; do
        through_gguf "$rope" --change "{\"config\":{\"rope_theta\":500000.0,\"rope_scaling\":$rope}}"
    done
}

@test "llama3 factors without their parameters are known again, others are refused" {
    mkhf make --change '{"config":{"rope_theta":500000.0,"max_position_embeddings":131072,"rope_scaling":
        {"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
        "original_max_position_embeddings":8192}}}' m
    hk-convert m m.gguf
    local rope='sorted(v["rope_scaling"].items())'
    # As llama.cpp's converter has it: without any of these keys.
    cp m.gguf bare.gguf
    forget hk.rope.scaling.{type,factor,original_context_length} hk.rope.{low,high}_freq_factor \
        hk.hf.config bare.gguf
    hk-convert --to hf bare.gguf back
    [[ $(json back/config.json "$rope") == "$(json m/config.json "$rope")" ]] || fail rope
    rm -r m
    mkhf make --change '{"config":{"rope_scaling":{"rope_type":"llama3","factor":9.0,"low_freq_factor":1.0,
        "high_freq_factor":4.0,"original_max_position_embeddings":8192}}}' m
    hk-convert -f m bare.gguf
    forget hk.rope.scaling.{type,factor,original_context_length} hk.hf.config bare.gguf
    t hk-convert --to hf bare.gguf other
    assert_fails 1 rope_freqs.weight
    [[ ! -e other ]] || fail 'left behind'
}

@test "a trained GGUF to a directory and on" {
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    t hk-convert --to hf model.gguf dir
    assert_status 0
    assert_err ''
    hfdir loads dir
    hk-convert dir dir.hk
    hk-convert model.gguf model.hk
    logits_of model.hk want.f32
    logits_of dir.hk got.f32
    close_to want.f32 got.f32
    hk-convert dir.hk again.gguf
    t hk-tokenize again.gguf <<<'Once upon a time, 3 dragons.'
    local ids=$output
    t hk-tokenize model.gguf <<<'Once upon a time, 3 dragons.'
    assert_out "$ids"
    t hk-inspect --metadata --full again.gguf
    assert_json 'v["metadata"]["tokenizer.ggml.pre"]' default
    assert_json '[str(x) for x in v["metadata"]["tokenizer.ggml.scores"][259:261]]' '["0.0","-1.0"]'
}

@test "tokens that a GGUF has for rows beyond the vocabulary are none of a directory's" {
    hk-convert --to hf "$FIX/models/stories260K-f16.gguf" m
    hfdir pad m 32
    hk-convert m m.gguf
    t hk-inspect --metadata --full m.gguf
    assert_json '(lambda x: [len(x), x[-1]])(v["metadata"]["tokenizer.ggml.tokens"])' '[544,"[PAD543]"]'
    hk-convert m.gguf m.hk
    t hk-convert --to hf m.hk rt
    assert_status 0
    assert_err ''
    hfdir json m rt config.json tokenizer.json tokenizer_config.json
    hk-convert rt again.gguf
    assert_same m.gguf again.gguf
}

@test "GGUF and directory of one model are the same, every one of the shared directory" {
    need_shared
    local pair gguf dir
    for pair in models/stories260K.gguf=models/stories260K-hf \
        trained/tiny-llama/tiny-llama-f16.gguf=trained/tiny-llama \
        trained/tiny-qwen3/tiny-qwen3-f16.gguf=trained/tiny-qwen3; do
        gguf=$SHARED/fixtures/${pair%=*} dir=$SHARED/fixtures/${pair#*=}
        rm -rf out out.hk
        hk-convert --to hf "$gguf" out
        hfdir loads out
        hfdir values "$dir" out
        [[ $gguf == *f16* ]] || hfdir same "$dir" out # norms of the others are f32 in the GGUF
        hk-convert out out.hk
        logits_of "$dir" want.f32
        logits_of out.hk got.f32
        close_to want.f32 got.f32
    done
}

@test "quantised tensors are rounded once, and that is said" {
    need_shared
    cp "$SHARED/fixtures/models/stories260K-q8_0.gguf" m.gguf
    local type
    for type in f16 bf16 f32; do
        t hk-convert --to hf --type $type m.gguf $type
        assert_status 0
        assert_losses q8_0 $type general.file_type general.quantization_version
        [[ $(wc -l <<<"$stderr") -eq 3 ]] || fail 'three lines'
        hfdir loads $type
    done
    hk-dequant -o up.f32 m.gguf blk.3.ffn_up.weight
    "$PYTHON" - <<'PY'
import json, struct
def tensor(path, name):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return head[name]["dtype"], data[slice(*head[name]["data_offsets"])]
want = open("up.f32", "rb").read()
floats = struct.unpack("<%df" % (len(want) // 4), want)
name = "model.layers.3.mlp.up_proj.weight"
assert tensor("f32/model.safetensors", name) == ("F32", want)
assert tensor("f16/model.safetensors", name) == ("F16", struct.pack("<%de" % len(floats), *floats))
bits = struct.unpack("<%dI" % len(floats), want)
rounded = [(b + 0x7fff + (b >> 16 & 1)) >> 16 for b in bits]
assert tensor("bf16/model.safetensors", name) == ("BF16", struct.pack("<%dH" % len(rounded), *rounded))
PY
}

@test "what is no model that transformers has is refused, and nothing is left" {
    mkhk bad.hk '{}'
    t hk-convert --to hf bad.hk out
    assert_fails 1 general.architecture
    [[ ! -e out ]] || fail 'left behind'
}
