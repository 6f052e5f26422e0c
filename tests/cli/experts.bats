# Directories with a tensor an expert: stacked on the way in, taken apart on the way out.
load common.bash

setup() {
    common_setup
    make_moe m
}

# make_moe DIR [CHANGE]: a qwen3_moe directory of 2 layers and 3 experts; CHANGE is Python that sees config (a dict)
# and tensors (name: [shape, bytes]).
make_moe() {
    "$PYTHON" - "$@" <<'PY'
import json, os, random, struct, sys
hidden, ffn, layers, heads, kv, head, experts, vocab = 32, 16, 2, 4, 2, 8, 3, 40
config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": hidden, "head_dim": head,
          "intermediate_size": 48, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
          "max_position_embeddings": 64, "vocab_size": vocab, "rms_norm_eps": 1e-06, "num_local_experts": experts,
          "num_experts_per_tok": 2, "moe_intermediate_size": ffn, "norm_topk_prob": True, "decoder_sparse_step": 1,
          "mlp_only_layers": [], "rope_theta": 10000.0, "torch_dtype": "bfloat16"}
rng = random.Random(5)
tensors = {}
def add(name, *shape):
    n = 1
    for d in shape:
        n *= d
    tensors[name] = [list(shape), b"".join(struct.pack("<f", rng.uniform(-1, 1))[2:] for _ in range(n))]
add("model.embed_tokens.weight", vocab, hidden)
add("model.norm.weight", hidden)
add("lm_head.weight", vocab, hidden)
for i in range(layers):
    p = "model.layers.%d." % i
    for name in "input_layernorm", "post_attention_layernorm":
        add(p + name + ".weight", hidden)
    for name, rows in ("q", heads * head), ("k", kv * head), ("v", kv * head):
        add(p + "self_attn.%s_proj.weight" % name, rows, hidden)
    add(p + "self_attn.o_proj.weight", hidden, heads * head)
    for name in "q_norm", "k_norm":
        add(p + "self_attn.%s.weight" % name, head)
    add(p + "mlp.gate.weight", experts, hidden)
    for e in range(experts):
        for name, rows, cols in ("gate", ffn, hidden), ("up", ffn, hidden), ("down", hidden, ffn):
            add(p + "mlp.experts.%d.%s_proj.weight" % (e, name), rows, cols)
if len(sys.argv) > 2:
    exec(sys.argv[2])
os.makedirs(sys.argv[1])
head, data = {"__metadata__": {"format": "pt"}}, b""
for name, (shape, b) in sorted(tensors.items()):
    head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(b)]}
    data += b
head = json.dumps(head).encode()
open(sys.argv[1] + "/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
PY
}

# remade CHANGE: the directory m with a change.
remade() {
    rm -rf m
    make_moe m "$1"
}

# stacked FILE: the stacks in FILE are the experts' tensors of m, one behind the other.
stacked() {
    for layer in 0 1; do
        for matrix in gate up down; do
            hk-dequant "$1" "blk.$layer.ffn_${matrix}_exps.weight" >stack.f32
            for e in 0 1 2; do
                hk-dequant m/model.safetensors "model.layers.$layer.mlp.experts.$e.${matrix}_proj.weight"
            done >slices.f32
            assert_same stack.f32 slices.f32
        done
    done
}

@test 'a tensor an expert becomes a stack, in .hk and in GGUF' {
    hk-convert m m.hk
    t hk-inspect --tensors m.hk
    assert_json '[t["shape"] for t in v["tensors"] if "_exps" in t["name"]][:3]' '[[3,16,32],[3,16,32],[3,32,16]]'
    assert_json 'sum("experts" in t["name"] for t in v["tensors"])' 0
    stacked m.hk
    hk-convert m m.gguf
    stacked m.gguf
    t hk-inspect --tensors m.gguf
    assert_json '[t["type"] for t in v["tensors"] if "ffn_gate_inp" in t["name"]]' '["f32","f32"]'
    assert_json '[t["type"] for t in v["tensors"] if "_exps" in t["name"]][0]' bf16
}

@test 'hyperparameters of experts come from either form of the config' {
    t hk-inspect --metadata m
    assert_json '[v["metadata"]["qwen3moe.expert_" + k] for k in ("count", "used_count", "feed_forward_length")]' '[3,2,16]'
    assert_json '"qwen3moe.expert_weights_norm" in v["metadata"]' False
    remade 'config["num_experts"] = config.pop("num_local_experts"); del config["norm_topk_prob"]'
    t hk-inspect --metadata m
    assert_json 'v["metadata"]["qwen3moe.expert_count"]' 3
    assert_json 'v["metadata"]["qwen3moe.expert_weights_norm"]' False
}

