# Hugging Face model directories: what they mean, and what is refused.
load common.bash

setup() {
    common_setup
    MKHF=$ROOT/tests/lib/mkhf.py
    "$PYTHON" - <<'PY'
import struct
open("ids", "wb").write(b"".join(struct.pack("<I", (i * 37 + i // 5) % 64) for i in range(100)))
PY
}

# make_dir [OPTIONS] DIR: a directory anew.
make_dir() {
    rm -rf "${*: -1}"
    "$PYTHON" "$MKHF" make "$@"
}

# alike LEAST A B: the cosine of two files of f32 is LEAST or more.
alike() {
    "$PYTHON" - "$@" <<'PY'
import array, math, sys
a, b = (array.array("f", open(p, "rb").read()) for p in sys.argv[2:])
assert len(a) == len(b) > 0, (len(a), len(b))
dot = lambda x, y: math.fsum(p * q for p, q in zip(x, y))
cosine = dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))
if not cosine >= float(sys.argv[1]):
    sys.exit("cosine %r" % cosine)
PY
}

# logits_of MODEL OUT: of the ids, with nothing rounded.
logits_of() {
    hk-perplexity --ids --ctx 100 -f --activations f32 --logits "$2" "$1" <ids >/dev/null 2>&1
}

# means NAME [OPTIONS]: the directory made so has the logits that transformers' definitions give.
means() {
    local name=$1
    shift
    make_dir "$@" m
    "$PYTHON" "$MKHF" logits m ids want.f32
    hk-convert -f m m.hk
    logits_of m.hk got.f32
    alike 0.99999 want.f32 got.f32 || fail "$name: another model"
    logits_of m direct.f32
    assert_same got.f32 direct.f32
}

# rope_means NAME CONFIG: likewise, and without its rope it would be another.
rope_means() {
    means "$1" --change "{\"config\":$2}"
    refute alike 0.9999 plain.f32 want.f32
}

# plain.f32, made once for all tests.
plain() {
    if [[ ! -e $BATS_FILE_TMPDIR/plain.f32 ]]; then
        means plain
        cp want.f32 "$BATS_FILE_TMPDIR/plain.f32"
    fi
    cp "$BATS_FILE_TMPDIR/plain.f32" .
}

@test "the small model of each family is what transformers defines" {
    for family in llama mistral qwen2 qwen3; do
        means $family --family $family
    done
}

@test "an output matrix of its own, weights in bf16, sizes as floats" {
    means head --change '{"head":"other","config":{"tie_word_embeddings":false}}'
    means bf16 --change '{"dtype":"BF16"}'
    means floats --change '{"config":{"hidden_size":32.0,"num_attention_heads":4.0,"rope_theta":10000,
        "head_dim":16.0}}'
}

@test "linear, with both spellings and places" {
    plain
    rope_means old '{"rope_scaling":{"type":"linear","factor":4.0}}'
    rope_means new '{"rope_scaling":{"rope_type":"linear","factor":4}}'
    rope_means both '{"rope_scaling":{"rope_type":"linear","type":"linear","factor":4}}'
    local p='"rope_type":"linear","factor":2.5,"rope_theta":500.0'
    rope_means inside "{\"rope_theta\":\"-\",\"rope_parameters\":{$p}}"
    rope_means layers "{\"rope_theta\":\"-\",\"rope_parameters\":{\"full_attention\":{$p}}}"
}

@test "rope_theta, beside the object and in it" {
    plain
    rope_means beside '{"rope_theta":100}'
    local p='"rope_parameters":{"rope_type":"default","rope_theta":100.0}'
    rope_means inside "{\"rope_theta\":\"-\",$p}"
    rope_means agreed "{\"rope_theta\":100,$p}"
    means absent --change '{"config":{"rope_theta":"-"}}'
    assert_same want.f32 plain.f32
}

@test "llama3" {
    plain
    rope_means llama3 '{"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
        "high_freq_factor":4.0,"original_max_position_embeddings":64}}'
    rope_means other '{"rope_theta":"-","rope_parameters":{"rope_theta":500,"rope_type":"llama3","factor":16,
        "low_freq_factor":2,"high_freq_factor":8.5,"original_max_position_embeddings":128}}'
}

