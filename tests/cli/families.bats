# Families: models as transformers saves them and as llama.cpp's converter writes them, against the logits that
# transformers computes (../shared/fixtures/families).
load common.bash

FAMILIES=$SHARED/fixtures/families

# A row a family: its directory; what its GGUF is to it:
#   same   the same logits, bit for bit
#   rows   the same but for the order of sums, as its rows of queries and keys are in another order
#   less   the converter left something out: WHY
#   none   there is none
table() {
    cat <<'ROWS'
llama rows
mistral-swa none
llama-rope3 none
ministral3 rows
qwen2 same
qwen3 same
gemma same
gemma2 less query_pre_attn_scalar
olmo2 same
gemma3 less query_pre_attn_scalar
gemma3-256 less query_pre_attn_scalar
smollm3 rows
granite rows
starcoder2 same
seed-oss same
arcee rows
nemotron same
glm4 same
phi3 same
phi4-mini none
mixtral rows
glm4-moe same
qwen2-moe same
qwen3-moe same
qwen3-moe-256 same
ROWS
}

# Those that are read from GGUF files only, and what their logits with rounded activations reach.
gguf_table() {
    cat <<'ROWS'
granite-moe 0.99
gpt-oss 0.99
gpt-oss-mxfp4 0.99
ROWS
}

# ids NAME: its ids to the file ids.
ids() {
    "$PYTHON" - "$FAMILIES" "$1" <<'PY'
import json, struct, sys
ids = json.load(open(sys.argv[1] + "/index.json"))[sys.argv[2]]["ids"]
open("ids", "wb").write(b"".join(struct.pack("<I", i) for i in ids))
PY
}
# logits MODEL OUT [OPTION]...: of all positions of ids.
logits() {
    local model=$1 out=$2
    shift 2
    hk-perplexity --ids --ctx 48 -f "$@" --logits "$out" "$model" <ids >/dev/null 2>err || fail "$model: $(cat err)"
}
cosine() { "$PYTHON" "$ROOT/tests/cli/cosine.py" "$@"; }
# same_tensors A B: all tensors are alike.
same_tensors() { hk-diff --tensors "$1" "$2" || fail "tensors of $1 and $2"; }