@test 'a stack is taken apart on the way back' {
    hk-convert m m.hk
    for from in m.hk m; do
        hk-convert -f "$from" --to hf back
        "$PYTHON" "$ROOT/tests/lib/hfdir.py" same m back
        assert_same m/config.json back/config.json
    done
    hk-convert m m.gguf
    hk-convert m.gguf g.hk
    hk-convert g.hk --to hf there
    "$PYTHON" "$ROOT/tests/lib/hfdir.py" values m there
    hk-convert there again.hk
    hk-convert m direct.hk
    assert_same <(hk-dequant again.hk blk.1.ffn_up_exps.weight) <(hk-dequant direct.hk blk.1.ffn_up_exps.weight)
    hk-convert --split-size 8K -f m.hk --to hf shards
    "$PYTHON" "$ROOT/tests/lib/hfdir.py" same m shards
}

@test 'types of stacks change as those of other tensors' {
    hk-convert m m.hk
    hk-convert --to hf --type f32 m.hk as32
    "$PYTHON" "$ROOT/tests/lib/hfdir.py" values m as32
}

@test 'an expert that is missing or unlike the others is refused by name' {
    remade 'del tensors["model.layers.1.mlp.experts.1.up_proj.weight"]'
    t hk-convert m x.hk
    assert_fails 1 'no tensor model.layers.1.mlp.experts.1.up_proj.weight'
    remade 'del tensors["model.layers.1.mlp.experts.2.up_proj.weight"]'
    t hk-convert m x.hk
    assert_fails 1 'model.layers.1.mlp.experts.0.up_proj.weight is 2 x 16 x 32, but by config.json 3 x 16 x 32'
    remade 'tensors["model.layers.0.mlp.experts.2.up_proj.weight"][0] = [32, 16]'
    t hk-convert m x.hk
    assert_fails 1 'model.layers.0.mlp.experts.2.up_proj.weight is not of the type and shape of model.layers.0.mlp.experts.0'
    remade 'tensors["model.layers.0.mlp.experts.02.up_proj.weight"] = tensors["model.layers.0.mlp.experts.2.up_proj.weight"]'
    t hk-convert m x.hk
    assert_fails 1 'model.layers.0.mlp.experts.02.up_proj.weight has no place'
    remade 'config["mlp_only_layers"] = [1]'
    t hk-convert m x.hk
    assert_fails 1 'mlp_only_layers is [1]: not supported'
    assert_files m
}

@test 'fixtures: qwen3moe is what llama.cpp converts' {
    need_shared
    local families=$SHARED/fixtures/families
    [[ -d $families ]] || skip 'SKIPPED: needs the families of the shared directory'
    for name in qwen3-moe qwen3-moe-256; do
        hk-convert -f "$families/$name/hf" out.gguf
        hk-inspect --tensors --metadata out.gguf >ours.json
        hk-inspect --tensors --metadata "$families/$name/$name.gguf" >theirs.json
        # Names, types and shapes are the same; so are all values of keys that both have. Ours has the rope's size; theirs
        # the sizes of a head where they follow, and general.* that say nothing of the model.
        "$PYTHON" - <<'PY'
import json
a, b = json.load(open("ours.json")), json.load(open("theirs.json"))
tensors = lambda v: sorted((t["name"], t["type"], t["shape"]) for t in v["tensors"])
assert tensors(a) == tensors(b)
a, b = a["metadata"], b["metadata"]
assert all(a[k] == b[k] for k in a if k in b), [(k, a[k], b[k]) for k in a if k in b and a[k] != b[k]]
assert {k for k in a if k not in b} <= {"qwen3moe.rope.dimension_count", "hk.hf.config", "hk.hf.generation_config", "hk.source.format", "hk.rope_style"}, a.keys() - b.keys()
assert {k for k in b if k not in a and not k.startswith("general.")} <= {
    "tokenizer.ggml.model", "qwen3moe.attention.key_length", "qwen3moe.attention.value_length"}, b.keys() - a.keys()
PY
        hk-diff --tensors --json out.gguf "$families/$name/$name.gguf" >diff.json || fail "$name: tensors differ"
        hk-convert -f "$families/$name/hf" out.hk
        rm -rf back
        hk-convert out.hk --to hf back
        "$PYTHON" "$ROOT/tests/lib/hfdir.py" same "$families/$name/hf" back
    done
}