@test "yarn, with every parameter" {
    plain
    local p='"rope_type":"yarn","factor":4,"original_max_position_embeddings":64'
    rope_means parameters "{\"rope_parameters\":{$p}}"
    rope_means old '{"rope_scaling":{"type":"yarn","factor":4.0,"original_max_position_embeddings":64}}'
    rope_means whole '{"rope_scaling":{"type":"yarn","factor":4.0}}'
    rope_means ratio '{"rope_scaling":{"rope_type":"yarn","original_max_position_embeddings":32}}'
    rope_means beside '{"original_max_position_embeddings":64,"rope_scaling":{"rope_type":"yarn","factor":4}}'
    for more in '"attention_factor":1.4' '"attention_factor":1' '"beta_fast":8,"beta_slow":0.5' \
        '"mscale":1.0,"mscale_all_dim":0.5' '"mscale":2.0'; do
        rope_means "$more" "{\"rope_scaling\":{$p,$more}}"
    done
}

@test "dynamic is plain in the model's context, and ends there" {
    plain
    means dynamic --change '{"config":{"rope_scaling":{"type":"dynamic","factor":4.0}}}'
    assert_same want.f32 plain.f32
    t hk-inspect --metadata m.hk
    assert_json '[v["metadata"]["llama.rope.scaling."+k] for k in ("type","factor")]' '["dynamic",4.0]'
    t_from ids hk-perplexity --ids --ctx 256 m.hk
    assert_status 0
    t_from ids hk-perplexity --ids --ctx 257 m.hk
    assert_fails 1 'a context of 257 positions: beyond the 256 of the model'
}

# ---- what a .hk gets ----

@test "names, order, keys" {
    make_dir --family qwen3 --change '{"metadata":{"answer":"42"},
        "add":{"model.layers.0.self_attn.rotary_emb.inv_freq":[8]}}' m
    hk-convert m m.hk
    t hk-inspect --tensors m.hk
    assert_json '[t["name"] for t in v["tensors"]][:4]' \
        '["token_embd.weight","output_norm.weight","blk.0.attn_norm.weight","blk.0.attn_q.weight"]'
    assert_json 'len(v["tensors"])' 24
    t hk-inspect --metadata m.hk
    assert_json 'v["metadata"]["answer"]' 42
    assert_json '"format" in v["metadata"]' False
    assert_json '[v["metadata"][k] for k in ("general.architecture","hk.rope_style","hk.source.format")]' \
        '["qwen3","neox","safetensors"]'
    assert_json '{k: n for k, n in v["metadata"].items() if k.startswith("qwen3.") and type(n) is int}' \
        '{"qwen3.block_count":2,"qwen3.context_length":256,"qwen3.embedding_length":32,'"$(
        )"'"qwen3.feed_forward_length":48,"qwen3.attention.head_count":4,"qwen3.attention.head_count_kv":2,'"$(
        )"'"qwen3.attention.key_length":16,"qwen3.attention.value_length":16,"qwen3.vocab_size":64,'"$(
        )"'"qwen3.rope.dimension_count":16}'
    assert_json 'v["metadata"]["hk.hf.config"]["model_type"]' qwen3
    t hk-inspect m
    assert_json 'v["format"]' hf
    hk-convert m again.hk
    assert_same m.hk again.hk
}

@test "the configuration is kept as it is written" {
    make_dir m
    hk-convert m m.hk
    "$PYTHON" - <<'PY'
assert open("m/config.json", "rb").read() in open("m.hk", "rb").read()
PY
}

@test "a head that is the embedding is not stored twice, one that is not is refused" {
    make_dir --change '{"head":"same"}' m
    hk-convert m m.hk
    t hk-inspect --tensors m.hk
    assert_json '"output.weight" in [t["name"] for t in v["tensors"]]' False
    assert_json 'len(v["tensors"])' 20
    make_dir --change '{"head":"same","config":{"tie_word_embeddings":false}}' m
    hk-convert -f m m.hk
    t hk-inspect --tensors m.hk
    assert_json '[t["name"] for t in v["tensors"]][-1]' output.weight
    make_dir --change '{"config":{"tie_word_embeddings":false}}' m
    hk-convert -f m m.hk # no head: tied whatever the flag says
    make_dir --change '{"head":"other"}' m
    t hk-convert -f m m.hk
    assert_fails 1 'm: lm_head.weight is not model.embed_tokens.weight, though config.json has tie_word_embeddings'
}