# older DIR OUT: the directory with a config.json as versions of the library before 5 wrote it.
older() {
    mkdir "$2"
    ln -s "$1"/*.safetensors "$2"
    "$PYTHON" - "$1/config.json" "$2/config.json" <<'PY'
import json, sys
c = json.load(open(sys.argv[1]))
rope = c.pop("rope_parameters")
kind = rope.get("rope_type")
if "sliding_attention" in rope:
    c["rope_local_base_freq"] = rope.pop("sliding_attention")["rope_theta"]
    rope = rope.pop("full_attention")
c["rope_theta"] = rope.pop("rope_theta")
if rope.pop("rope_type") != "default":
    c["rope_scaling"], rope = dict(rope, type=kind), {}
if rope.get("partial_rotary_factor", 1) != 1:
    c["partial_rotary_factor"] = rope["partial_rotary_factor"]
rope.pop("partial_rotary_factor", None)
assert not rope, rope
if c.pop("_sliding_window_pattern", None):
    c["sliding_window_pattern"] = c["layer_types"].index("full_attention") + 1
c["torch_dtype"] = c.pop("dtype")
c.pop("layer_types", None)
c["transformers_version"] = "4.40.0"
json.dump(c, open(sys.argv[2], "w"))
PY
}

# check_family NAME GGUF: all that a row of the table says.
check_family() {
    local name=$1 dir=$FAMILIES/$1 gguf=$FAMILIES/$1/$1.gguf
    rm -rf -- *
    ids "$name"
    hk-convert "$dir/hf" m.hk
    logits m.hk f32 --activations f32
    cosine 0.9999 f32 "$dir/reference.f32"
    logits m.hk rounded
    cosine 0.995 rounded "$dir/reference.f32"

    older "$dir/hf" old
    hk-convert old old.hk
    same_tensors m.hk old.hk
    logits old.hk old.f32 --activations f32
    assert_same f32 old.f32

    hk-convert --to hf m.hk back
    hk-convert back back.hk
    same_tensors m.hk back.hk
    logits back.hk back.f32 --activations f32
    assert_same f32 back.f32

    case $2 in
    same | rows | less) logits "$gguf" gguf.f32 --activations f32 ;;&
    same) assert_same f32 gguf.f32 ;;
    rows) cosine 0.999999 f32 gguf.f32 ;;
    less) cosine 0.999 f32 gguf.f32 ;;
    none) [[ ! -e $gguf ]] ;;
    esac
    hk-convert m.hk made.gguf
    logits made.gguf made.f32 --activations f32
    case $2 in
    rows | none) cosine 0.999999 f32 made.f32 ;;
    *) assert_same f32 made.f32 ;;
    esac
    [[ $2 != less ]] || echo "# $name: the converter lost $3"
}

@test "models of each family give what transformers gives, from either form of config.json, .hk, GGUF and back" {
    need_shared
    local name gguf why
    while read -r name gguf why <&3; do
        check_family "$name" "$gguf" "$why"
    done 3< <(table)
}

@test "families that are read from GGUF files give what transformers gives" {
    need_shared
    local name least
    while read -r name least <&3; do
        rm -rf -- *
        ids "$name"
        logits "$FAMILIES/$name/$name.gguf" f32 --activations f32
        cosine 0.9999 f32 "$FAMILIES/$name/reference.f32"
        logits "$FAMILIES/$name/$name.gguf" rounded
        cosine "$least" rounded "$FAMILIES/$name/reference.f32"
        hk-convert "$FAMILIES/$name/$name.gguf" m.hk
        logits m.hk hk.f32 --activations f32
        assert_same f32 hk.f32
        t hk-convert "$FAMILIES/$name/hf" from.hk
        assert_fails 1 'read from GGUF files only'
    done 3< <(gguf_table)
}

@test "each family gives the same bits at every level, for any threads, batches and sequences" {
    need_shared
    local name level threads batch
    while read -r name _ <&3; do
        rm -rf -- *
        ids "$name"
        hk-convert "$FAMILIES/$name/hf" m.hk 2>/dev/null || hk-convert "$FAMILIES/$name/$name.gguf" m.hk
        logits m.hk first --threads 1
        for level in generic avx2 avx512 amx; do
            HK_KERNELS=$level hk-perplexity --ids --ctx 48 -f --logits level m.hk <ids >/dev/null 2>&1 || continue
            assert_same first level
        done
        for threads in 1 3; do
            for batch in 1 5; do
                logits m.hk other --threads $threads --batch $batch
                assert_same first other
            done
        done
    done 3< <(table; gguf_table)
}

@test "texts in one batch, longer than a window and than its blocks, are as each alone" {
    need_shared
    local name
    for name in mistral-swa gemma2 gemma3; do
        rm -rf -- *
        hk-convert "$FAMILIES/$name/hf" m.hk
        hk-meta set --type int64 m.hk "$(hk-meta get m.hk general.architecture)".context_length 2000 >/dev/null
        "$PYTHON" -c '
import struct, sys
sys.stdout.buffer.write(b"".join(struct.pack("<I", (i * i // 7 + i) % 251) for i in range(3 * 1100)))' >ids
        hk-perplexity --ids --ctx 1100 -f --batch 1100 --logits one m.hk <ids >/dev/null 2>&1
        hk-perplexity --ids --ctx 1100 -f --sequences 3 --batch 64 --logits many m.hk <ids >/dev/null 2>&1
        assert_same one many
        hk-perplexity --ids --ctx 1100 -f --batch 7 --threads 3 --logits few m.hk <ids >/dev/null 2>&1
        assert_same one few
    done
}

@test "which factors of a longrope count follows from --ctx" {
    need_shared
    ids phi4-mini
    hk-convert "$FAMILIES/phi4-mini/hf" m.hk
    head -c 64 ids >first
    for ctx in 16 17; do
        hk-perplexity --ids --ctx $ctx -f --logits $ctx.f32 m.hk <first >/dev/null 2>&1
    done
    refute cmp -s 16.f32 17.f32
    hk-convert --to safetensors m.hk m.safetensors
    "$PYTHON" - <<'PY'
import json, struct
path = "m.safetensors"
data = open(path, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
at = {name: [8 + n + x for x in head["rope_factors_%s.weight" % name]["data_offsets"]] for name in ("short", "long")}
short = data[slice(*at["short"])]
assert list(map(lambda v: round(v, 2), struct.unpack("<6f", short))) == [1, 1.02, 1.05, 1.1, 1.2, 1.3]
open(path, "wb").write(data[:at["long"][0]] + short + data[at["long"][1]:])
PY
    hk-convert m.safetensors edited.hk
    hk-perplexity --ids --ctx 17 -f --logits edited.f32 edited.hk <first >/dev/null 2>&1
    assert_same 16.f32 edited.f32
    t hk-convert --to hf edited.hk x
    assert_fails 1 'tensor rope_factors_long.weight holds other factors than the config.json that is stored'
}

@test "a GGUF may list which layers have a window" {
    need_shared
    ids olmo3
    logits "$FAMILIES/olmo3/olmo3.gguf" listed --activations f32
    cosine 0.9999 listed "$FAMILIES/olmo3/reference.f32"
}
