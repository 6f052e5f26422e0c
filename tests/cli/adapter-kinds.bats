# Adapters of every kind that PEFT and llama.cpp save: what is changed, and what is named instead.
load common.bash

setup() {
    common_setup
    M=$FIX/models/stories260K-f16.gguf # tied; 512 x 64, 8 heads, 4 of keys
    CASES=$FIX/cases
    ADAPTERS=$SHARED/fixtures/adapters
    TRAINED=$SHARED/fixtures/trained
}

mkadapter() { "$PYTHON" "$ROOT/tests/lib/mkadapter.py" "$@"; }
cosine() { "$PYTHON" "$ROOT/tests/cli/cosine.py" "$@"; }
P=base_model.model.model.
Q=${P}layers.1.self_attn.q_proj
V=${P}layers.1.self_attn.v_proj
E=${P}embed_tokens
H=base_model.model.lm_head

# peft DIR CONFIG TENSOR...: a new one.
peft() {
    rm -rf "$1"
    mkdir "$1"
    mkadapter peft "$@"
}
stories() {
    hk-convert -f "$M" m.hk
    "$PYTHON" -c 'import struct,sys
sys.stdout.buffer.write(struct.pack("<32I", 1, *(3 + i * 37 % 500 for i in range(31))))' >ids
    hk-dequant -o embedding.f32 m.hk token_embd.weight
    hk-dequant -o v.f32 m.hk blk.1.attn_v.weight
}
# logits OUT FILE OPTION...: of the tokens in ids.
logits() { hk-perplexity --ids --ctx 64 -f --activations f32 --logits "$1" "${@:3}" "$2" <ids >/dev/null 2>&1; }
# appended ADAPTER...: y.hk is m.hk with them.
appended() {
    local words=() path
    for path; do words+=(--lora "$path"); done
    cp m.hk y.hk
    hk-append --strict "${words[@]}" y.hk
}
# merged ADAPTER...: out.hk, with all of them.
merged() {
    appended "$@"
    hk-merge -f --type f32 y.hk out.hk
}
# assert_tensor NAME WANTED: of out.hk.
assert_tensor() {
    hk-dequant -f -o got.f32 out.hk "$1"
    mkadapter near 1e-5 got.f32 "$2"
}
# bytes FILE TENSOR: its digest.
digest() { hk-hash --json "$1" 2>/dev/null | json - "[t['sha256'] for t in v['tensors'] if t['name'] == '$2']"; }

# ---- the fixtures ----