# ---- what is refused ----

# refused MESSAGE [OPTIONS]: the directory made so.
refused() {
    local message=$1
    shift
    make_dir "$@" m
    t hk-convert -f m m.hk
    assert_fails 1 "$message"
}

@test "tensors that are missing, of no use or misshapen" {
    for name in model.embed_tokens.weight model.norm.weight model.layers.1.self_attn.v_proj.weight \
        model.layers.0.post_attention_layernorm.weight; do
        refused "no tensor $name" --change "{\"drop\":[\"$name\"]}"
        refused "tensor $name is 7 x 9, but by config.json" --change "{\"shape\":{\"$name\":[7,9]}}"
    done
    refused "no tensor model.layers.1.self_attn.k_proj.bias" --family qwen2 \
        --change '{"drop":["model.layers.1.self_attn.k_proj.bias"]}'
    refused "no tensor model.layers.0.self_attn.q_norm.weight" --family qwen3 \
        --change '{"drop":["model.layers.0.self_attn.q_norm.weight"]}'
    refused "tensor model.layers.0.self_attn.q_norm.weight is 32, but by config.json 16" --family qwen3 \
        --change '{"shape":{"model.layers.0.self_attn.q_norm.weight":[32]}}'
    for name in model.layers.0.self_attn.q_proj.bias model.layers.0.self_attn.k_norm.weight score.weight \
        model.layers.2.input_layernorm.weight model.layers.01.input_layernorm.weight \
        model.layers.0.mlp.gate_proj.weight_scale_inv model.layers.0.mlp.experts.0.up_proj.weight lm_head.bias; do
        refused "tensor $name has no place in a llama model of 2 layers" --change "{\"add\":{\"$name\":[32]}}"
    done
    refused "tensor model.layers.0.self_attn.o_proj.bias has no place in a qwen2 model" --family qwen2 \
        --change '{"add":{"model.layers.0.self_attn.o_proj.bias":[32]}}'
    refused "tensor lm_head.weight is 63 x 32, but by config.json 64 x 32" \
        --change '{"add":{"lm_head.weight":[63,32]}}'
}

@test "sizes that the tensors refute" {
    # does_not_fit TENSOR SHAPES CONFIG [OPTIONS]
    does_not_fit() {
        local message="tensor $1 is $2" config=$3
        shift 3
        refused "$message" "$@" --change "{\"config\":$config}"
    }
    local layer=model.layers.0.self_attn
    does_not_fit model.embed_tokens.weight '64 x 32, but by config.json 65 x 32' '{"vocab_size":65}'
    does_not_fit $layer.q_proj.weight '64 x 32, but by config.json 32 x 32' '{"head_dim":null}'
    does_not_fit $layer.q_proj.weight '64 x 32, but by config.json 512 x 32' '{"head_dim":"-"}' --family qwen3
    does_not_fit $layer.k_proj.weight '32 x 32, but by config.json 64 x 32' '{"num_key_value_heads":"-"}'
    refused "no tensor model.layers.2.input_layernorm.weight" --change '{"config":{"num_hidden_layers":1000000}}'
    refused "config.json: key llama.block_count is 1000000000, not 1 to 1048576" --change '{"config":{"num_hidden_layers":1000000000}}'
}

@test "metadata of the weights that says otherwise" {
    refused "key llama.rope.freq_base of the weights' __metadata__ says otherwise than config.json" \
        --change '{"metadata":{"llama.rope.freq_base":"1"}}'
    make_dir --change '{"metadata":{"general.architecture":"llama","hk.source.format":"gguf"}}' m
    hk-convert -f m m.hk
    t hk-inspect --metadata m.hk
    assert_json 'v["metadata"]["hk.source.format"]' gguf
}

