# Tokenizers of Hugging Face model directories, through the programs: the ids that are stored, of the directory,
# of the .hk made of it, and of the directories made of that.
load common.bash

TEXTS=$FIX/tokenizers/texts.json

# model TOKENIZER DIR: a model directory with the tokenizer of another and a row of weights for each token.
model() {
    mkdir "$2"
    cp "$1"/tokenizer*.json "$2"
    "$PYTHON" - "$2" <<'PY' >shapes
import json, sys
with open(sys.argv[1] + "/tokenizer.json") as f:
    tokens = json.load(f)
rows = 1 + max(*tokens["model"]["vocab"].values(), *(t["id"] for t in tokens["added_tokens"]))
config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 2,
          "intermediate_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "vocab_size": rows}
with open(sys.argv[1] + "/config.json", "w") as f:
    json.dump(config, f)
layer = ["self_attn.%s_proj" % p for p in "qkvo"] + ["mlp.%s_proj" % p for p in ("gate", "up", "down")]
shapes = {"model.embed_tokens": [rows, 2], "model.norm": [2], "model.layers.0.input_layernorm": [2],
          "model.layers.0.post_attention_layernorm": [2], **{"model.layers.0." + n: [2, 2] for n in layer}}
print(json.dumps({n + ".weight": ["F32", shape] for n, shape in shapes.items()}))
PY
    "$PYTHON" "$ROOT/tests/lib/mkst.py" make "$2/model.safetensors" "$(<shapes)"
}

# gives MODEL TEXTS EXPECTED STEP: MODEL makes the stored ids of every STEPth text, with control tokens taken as
# such and as text, and the text of the ids; and it puts the tokens before a text that are stored.
gives() {
    "$PYTHON" - "$@" <<'PY'
import json, struct, subprocess, sys
model, texts, expected, step = sys.argv[1:]
with open(texts) as f:
    texts = [t["text"].encode() for t in json.load(f)]
with open(expected) as f:
    stored = json.load(f)
def run(data, program, *options):
    return subprocess.run([program, "--ids", *options, model], input=data, stdout=subprocess.PIPE, check=True).stdout
def ids_of(text, *options):
    return [i for i, in struct.iter_unpack("<I", run(text, "hk-tokenize", *options))]
assert ids_of(b"") == stored["prefix_ids"], (model, ids_of(b""))
cases = stored["cases"][::int(step)]
for case in cases:
    text, ids = texts[case["id"]], case.get("ids")
    plain = case.get("plain", ids)
    if plain is not None:
        got = ids_of(text, "--no-bos")
        assert got == plain, (model, text, got)
    if ids is not None:
        got = ids_of(text, "--no-bos", "--special")
        assert got == ids, (model, text, got)
        got = run(struct.pack("<%dI" % len(ids), *ids), "hk-detokenize", "--exact", "--special")
        assert got == (case["decoded"].encode() if "decoded" in case else text), (model, text, got)
assert len(cases) > 3
PY
}

# read_by_npm DIR TEXTS EXPECTED: @huggingface/tokenizers makes the stored ids of all the texts.
read_by_npm() {
    t node "$ROOT/tests/tokenizers/check.mjs" "$HK_NODE_MODULES" "$@"
    assert_status 0
}

# same_tokenizer A B: the directories have the same tokenizer, as JSON.
same_tokenizer() {
    "$PYTHON" - "$@" <<'PY'
import json, os, sys
a, b = sys.argv[1:]
for name in "tokenizer.json", "tokenizer_config.json":
    has = [os.path.exists(d + "/" + name) for d in (a, b)]
    assert has[0] <= has[1], name
    if has[0]:
        read = [json.load(open(d + "/" + name)) for d in (a, b)]
        assert read[0] == read[1], name
PY
}

# rounds DIR TEXTS EXPECTED STEP: DIR becomes model.hk, that the directory back, and that the same .hk again.
rounds() {
    hk-convert -f "$1" model.hk
    gives model.hk "${@:2}"
    rm -rf back
    hk-convert --to hf model.hk back
    same_tokenizer "$1" back
    hk-convert -f back again.hk
    assert_same model.hk again.hk
}