# agrees NAME FORM RECORD: merged, and at run time as RECORD, NAME's adapter in FORM gives its logits.
agrees() {
    local base=${1%/*} want=$ADAPTERS/$1/logits.f32
    head -c 160 "$TRAINED/$base/val.tokens.u32" >ids
    [[ -e $base.hk ]] || hk-convert "$TRAINED/$base" "$base.hk"
    cp "$base.hk" m.hk
    merged "$ADAPTERS/$1$2"
    logits all.f32 out.hk
    tail -c "$(stat -c %s "$want")" all.f32 >merged.f32
    cosine 0.99999 merged.f32 "$want"
    logits all.f32 y.hk --adapter "$3"
    tail -c "$(stat -c %s "$want")" all.f32 >run.f32
    cosine 0.99999 run.f32 "$want"
}

@test "twenty adapters of PEFT: merged and run from the directory, and from the GGUF" {
    need_shared
    [[ -d $ADAPTERS ]] || skip "SKIPPED: needs the adapters of the shared directory"
    seen=0
    for directory in "$ADAPTERS"/*/*/; do
        name=${directory#"$ADAPTERS"/}
        name=${name%/}
        agrees "$name" "" "${name#*/}"
        seen=$((seen + 1))
        [[ -e $directory/adapter.gguf && $name != */rslora-patterns ]] || continue
        agrees "$name" /adapter.gguf adapter
    done
    [[ $seen -eq 20 ]]
}

# ---- the reported cases ----

# said BASE PATH TEXT: stored with a line, refused with --strict and when used.
said() {
    rm -f out.hk
    hk-convert -f "$1" m.hk
    cp m.hk y.hk
    t hk-append --strict --lora "$2" --name it y.hk
    assert_fails 1 "$3"
    assert_same m.hk y.hk
    t hk-append --lora "$2" --name it y.hk
    assert_status 0
    [[ $(wc -l <<<"$stderr") -eq 1 ]] || fail "one line"
    assert_err_has "hk-append: $2: stored, but it cannot be applied to this model: "
    assert_err_has "$3"
    printf '\1\0\0\0\2\0\0\0\3\0\0\0' >ids
    for tool in 'hk-merge y.hk out.hk' 'hk-run --adapter it y.hk x' 'hk-perplexity --ids --adapter it y.hk' \
        'hk-log --extract it --to gguf -o out.gguf y.hk' 'hk-log --extract it --to peft -o out y.hk'; do
        # shellcheck disable=SC2086 # words
        t_from ids $tool
        assert_fails 1 "$3"
        [[ ! -e out.hk && ! -e out.gguf && ! -e out ]]
    done
}

@test "invocation tokens of a GGUF, wrong prefixes and wrong shapes are said, and refused when used" {
    said "$CASES/base.gguf" "$CASES/c001-alora.gguf" 'key adapter.alora.invocation_tokens'
    said "$CASES/base.gguf" "$CASES/c013-wrong-prefix" 'language_model.layers.0.self_attn.q_proj'
    said "$CASES/base.gguf" "$CASES/c013-wrong-shape" 'layers.0.self_attn.q_proj.lora_A.weight: it is not [rank][columns'
}

@test "an adapter without tensors is refused in every form" {
    hk-convert "$CASES/base.gguf" m.hk
    cp m.hk old.hk
    mkadapter gguf empty.gguf '{}'
    for path in "$CASES/c007-empty" "$CASES/c007-empty/adapter_model.safetensors" empty.gguf; do
        t hk-append --lora "$path" m.hk
        assert_fails 1 'the adapter has no tensors'
        assert_same m.hk old.hk
    done
}

@test "alpha 0 of a GGUF is a scale of 1, and said" {
    stories
    t hk-append --lora "$CASES/c005-alpha0.gguf" m.hk
    assert_status 0
    assert_err_has 'key adapter.lora.alpha is 0: as in llama.cpp, the scale is 1'
    mkadapter gguf zero.gguf '{"adapter.lora.alpha":0.0}' blk.1.attn_v.weight.lora_a:2x64:1 blk.1.attn_v.weight.lora_b:32x2:2
    merged zero.gguf
    mkadapter want want.f32 32x64:v.f32 A*1:2x64:1 B:32x2:2
    assert_tensor blk.1.attn_v.weight want.f32
    peft zero '{"lora_alpha":0}' $V.lora_A.weight:2x64:1 $V.lora_B.weight:32x2:2 # PEFT divides
    merged zero
    assert_tensor blk.1.attn_v.weight v.f32
}

@test "a pair and a whole tensor of one module: whole + s B A" {
    hk-convert "$CASES/untied" m.hk
    merged "$CASES/c003-pair-and-whole"
    "$PYTHON" -c 'import array,sys
sys.path.insert(0, sys.argv[1])
from mklora import read
for name, (_, v) in read(sys.argv[2])[0].items():
    array.array("f", v).tofile(open(name.split("lm_head.")[1], "wb"))' "$ROOT/tests/lib" "$CASES/c003-pair-and-whole/adapter_model.safetensors"
    mkadapter want want.f32 260x32:weight A:2x32:lora_A.weight B:260x2:lora_B.weight
    assert_tensor output.weight want.f32
}

@test "a copy of the base is ignored if it is the base's, else named" {
    hk-convert "$CASES/untied" m.hk
    hk-dequant -o head.f32 m.hk output.weight
    said "$CASES/untied" "$CASES/c010-base_layer" 'lm_head.base_layer.weight: it is no copy'
    peft one '{}' $H.lora_A.weight:2x32:1 $H.lora_B.weight:260x2:2 $H.base_layer.weight:260x32:head.f32
    merged one
    mkadapter want want.f32 260x32:head.f32 A:2x32:1 B:260x2:2
    assert_tensor output.weight want.f32
    peft alone '{}' $H.base_layer.weight:260x32:head.f32
    said "$CASES/untied" alone 'no tensor of the adapter changes the model'
    stories # f16, and queries in pairs
    hk-dequant -o q.f32 m.hk blk.1.attn_q.weight
    "$PYTHON" - <<'PY'
import array, struct
v = array.array("f", open("embedding.f32", "rb").read())
array.array("f", [x * (1 + 2 ** -14) for x in v]).tofile(open("unrounded.f32", "wb")) # rounds to the same f16
array.array("f", v[:-1].tolist() + [v[-1] * 1.01]).tofile(open("one-off.f32", "wb"))
q = array.array("f", open("q.f32", "rb").read())
halves = array.array("f")
for i in range(64): # of each head of 8 rows
    at = i % 8
    source = i - at + at % 4 * 2 + at // 4
    halves += q[source * 64:source * 64 + 64]
halves.tofile(open("halves.f32", "wb"))
PY
    pair="$E.lora_embedding_A:2x512:1 $E.lora_embedding_B:64x2:2"
    for name in embedding unrounded; do
        peft one '{}' $pair $E.base_layer.weight:512x64:$name.f32
        appended one
        peft one '{}' $pair $E.token_adapter.base_layer.weight:512x64:$name.f32
        appended one
    done
    peft one '{}' $pair $E.base_layer.weight:512x64:one-off.f32
    said "$M" one 'embed_tokens.base_layer.weight: it is no copy'
    peft one '{}' $Q.lora_A.weight:2x64 $Q.lora_B.weight:64x2 $Q.base_layer.weight:64x64:halves.f32
    appended one
    peft one '{}' $Q.lora_A.weight:2x64 $Q.lora_B.weight:64x2 $Q.base_layer.weight:64x64:q.f32
    said "$M" one 'q_proj.base_layer.weight: it is no copy'
}

@test "a copy of a quantised base is near enough, another is not" {
    need_shared
    [[ -n ${PEER_LIB:-} ]] || skip "SKIPPED: needs the peer's quantizer (PEER_LIB)"
    base=$TRAINED/tiny-llama/tiny-llama-f16.gguf
    hk-dequant -o head.f32 "$base" output.weight
    "$PYTHON" -c 'import array, random
v = array.array("f", open("head.f32", "rb").read())
size = (sum(x * x for x in v) / len(v)) ** 0.5
rng = random.Random(1)
array.array("f", [x + rng.gauss(0, size) for x in v]).tofile(open("other.f32", "wb"))'
    peft other '{}' $H.lora_A.weight:2x256 $H.lora_B.weight:2048x2 $H.base_layer.weight:2048x256:other.f32
    for type in Q8_0 Q4_0 Q2_K; do
        "$PYTHON" "$SHARED/peer/peer.py" quantize "$base" q.gguf $type >/dev/null 2>&1
        hk-convert -f q.gguf m.hk
        appended "$ADAPTERS/tiny-llama/embed-lm-head"
        t hk-append --strict --lora other m.hk
        assert_fails 1 'lm_head.base_layer.weight: it is no copy'
    done
}

# ---- embedding and head of a tied model ----

@test "a tied model: pairs of embedding and head change one of the two, merged and run" {
    stories
    logits base.f32 m.hk
    ea=2x512:1 eb=64x2:2 a=2x64:3 b=512x2:4
    peft embed '{}' $E.lora_embedding_A:$ea $E.lora_embedding_B:$eb
    peft head '{}' $H.lora_A.weight:$a $H.lora_B.weight:$b
    peft both '{}' $E.lora_embedding_A:$ea $E.lora_embedding_B:$eb $H.lora_A.weight:$a $H.lora_B.weight:$b
    mkadapter gguf both.gguf '{}' output.weight.lora_a:$a output.weight.lora_b:$b
    mkadapter want embed.f32 512x64:embedding.f32 EA:$ea EB:$eb
    mkadapter want head.f32 512x64:embedding.f32 A:$a B:$b
    while read -r name embedding head; do
        merged $name
        assert_tensor token_embd.weight $embedding.f32
        assert_tensor output.weight $head.f32
        logits merged.f32 out.hk
        logits run.f32 y.hk --adapter ${name%.*}
        cosine 0.999999 run.f32 merged.f32 base.f32 base.f32
        hk-verify --payload --strict out.hk >/dev/null
        hk-convert -f --to hf out.hk directory
        [[ $(json directory/config.json 'v["tie_word_embeddings"]') == False ]]
    done <<'ROWS'
embed embed embedding
head embedding head
both embed head
both.gguf embedding head
ROWS
    merged embed head
    assert_tensor token_embd.weight embed.f32
    assert_tensor output.weight head.f32
}

@test "a GGUF's pair of the embedding is transposed" {
    stories
    peft embed '{}' $E.lora_embedding_A:2x512:1 $E.lora_embedding_B:64x2:2
    "$PYTHON" -c 'import array,sys
sys.path.insert(0, sys.argv[1])
from mklora import read
v = read("embed/adapter_model.safetensors")[0]["base_model.model.model.embed_tokens.lora_embedding_A"][1]
array.array("f", [v[r * 512 + t] for t in range(512) for r in range(2)]).tofile(open("a.f32", "wb"))' "$ROOT/tests/lib"
    mkadapter gguf embed.gguf '{}' token_embd.weight.lora_a:512x2:a.f32 token_embd.weight.lora_b:64x2:2
    cp m.hk y.hk
    hk-append --strict --lora embed --name a --lora embed.gguf --name b y.hk
    hk-log --extract a -o a.st y.hk
    hk-log --extract b -o b.st y.hk
    "$PYTHON" "$ROOT/tests/lib/mklora.py" same a.st b.st
}

@test "a tied model: what was trained whole is of one use, trained rows of both" {
    stories
    peft embed '{"modules_to_save":["embed_tokens"]}' $E.weight:512x64:5
    merged embed
    mkadapter want new.f32 512x64:embedding.f32 ALL:512x64:5
    assert_tensor token_embd.weight new.f32
    assert_tensor output.weight embedding.f32
    [[ $(digest m.hk token_embd.weight) == "$(digest out.hk output.weight)" ]] || fail "not as it was stored"
    peft head '{"modules_to_save":["lm_head"]}' $H.weight:512x64:5
    merged head
    assert_tensor output.weight new.f32
    [[ $(digest m.hk token_embd.weight) == "$(digest out.hk token_embd.weight)" ]] || fail "not as it was stored"
    for indices in '[300,5,17]' '{"embed_tokens":[300,5,17]}' '{"model.embed_tokens":[300,5,17]}'; do
        peft tokens "{\"trainable_token_indices\":$indices}" $E.token_adapter.trainable_tokens_delta:3x64:6
        merged tokens
        mkadapter want new.f32 512x64:embedding.f32 ROWS=300,5,17:3x64:6
        assert_tensor token_embd.weight new.f32
        [[ $(digest out.hk output.weight) == '[]' ]] || fail "the head is the embedding"
    done
    appended tokens head
    t hk-merge y.hk none.hk
    assert_fails 1 'before what else changes it' # the rows of the head would be lost
    peft pair '{}' $H.lora_A.weight:2x64:3 $H.lora_B.weight:512x2:4
    merged tokens pair
    assert_tensor token_embd.weight new.f32
    mkadapter want head.f32 512x64:new.f32 A:2x64:3 B:512x2:4
    assert_tensor output.weight head.f32
}

@test "trained rows and whole tensors that do not fit are named" {
    T=$E.token_adapter.trainable_tokens_delta
    while read -r text config tensors; do
        # shellcheck disable=SC2086 # words
        peft bad "$config" $tensors
        said "$M" bad "$text"
    done <<ROWS
trainable_token_indices {"trainable_token_indices":[5,512]} $T:2x64
key {"trainable_token_indices":[5,5]} $T:2x64
key {"trainable_token_indices":[-1,5]} $T:2x64
trainable {"trainable_token_indices":[5]} $T:2x64
trainable {} $T:2x64
trainable {"trainable_token_indices":[5,6]} $T:2x63
adapter {"trainable_token_indices":[5,6]} $Q.lora_A.weight:2x64 $Q.lora_B.weight:64x2
adapter {"trainable_token_indices":{"lm_head":[5,6]}} $T:2x64
exclude {"trainable_token_indices":[5,6]} $T:2x64 $E.weight:512x64
exclude {"trainable_token_indices":[5,6]} $T:2x64 $E.lora_embedding_A:2x512 $E.lora_embedding_B:64x2
trained {"trainable_token_indices":{"lm_head":[5,6]}} $H.token_adapter.trainable_tokens_delta:2x64
another {} $H.weight:512x64 $H.modules_to_save.weight:512x64
tensor {"modules_to_save":["norm"]} $Q.lora_A.weight:2x64 $Q.lora_B.weight:64x2
shape {} $E.weight:511x64
shape {} ${P}norm.weight:63
ensure {"ensure_weight_tying":true} $E.weight:512x64
ensure {"ensure_weight_tying":true} $H.lora_A.weight:2x64 $H.lora_B.weight:512x2
ROWS
}

@test "halves of pairs, and names that are none, are named" {
    while read -r text tensors; do
        # shellcheck disable=SC2086 # words
        peft bad '{}' $tensors
        said "$M" bad "$text"
    done <<ROWS
lora_B $Q.lora_A.weight:2x64
lora_A $Q.lora_B.weight:64x2
lora_embedding_B $E.lora_embedding_A:2x512
lora_embedding_A $E.lora_embedding_B:64x2
embedding $E.lora_A.weight:2x64 $E.lora_B.weight:512x2
embedding $H.lora_embedding_A:2x512 $H.lora_embedding_B:64x2
embed_tokens $E.lora_embedding_A:2x511 $E.lora_embedding_B:64x2
embed_tokens $E.lora_embedding_A:2x512 $E.lora_embedding_B:63x2
embed_tokens $E.lora_embedding_A:3x512 $E.lora_embedding_B:64x3
lm_head $H.lora_A.weight:2x64 $H.lora_B.weight:511x2
lora_C $Q.lora_C.weight:2x64
lora_B.bias $Q.lora_A.weight:2x64 $Q.lora_B.weight:64x2 $Q.lora_B.bias:64
original_module $H.original_module.weight:512x64
layers.5 ${P}layers.5.self_attn.q_proj.lora_A.weight:2x64 ${P}layers.5.self_attn.q_proj.lora_B.weight:64x2
q_proj.bias $Q.bias:64
model.layers.1 model.layers.1.self_attn.q_proj.lora_A.weight:2x64
norm ${P}norm.lora_A.weight:2x64 ${P}norm.lora_B.weight:64x2
another $Q.lora_A.weight:2x64 $Q.lora_A.default.weight:2x64 $Q.lora_B.weight:64x2
ROWS
}

# ---- several changes of one tensor ----

@test "several adapters in order; what has to be first is refused behind another" {
    stories
    peft a '{}' $V.lora_A.weight:2x64:1 $V.lora_B.weight:32x2:2
    peft b '{"lora_alpha":2}' $V.lora_A.weight:2x64:3 $V.lora_B.weight:32x2:4
    peft dora '{"use_dora":true}' $V.lora_A.weight:2x64:5 $V.lora_B.weight:32x2:6 $V.lora_magnitude_vector:32:7
    peft whole '{}' $V.weight:32x64:8
    merged a b
    mkadapter want want.f32 32x64:v.f32 A:2x64:1 B:32x2:2 A*1:2x64:3 B:32x2:4
    assert_tensor blk.1.attn_v.weight want.f32
    merged dora a
    mkadapter want want.f32 32x64:v.f32 A:2x64:5 B:32x2:6 M:32:7 A:2x64:1 B:32x2:2
    assert_tensor blk.1.attn_v.weight want.f32
    merged whole a b
    mkadapter want want.f32 32x64:v.f32 ALL:32x64:8 A:2x64:1 B:32x2:2 A*1:2x64:3 B:32x2:4
    assert_tensor blk.1.attn_v.weight want.f32
    for pair in 'a dora' 'a whole' 'whole dora' 'dora whole' 'whole whole'; do
        # shellcheck disable=SC2086 # words
        appended $pair
        t hk-merge -f --type f32 y.hk none.hk
        assert_fails 1 'tensor blk.1.attn_v.weight: '
        assert_err_has 'before what else changes it'
        [[ ! -e none.hk ]]
    done
    appended a dora
    hk-merge -f --type f32 -a dora -a a y.hk out.hk
    mkadapter want want.f32 32x64:v.f32 A:2x64:5 B:32x2:6 M:32:7 A:2x64:1 B:32x2:2
    assert_tensor blk.1.attn_v.weight want.f32
    peft one '{"use_dora":true}' $V.weight:32x64:8 $V.lora_A.weight:2x64:5 $V.lora_B.weight:32x2:6 $V.lora_magnitude_vector:32:7
    merged one
    mkadapter want want.f32 32x64:v.f32 ALL:32x64:8 A:2x64:5 B:32x2:6 M:32:7
    assert_tensor blk.1.attn_v.weight want.f32
    hk-convert -f "$M" delta.st --to safetensors
    cp m.hk y.hk
    hk-append --delta delta.st --lora dora y.hk
    t hk-merge y.hk none.hk
    assert_fails 1 'before what else changes it'
}

@test "the same while running: several in order are what merging makes of them" {
    stories
    peft a '{}' $V.lora_A.weight:2x64:1 $V.lora_B.weight:32x2:2
    peft b '{"lora_alpha":2}' $V.lora_A.weight:2x64:3 $V.lora_B.weight:32x2:4
    peft dora '{"use_dora":true}' $V.lora_A.weight:2x64:5 $V.lora_B.weight:32x2:6 $V.lora_magnitude_vector:32:7
    peft whole '{}' $V.weight:32x64:8
    peft both '{"use_dora":true}' $V.weight:32x64:8 $V.lora_A.weight:2x64:5 $V.lora_B.weight:32x2:6 $V.lora_magnitude_vector:32:7
    for names in 'a b' dora 'dora a' whole 'whole a b' both 'both b a'; do
        # shellcheck disable=SC2086 # words
        merged $names
        logits merged.f32 out.hk
        logits base.f32 y.hk
        # shellcheck disable=SC2086 # words
        logits run.f32 y.hk $(printf -- '--adapter %s ' $names)
        cosine 0.9999999 run.f32 merged.f32
        ! cmp -s base.f32 run.f32 || fail "$names: nothing changed"
        # shellcheck disable=SC2086 # words
        hk-perplexity --ids --ctx 8 --sequences 4 --activations f32 -f --logits windows.f32 \
            $(printf -- '--adapter %s ' $names) y.hk <ids >/dev/null
        head -c 16384 run.f32 >some.f32 # of the first window
        head -c 16384 windows.f32 | cmp - some.f32
    done
    for names in 'a dora' 'a whole' 'whole dora' 'dora whole' 'whole whole'; do
        # shellcheck disable=SC2086 # words
        appended $names
        # shellcheck disable=SC2046,SC2086 # words
        t_from ids hk-perplexity --ids $(printf -- '--adapter %s ' $names) y.hk
        assert_fails 1 'tensor blk.1.attn_v.weight: '
        assert_err_has 'before what else changes it'
    done
    t_from ids hk-perplexity --ids --adapter whole=2 y.hk
    assert_fails 1 'taken once, not 2 times'
}

@test "differences of a tied embedding are the head's too, also beside an adapter of one of them" {
    stories
    "$PYTHON" -c 'import sys
sys.path.insert(0, sys.argv[1])
from mklora import write
write("d.st", {"token_embd.weight": ([512, 64], [0.25] * 512 * 64)})
import array
v = array.array("f", open("embedding.f32", "rb").read())
array.array("f", [x + 0.25 for x in v]).tofile(open("moved.f32", "wb"))' "$ROOT/tests/lib"
    peft head '{}' $H.lora_A.weight:2x64:3 $H.lora_B.weight:512x2:4
    cp m.hk y.hk
    hk-append --delta d.st y.hk
    hk-merge --type f32 y.hk out.hk
    assert_tensor token_embd.weight moved.f32
    [[ $(digest out.hk output.weight) == '[]' ]]
    hk-append --lora head y.hk
    hk-merge -f --type f32 y.hk out.hk
    mkadapter want head.f32 512x64:moved.f32 A:2x64:3 B:512x2:4
    assert_tensor token_embd.weight moved.f32
    assert_tensor output.weight head.f32
}

@test "differences of an embedding that the head refers to are the head's too, unless it has its own" {
    mkhk m.hk '{"tensors":[
        {"name":"token_embd.weight","type":"f32","shape":[2,2],"data":{"f32":[1,2,3,4]}},
        {"name":"output.weight","type":"shared_ref","shape":[2,2],"shared":0}]}'
    "$PYTHON" -c 'import sys
sys.path.insert(0, sys.argv[1])
from mklora import write
embedding, head = ([2, 2], [1, 1, 1, 1]), ([2, 2], [3, 3, 3, 3])
write("one.st", {"token_embd.weight": embedding})
write("two.st", {"token_embd.weight": embedding, "output.weight": head})' "$ROOT/tests/lib"
    while read -r name head; do
        cp m.hk y.hk
        hk-append --delta "$name.st" y.hk
        hk-merge -f --type f32 y.hk out.hk
        [[ $(hk-dequant out.hk token_embd.weight | od -An -tf4 | xargs) == '2 3 4 5' ]]
        [[ $(hk-dequant out.hk output.weight | od -An -tf4 | xargs) == "$head" ]]
    done <<<$'one 2 3 4 5\ntwo 4 5 6 7'
}