@test "which files are the weights" {
    make_dir m
    cp m/model.safetensors m/consolidated.safetensors
    hk-convert m m.hk # not called as weights are
    cp m/model.safetensors m/model-00001-of-00002.safetensors
    t hk-convert -f m m.hk
    assert_fails 1 "ambiguous weights: both 'model.safetensors' and 'model-00001-of-00002.safetensors', and no"
    rm m/model.safetensors
    t hk-convert -f m m.hk
    assert_fails 1 "no model.safetensors.index.json that tells what 'model-00001-of-00002.safetensors' is part of"
    rm m/model-0*
    t hk-convert -f m m.hk
    assert_fails 1 "'consolidated.safetensors' is not read in their place"
    rm m/consolidated.safetensors
    t hk-convert -f m m.hk
    assert_fails 1 'no model.safetensors and no model.safetensors.index.json'
    for name in pytorch_model.bin model.gguf consolidated.00.pth tf_model.h5; do
        touch "m/$name"
        t hk-convert -f m m.hk
        assert_fails 1 "no model.safetensors or model.safetensors.index.json, and '$name' is not read in their place"
        rm "m/$name"
    done
}

# shards DIR: its weights in two files, and an index.
shards() {
    "$PYTHON" - "$1" <<'PY'
import json, os, struct, sys
d = sys.argv[1]
data = open(d + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + n]), data[8 + n:]
head.pop("__metadata__")
names, index = list(head), {}
for k, part in enumerate((names[:9], names[9:])):
    file, new, out = "model-0000%d-of-00002.safetensors" % (k + 1), {"__metadata__": {"format": "pt"}}, b""
    for name in part:
        a, b = head[name]["data_offsets"]
        new[name] = dict(head[name], data_offsets=[len(out), len(out) + b - a])
        out += body[a:b]
        index[name] = file
    text = json.dumps(new).encode()
    open(d + "/" + file, "wb").write(struct.pack("<Q", len(text)) + text + out)
with open(d + "/model.safetensors.index.json", "w") as f:
    json.dump({"metadata": {"total_size": len(body)}, "weight_map": index}, f)
os.remove(d + "/model.safetensors")
PY
}

@test "shards and their index are the same model" {
    make_dir m
    hk-convert m whole.hk
    cp m/model.safetensors .
    shards m
    hk-convert m parts.hk
    assert_same whole.hk parts.hk
    cp model.safetensors m/
    t hk-convert -f m parts.hk
    assert_fails 1 "'model.safetensors' is there, but model.safetensors.index.json does not name it"
    mv m/model.safetensors m/model-00003-of-00003.safetensors
    t hk-convert -f m parts.hk
    assert_fails 1 "'model-00003-of-00003.safetensors' is there, but model.safetensors.index.json does not name it"
    rm m/model-00003-of-00003.safetensors m/model-00002-of-00002.safetensors
    t hk-convert -f m parts.hk
    assert_fails 1 'model-00002-of-00002.safetensors'
}

# bad STATUS MESSAGE: the directory is refused.
bad() {
    t timeout 20 hk-convert -f m m.hk
    assert_fails "$1" "$2"
}

@test "files that are empty, cut, no JSON, of another type, nested or huge" {
    make_dir m
    cp -r m good
    for file in config.json generation_config.json; do
        cp good/config.json m/config.json
        rm -f m/generation_config.json
        for text in '' '{' '[]' 'null' '"x"' '{"a":1}x' '{"a":NaN}' '{"a":1,"a":2}' '{"a":1e999}' $'{"a":"\xff"}' \
            '<html>'; do
            printf '%s' "$text" >"m/$file"
            bad 1 "$file: no JSON"
        done
        "$PYTHON" -c 'print("{\"a\":"+"["*100000)' >"m/$file"
        bad 1 "$file: no JSON"
        truncate -s 5M "m/$file"
        bad 1 "$file: 5242880 bytes, of which at most 4194304 are read"
        rm "m/$file"
        mkdir "m/$file"
        bad 2 "$file: not a regular file but a directory"
        rmdir "m/$file"
        make_fifo "m/$file"
        bad 2 "$file: not a regular file but a FIFO"
        rm "m/$file"
    done
    cp good/config.json m/config.json
    printf '{"a":%s,"b":-%s}' 123456789012345678901234567890 98765432109876543210 >m/generation_config.json
    hk-convert -f m m.hk
    for size in 0 7 100 2000; do
        head -c $size good/model.safetensors >m/model.safetensors
        bad 1 'model.safetensors: '
    done
    cp "$FIX/models/stories260K-f16.gguf" m/model.safetensors
    bad 1 'model.safetensors: no safetensors but gguf'
}