# forget: model.hk has what its tokenizer does, and no longer those of the files that said so that there were.
forget() {
    local key
    for key in hk.hf.tokenizer{,_form,_config}; do
        if hk-meta get model.hk "$key" >/dev/null 2>&1; then
            hk-meta delete model.hk "$key"
        fi
    done
}

# by_gguf TEXTS EXPECTED STEP: a GGUF of model.hk becomes a directory, and that a .hk.
by_gguf() {
    hk-convert -f model.hk model.gguf
    rm -rf written
    hk-convert --to hf model.gguf written
    hk-convert -f written written.hk
    gives written.hk "$@"
}

# stored_cases NAME: the cases of a trained model, as those of the tokenizers are stored.
stored_cases() {
    "$PYTHON" - "$SHARED/fixtures/trained/$1/tokenize.json" <<'PY'
import json, sys
with open(sys.argv[1]) as f:
    stored = json.load(f)
prefix = stored[0]["ids_special"][:len(stored[0]["ids_special"]) - len(stored[0]["ids"])]
cases = []
for i, c in enumerate(stored):
    assert c["ids_special"] == prefix + c["ids"], c
    cases.append({"id": i, "ids": c["ids"], "decoded": c["decoded"]})
    if "<|" in c["text"] or "<think>" in c["text"]: # what it would be as text is not stored
        cases[-1]["plain"] = None
with open("texts", "w") as f:
    json.dump(stored, f)
with open("expected", "w") as f:
    json.dump({"prefix_ids": prefix, "cases": cases}, f)
PY
}

@test "trained models" {
    need_shared
    for name in tiny-llama tiny-qwen3; do
        stored_cases $name
        gives "$SHARED/fixtures/trained/$name" texts expected 3
        rounds "$SHARED/fixtures/trained/$name" texts expected 1
    done
}

@test "SentencePiece's" {
    need_shared
    local expected=$FIX/tokenizers/expected/stories260K.json
    for name in stories260K-hf{,-bf16-sharded}; do
        rounds "$SHARED/fixtures/models/$name" "$TEXTS" "$expected" 8
    done
    forget
    by_gguf "$TEXTS" "$expected" 8
}

@test "a GGUF's" {
    local expected=$FIX/tokenizers/expected/stories260K.json
    cp "$FIX/models/stories260K-f16.gguf" model.hk
    by_gguf "$TEXTS" "$expected" 8
}

@test "GPT-2's" {
    need_shared
    model "$SHARED/fixtures/tokenizers/gpt2" m
    rounds m "$TEXTS" "$FIX/tokenizers/expected/gpt2.json" 25
    forget
    by_gguf "$TEXTS" "$FIX/tokenizers/expected/gpt2.json" 50
}

# (The unit tests have more of them, and all the texts.)
@test "those of npm packages" {
    need_shared
    [[ -n ${HK_VOCABULARIES:-} ]] || skip 'SKIPPED: the vocabularies are not there (HK_VOCABULARIES)'
    local name
    for name in llama3_1 qwen3 llama2; do
        model "$HK_VOCABULARIES/$name" $name
        hk-convert $name $name.hk
        hk-convert --to hf $name.hk $name-back
        same_tokenizer $name $name-back
    done
    ln -s llama2.hk mistral_v1.hk # what the package holds, in truth
    for name in llama3_1 qwen3 mistral_v1; do
        gives $name.hk "$TEXTS" "$SHARED/fixtures/tokenizers/expected/$name.json" 65
    done
}

@test "npm's reader takes the directories that are written" {
    [[ -n ${HK_NODE_MODULES:-} ]] || skip 'SKIPPED: no @huggingface/tokenizers to compare with (HK_NODE_MODULES)'
    need node
    hk-convert --to hf "$FIX/models/stories260K-f16.gguf" written
    read_by_npm written "$TEXTS" "$FIX/tokenizers/expected/stories260K.json"
    if [[ -n $SHARED ]]; then
        for name in tiny-llama tiny-qwen3; do
            stored_cases $name
            hk-convert -f "$SHARED/fixtures/trained/$name" model.hk
            hk-convert --to hf model.hk $name
            read_by_npm $name texts expected
            forget
            hk-convert -f model.hk model.gguf
            hk-convert --to hf model.gguf $name-written
            read_by_npm $name-written texts expected
        done
    fi
}