@test "a number of key heads that cannot be read is not taken for that of heads" {
    peft k '{}' "${Q/q_proj/k_proj}.lora_A.weight:2x64" "${Q/q_proj/k_proj}.lora_B.weight:32x2"
    while read -r type value; do
        hk-convert -f "$M" m.hk
        hk-append --lora k m.hk
        hk-meta set --type "$type" m.hk llama.attention.head_count_kv "$value"
        t hk-merge -f m.hk out.hk
        assert_fails 1 llama.attention.head_count_kv
    done <<<$'string 4\nint 0\nfloat 4\narray<i32> [4,4,4,4,4]'
}

# ---- GGUF ----

@test "a GGUF's keys: each is known, or the base's own" {
    pair='blk.1.attn_v.weight.lora_a:2x64:1 blk.1.attn_v.weight.lora_b:32x2:2'
    hk-convert -f "$M" m.hk
    while read -r keys; do
        # shellcheck disable=SC2086 # words
        mkadapter gguf good.gguf "$keys" $pair
        cp m.hk y.hk
        t hk-append --strict --lora good.gguf y.hk
        assert_status 0
        assert_err ''
    done <<'ROWS'
{}
{"general.name":"x","general.tags":"y","general.quantization_version":2,"general.file_type":1}
{"adapter.lora.task_name":"x","adapter.lora.prompt_prefix":"y"}
{"adapter.alora.invocation_tokens":[]}
{"llama.block_count":5,"tokenizer.ggml.bos_token_id":1}
ROWS
    while IFS='|' read -r text keys; do
        # shellcheck disable=SC2086 # words
        mkadapter gguf bad.gguf "$keys" $pair
        said "$M" bad.gguf "$text"
    done <<'ROWS'
key adapter.type is 'other', not 'lora'|{"adapter.type":"other"}
no key adapter.type|{"adapter.type":null}
key general.architecture is 'qwen3', not 'llama'|{"general.architecture":"qwen3"}
no key general.architecture|{"general.architecture":null}
no key general.type|{"general.type":null}
key general.type is 'model', not 'adapter'|{"general.type":"model"}
general.type|{"general.type":5}
no key adapter.lora.alpha|{"adapter.lora.alpha":null}
adapter.lora.alpha|{"adapter.lora.alpha":"4"}
adapter.lora.alpha|{"adapter.lora.alpha":Infinity}
key adapter.alora.invocation_tokens|{"adapter.alora.invocation_tokens":[5]}
key adapter.lora.rank is not known|{"adapter.lora.rank":2}
key llama.block_count is not as the base has it|{"llama.block_count":6}
key llama.block_count is not as the base has it|{"llama.block_count":"5"}
key something.else is not as the base has it|{"something.else":1}
ROWS
}