@test "a configuration cut at every length is refused" {
    make_dir m
    cp m/config.json whole
    "$PYTHON" - <<'PY'
import subprocess
whole = open("whole", "rb").read()
for n in range(len(whole)):
    open("m/config.json", "wb").write(whole[:n])
    done = subprocess.run(["hk-inspect", "m"], capture_output=True, timeout=20)
    assert done.returncode == 1 and not done.stdout, (n, done)
PY
}

# ---- models of the shared directory ----

# stored DIR EXPECTED: its greedy runs, id for id, from the directory and from a .hk made of it.
stored() {
    hk-convert -f "$1" stored.hk
    "$PYTHON" - "$1" "$2" <<'PY'
import json, subprocess, sys
runs = json.load(open(sys.argv[2]))
runs = runs["greedy"] if isinstance(runs, dict) else runs
for model in "stored.hk", sys.argv[1]:
    for i, run in enumerate(runs):
        # With every weight in bf16 it is another model: a float64 pass over it leaves the fifth run at id 27 too.
        least = 27 if "bf16" in sys.argv[1] and i == 4 else len(run["ids"])
        got = subprocess.run(["hk-run", "--json", "-n", str(len(run["ids"])), model, run["prompt"]],
                             check=True, stdout=subprocess.PIPE)
        v = json.loads(got.stdout)
        assert v["tokens"][:least] == run["ids"][:least], (model, i, v["tokens"], run["ids"])
        assert least < len(run["ids"]) or v["text"] == run["text"], (model, i, v["text"])
        assert v["usage"]["prompt_tokens"] == len(run["prompt_ids"]), (model, i, v["usage"])
assert len(runs) > 2
PY
}

@test "directories run to the stored text" {
    need_shared
    for dir in stories260K-hf stories260K-hf-bf16-sharded; do
        stored "$SHARED/fixtures/models/$dir" "$FIX/models/expected.json"
    done
    for dir in tiny-llama tiny-qwen3; do
        stored "$SHARED/fixtures/trained/$dir" "$SHARED/fixtures/trained/$dir/greedy.json"
    done
}

@test "directories have the logits of transformers" {
    need_shared
    for name in tiny-llama tiny-qwen3; do
        dir=$SHARED/fixtures/trained/$name
        head -c 256 "$dir/val.tokens.u32" >first
        t_from first hk-perplexity --ids --ctx 64 -f --activations f32 --logits got.f32 "$dir"
        assert_status 0
        alike 0.99999 got.f32 "$dir/logits.f32"
    done
    "$PYTHON" - "$FIX/models/expected.json" <<'PY'
import json, struct, sys
ids = json.load(open(sys.argv[1]))["logits"]["prompt_ids"]
open("prompt", "wb").write(struct.pack("<%dI" % len(ids), *ids))
PY
    for dir in stories260K-hf stories260K-hf-bf16-sharded; do
        t_from prompt hk-perplexity --ids -f --activations f32 --logits got.f32 "$SHARED/fixtures/models/$dir"
        assert_status 0
        alike 0.9999 got.f32 "$FIX/models/stories260K.logits.f32"
    done
}

# rounds DIR: the model there becomes the same .hk by way of a directory, and by way of a GGUF and a directory
# one whose values are the same.
rounds() {
    hk-convert -f "$1" one.hk
    rm -rf dir
    hk-convert --to hf one.hk dir
    hk-convert -f dir two.hk
    assert_same one.hk two.hk
    hk-convert -f one.hk one.gguf
    hk-convert -f one.gguf two.hk
    rm -rf dir
    hk-convert --to hf two.hk dir
    hk-convert -f dir three.hk
    t_sh 'hk-diff --json --ignore-key "hk.source.*" one.hk three.hk || [ $? -eq 1 ]'
    assert_status 0
    assert_json '[v["metadata"][k] for k in ("added","removed","changed")]' '[[],[],[]]'
    assert_json '[v["tensors"][k] for k in ("added","removed")]' '[[],[]]'
    assert_json '[t for t in v["tensors"]["changed"] if t["differs"] != ["type"] or not t["values"]["equal"]]' '[]'
}