@test "a GGUF's tensors: any type, other names are named" {
    stories
    while read -r type a b tolerance; do
        mkadapter gguf one.gguf '{"adapter.lora.alpha":64.0}' blk.1.attn_v.weight.lora_a:32x64:1:$a blk.1.attn_v.weight.lora_b:32x32:2:$b
        merged one.gguf
        mkadapter want want.f32 32x64:v.f32 A*2:32x64:1 B:32x32:2
        hk-dequant -f -o got.f32 out.hk blk.1.attn_v.weight
        mkadapter near "$tolerance" got.f32 want.f32
        ! mkadapter near 0.5 got.f32 v.f32 2>/dev/null || fail "nothing was merged: $type"
        appended one.gguf
        printf '\1\0\0\0\2\0\0\0\3\0\0\0' >ids
        logits run.f32 y.hk --adapter one
        logits merged.f32 out.hk
        cosine 0.99999 run.f32 merged.f32
    done <<'ROWS'
f32 f32 f32 1e-4
f16 f16 f16 1e-2
bf16 bf16 bf16 5e-2
q8_0 q8_0 q8_0 5e-2
mixed q8_0 f16 5e-2
ROWS
    mkadapter gguf norm.gguf '{}' blk.1.attn_norm.weight:64:3 # llama.cpp's converter writes norms whole
    merged norm.gguf
    hk-dequant -f -o got.f32 out.hk blk.1.attn_norm.weight
    mkadapter want want.f32 1x64:got.f32 ALL:1x64:3
    mkadapter near 0 got.f32 want.f32
    while read -r text tensors; do
        # shellcheck disable=SC2086 # words
        mkadapter gguf bad.gguf '{}' $tensors
        said "$M" bad.gguf "$text"
    done <<'ROWS'
attn_q.weight.lora_c blk.1.attn_q.weight.lora_c:2x64
blk.9 blk.9.attn_q.weight.lora_a:2x64 blk.9.attn_q.weight.lora_b:64x2
ffn_gate_exps blk.1.ffn_gate_exps.weight.lora_a:2x64 blk.1.ffn_gate_exps.weight.lora_b:64x2
input_layernorm blk.1.attn_norm.weight.lora_a:2x64 blk.1.attn_norm.weight.lora_b:64x2
lora_B blk.1.attn_v.weight.lora_a:2x64
lora_A blk.1.attn_v.weight.lora_b:32x2
attn_v blk.1.attn_v.weight:32x64
rope_freqs rope_freqs.weight:4
matrix blk.1.attn_v.weight.lora_a:64 blk.1.attn_v.weight.lora_b:32x2
embed_tokens token_embd.weight.lora_a:2x512 token_embd.weight.lora_b:64x2
ROWS
}