@test "a directory comes back as it was" {
    for family in llama mistral qwen2 qwen3; do
        make_dir --family $family --change '{"metadata":{"answer":"42"},"config":{"rope_scaling":{"type":"yarn",
            "factor":4,"attention_factor":1.2,"original_max_position_embeddings":64}}}' m
        rounds m
    done
    if [[ -n $SHARED ]]; then
        for dir in models/stories260K-hf{,-bf16-sharded} trained/tiny-{llama,qwen3}; do
            rounds "$SHARED/fixtures/$dir"
        done
    fi
}

@test "a GGUF has yarn's betas too, though llama.cpp does not read them, and that is said" {
    make_dir --change '{"config":{"rope_scaling":{"type":"yarn","factor":4,"beta_fast":8}}}' m
    t hk-convert m m.gguf
    assert_status 0
    assert_err_has "key llama.rope.scaling.yarn_beta_fast is 8, but llama.cpp takes 32 for this architecture"
    logits_of m a.f32
    logits_of m.gguf b.f32
    alike 0.9999999 a.f32 b.f32
}

@test "a llama3 rope goes to GGUF where llama.cpp has it" {
    local change='{"config":{"rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":1,
        "high_freq_factor":4,"original_max_position_embeddings":64}}}'
    for family in llama mistral; do
        make_dir --family $family --change "$change" m
        hk-convert -f m m.gguf
        logits_of m a.f32
        logits_of m.gguf b.f32
        alike 0.9999999 a.f32 b.f32
    done
    for family in qwen2 qwen3; do
        make_dir --family $family --change "$change" m
        t hk-convert -f m m.gguf
        assert_fails 1 "key $family.rope.scaling.type: GGUF has no llama3 scaling for this architecture"
    done
}

# in_peer NAME ROPE: the trained model with another rope has in the peer the logits that it has here.
in_peer() {
    rm -rf m
    cp -r "$SHARED/fixtures/trained/$1" m
    chmod -R u+w m
    "$PYTHON" - "$2" <<'PY'
import json, sys
with open("m/config.json") as f:
    config = json.load(f)
theta = config.pop("rope_theta", None) or config["rope_parameters"]["rope_theta"]
config["rope_scaling"], config["rope_parameters"] = None, json.loads('{%s,"rope_theta":%r}' % (sys.argv[1], theta))
with open("m/config.json", "w") as f:
    json.dump(config, f)
PY
    head -c 1600 m/val.tokens.u32 >some
    hk-convert -f m m.hk
    hk-convert -f m.hk m.gguf 2>/dev/null
    for model in m.hk m.gguf; do
        hk-perplexity --ids --ctx 400 -f --activations f32 --logits $model.f32 $model <some >/dev/null 2>&1
    done
    "$PYTHON" "$SHARED/peer/peer.py" logits m.gguf --tokens some --out peer.f32 --no-repack --kv f32 --threads 2
    alike 0.9999 m.hk.f32 peer.f32 || fail "$1, $2: another in the peer"
    alike 0.9999999 m.hk.f32 m.gguf.f32 || fail "$1, $2: another as a GGUF"
    if [[ $2 == *default* ]]; then
        cp m.hk.f32 plain.f32
    elif [[ $2 != *dynamic* ]]; then
        refute alike 0.9999 m.hk.f32 plain.f32
    fi
}

@test "a directory that becomes a GGUF has the same logits in the peer, whatever its rope" {
    need_shared
    [[ -n ${PEER_LIB:-} ]] || skip 'SKIPPED: PEER_LIB does not say where llama.cpp is'
    local original='"original_max_position_embeddings":128' rope
    for rope in '"rope_type":"default"' '"rope_type":"linear","factor":4.0' '"rope_type":"dynamic","factor":4' \
        "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,$original" \
        "\"rope_type\":\"yarn\",\"factor\":4,$original" \
        "\"rope_type\":\"yarn\",\"factor\":4,$original,\"attention_factor\":1.3" \
        "\"rope_type\":\"yarn\",\"factor\":4,$original,\"mscale\":1,\"mscale_all_dim\":0.5"; do
        in_peer tiny-llama "$rope"
    done
    for rope in '"rope_type":"default"' "\"rope_type\":\"yarn\",\"factor\":4,$original"; do
        in_peer tiny-qwen3 "$rope"
    done
}