# ---- settings and other bytes ----

@test "settings of the wrong JSON type, and unknown ones, are said and refused" {
    pair="$V.lora_A.weight:2x64:1 $V.lora_B.weight:32x2:2"
    while IFS='|' read -r text config; do
        # shellcheck disable=SC2086 # words
        peft bad "$config" $pair
        said "$M" bad "$text"
    done <<'ROWS'
key use_rslora has a value of the wrong JSON type|{"use_rslora":"true"}
key r has a value of the wrong JSON type|{"r":"2"}
key target_modules has a value of the wrong JSON type|{"target_modules":5}
key new_thing is not known|{"new_thing":1}
key alora_invocation_tokens is not supported|{"alora_invocation_tokens":[5]}
pattern '\d_proj' is not supported|{"alpha_pattern":{"\\d_proj":1}}
ROWS
}

@test "biases: trained ones of a base that has them, none of a base without" {
    hk-convert -f "$M" m.hk
    for bias in none all lora_only; do
        peft one "{\"bias\":\"$bias\"}" $V.lora_A.weight:2x64:1 $V.lora_B.weight:32x2:2
        appended one
    done
    peft one '{"bias":"all"}' $V.base_layer.bias:32
    said "$M" one 'v_proj.bias'
}

@test "bytes that are no adapter are stored with a line, and refused with --strict" {
    stories
    echo bytes >adapter.bin
    cp "$M" model.gguf
    hk-convert "$M" plain.safetensors
    while IFS='|' read -r path text; do
        cp m.hk y.hk
        t hk-append --lora "$path" --name it y.hk
        assert_status 0
        [[ $(wc -l <<<"$stderr") -eq 1 ]] || fail "one line"
        assert_err_has "hk-append: $path: stored, but it is not an adapter that hk knows: $text"
        hk-log --extract it -f -o back y.hk
        assert_same back "$path"
        t_from ids hk-perplexity --ids --adapter it y.hk
        assert_fails 1 "record 'it': "
        t hk-merge y.hk none.hk
        assert_fails 1 "record 'it': "
        cp m.hk y.hk
        t hk-append --strict --lora "$path" y.hk
        assert_fails 1 'it is not an adapter that hk knows'
        assert_same m.hk y.hk
    done <<'ROWS'
adapter.bin|
model.gguf|it is a GGUF, but key general.type is not
plain.safetensors|there is no adapter_config.json beside it
m.hk|it is a model
ROWS
}
