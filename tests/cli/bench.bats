# hk-bench: what it measures and how it says so, not how fast this machine is; and scripts/bench-peer
load common.bash

setup() {
    common_setup
    M=$FIX/models/stories260K-f16.gguf
    FEW='--prefill 16 --decode 4 --reps 2'
}

# patched OFFSET-PATTERN REPLACEMENT OUT: the model with bytes exchanged for as many others.
patched() {
    "$PYTHON" - "$M" "$@" <<'PY'
import sys
path, old, new, out = sys.argv[1:]
old, new = (s.encode().decode("unicode_escape").encode("latin-1") for s in (old, new))
data = open(path, "rb").read()
assert data.count(old) == 1 and len(old) == len(new)
open(out, "wb").write(data.replace(old, new))
PY
}

@test "one JSON object with the members of the manual, in order" {
    # shellcheck disable=SC2086 # words
    t hk-bench $FEW "$M"
    assert_status 0
    assert_err ''
    [[ $(wc -l <<<"$output") -eq 1 ]]
    assert_json 'list(v)' '["file","model","type","params","size","kernels","threads","gpu","batch","activations","reps","prefill","decode","load_ms","first_token_ms","memory"]'
    assert_json '[list(e) for e in v["prefill"]]' '[["n","depth","sequences","tps","min","max"]]'
    assert_json '[list(e) for e in v["decode"]]' '[["n","depth","sequences","tps","min","max"]]'
    assert_json 'list(v["memory"])' '["private","mapped","peak","kv","weights","kept"]'
    assert_json 'v["model"]' "$M"
    assert_json '[v["batch"],v["activations"],v["reps"],v["gpu"]]' '[512,"q8",2,null]'
    assert_json 'all(0 < e["min"] <= e["tps"] <= e["max"] for e in v["prefill"]+v["decode"])' True
    assert_json '0 < v["load_ms"] <= v["first_token_ms"]' True
}

@test "type, parameters and bytes of the weights, of a GGUF and of the .hk" {
    make_models
    t_sh 'hk-inspect model.gguf'
    size=$(printf '%s' "$output" | json - 'sum(t["size"] for t in v["tensors"])')
    params=$(printf '%s' "$output" | json - 'sum(math.prod(t["shape"]) for t in v["tensors"])')
    for f in model.gguf model.hk; do
        t hk-bench --prefill 4 --decode 0 --reps 1 $f
        assert_json '[v["type"],v["size"],v["params"]]' "[\"f16\",$size,$params]"
    done
}

@test "the file type has to be that of the layers" {
    # The number of q8_0, then that of bf16, in a file of f16 weights.
    for number in 07 20; do
        patched 'general.file_type\x04\x00\x00\x00\x01' "general.file_type\\x04\\x00\\x00\\x00\\x$number" other.gguf
        t hk-bench --prefill 4 --decode 0 --reps 1 other.gguf
        assert_json 'v["type"]' f16
    done
    mkhk x.hk '{"metadata":[]}'
    t hk-bench x.hk
    assert_fails 1 'hk-bench: x.hk: '
}

@test "a measurement for each size and each depth" {
    t hk-bench --prefill 8 --prefill 300 --prefill 1 --decode 3 --depth 0 --depth 256 --depth 509 --reps 1 "$M"
    assert_status 0
    assert_json '[e["n"] for e in v["prefill"]]' '[8,300,1]'
    assert_json '[[e["n"],e["depth"]] for e in v["decode"]]' '[[3,0],[3,256],[3,509]]'
    assert_json 'all(e["min"] == e["tps"] == e["max"] for e in v["prefill"]+v["decode"])' True
    t hk-bench --prefill 0 --decode 2 --reps 1 "$M"
    assert_json '[v["prefill"],len(v["decode"])]' '[[],1]'
    t hk-bench --prefill 2 --decode 0 --depth 7 --reps 1 "$M"
    assert_json '[len(v["prefill"]),v["prefill"][0]["depth"],v["decode"]]' '[1,0,[]]'
    t hk-bench --prefill 2 --prefill 300 --decode 0 --prefill-depth 212 --reps 1 "$M"
    assert_json '[[e["n"],e["depth"]] for e in v["prefill"]]' '[[2,212],[300,212]]'
}

@test "512 tokens, 64 after none, five times, unless told otherwise" {
    t hk-bench "$M"
    assert_status 0
    assert_json '[v["prefill"][0]["n"],v["decode"][0]["n"],v["decode"][0]["depth"],v["reps"]]' '[512,64,0,5]'
}

@test "several texts at once: a row for each number of them, the rate of all together" {
    t hk-bench --prefill 4 --decode 6 --depth 0 --depth 250 --sequences 1 --sequences 5 --reps 1 "$M"
    assert_status 0
    assert_json '[e["sequences"] for e in v["prefill"]]' '[1]'
    assert_json '[[e["n"],e["depth"],e["sequences"]] for e in v["decode"]]' '[[6,0,1],[6,0,5],[6,250,1],[6,250,5]]'
    assert_json 'v["memory"]["kv"]' $((5 * 256 * 5 * 4 * 8 * 2 * 2))
    # The weights are read once for all of them.
    t hk-bench --prefill 0 --decode 30 --threads 1 --sequences 1 --sequences 16 --reps 5 "$M"
    assert_json 'v["decode"][1]["max"] > v["decode"][0]["min"]' True
    t hk-bench --sequences 0 "$M"
    assert_fails 2 '--sequences'
}

@test "keys and values: f16, in segments of 256 positions, within private memory" {
    # 5 layers, 4 heads of 8 numbers, keys and values.
    for n in 1:1 256:1 257:2 512:2; do
        t hk-bench --prefill "${n%:*}" --decode 0 --reps 1 "$M"
        assert_json 'v["memory"]["kv"]' $((${n#*:} * 256 * 5 * 4 * 8 * 2 * 2))
        assert_json 'v["memory"]["private"] > v["memory"]["kv"]' True
        assert_json 'v["memory"]["peak"] >= v["memory"]["private"]' True
    done
}

@test "threads, batch, activations and kernels are those asked for" {
    # shellcheck disable=SC2086 # words
    HK_KERNELS=generic t hk-bench $FEW --threads 3 --batch 7 --activations f32 "$M"
    assert_status 0
    assert_json '[v["kernels"],v["threads"],v["batch"],v["activations"]]' '["generic",3,7,"f32"]'
    # shellcheck disable=SC2086 # words
    HK_THREADS=2 t hk-bench $FEW "$M"
    assert_json 'v["threads"]' 2
    HK_KERNELS=none t hk-bench missing.hk
    assert_fails 2 'hk-bench: HK_KERNELS: none: there is no such level'
    HK_THREADS=0 t hk-bench missing.hk
    assert_fails 2 'hk-bench: HK_THREADS: 0: '
}

@test "every level that runs here, the best first" {
    t hk-hardware-profile
    levels=$(printf '%s' "$output" | json - '"\n".join(v["kernels"]["runnable"])')
    # shellcheck disable=SC2086 # words
    HK_KERNELS=generic t hk-bench --levels $FEW "$M"
    assert_status 0
    all=$output
    [[ $(while read -r line; do json - 'v["kernels"]' <<<"$line"; done <<<"$all") == "$levels" ]]
    [[ $(while read -r line; do json - 'v["prefill"][0]["n"]' <<<"$line"; done <<<"$all" | sort -u) == 16 ]]
}

@test "tables for people" {
    # shellcheck disable=SC2086 # words
    HK_KERNELS=generic t hk-bench --table $FEW --depth 5 --threads 1 "$M"
    assert_status 0
    assert_out_like $'^type +f16\nparameters +0.26 million\nsize +509.2 KiB\nkernels +generic\nthreads +1\n'
    assert_out_like $'\nkeys and values +160.0 KiB\nweights kept +506.5 KiB\n\n +tokens +depth +sequences +per second +min +max\nprefill +16 +0 +1 [0-9. ]+\ndecode +4 +5 +1 [0-9. ]+$'
    # shellcheck disable=SC2086 # words
    t hk-bench --table --json $FEW "$M"
    assert_json 'v["type"]' f16
}

@test "a model from standard input" {
    # shellcheck disable=SC2086 # words
    t_sh 'cat "$1" | hk-bench --prefill 4 --decode 2 --reps 1 -' "$M"
    assert_status 0
    assert_json '[v["model"],v["params"]]' '["-",260032]'
}

@test "no further than the model goes" {
    t hk-bench --prefill 512 --decode 12 --depth 500 --reps 1 "$M"
    assert_status 0
    t hk-bench --prefill 513 "$M"
    assert_fails 1 '--depth need 513 positions, the model has 512'
    t hk-bench --prefill-depth 213 --prefill 300 "$M"
    assert_fails 1 '--depth need 513 positions, the model has 512'
    t hk-bench --depth 500 --decode 13 "$M"
    assert_fails 1 '--depth need 513 positions, the model has 512'
    t hk-bench --levels --depth 16777216 "$M"
    assert_fails 1 '--depth need 16777280 positions, the model has 512'
}

@test "options are checked before the model is opened" {
    for bad in '--prefill x' '--prefill 16777217' '--prefill-depth x' '--decode -1' '--depth 1.5' '--reps 0' '--batch 0' '--batch 4097' \
        '--threads 0' '--threads 257' '--activations f16' '--levels=1' '--what' '--depth' 'another'; do
        # shellcheck disable=SC2086 # words
        t hk-bench missing.hk $bad
        assert_fails 2 'try --help'
        refute_err_has missing.hk
    done
    t hk-bench
    assert_fails 2 'need a FILE'
}

@test "files that cannot be read or written" {
    mkdir dir
    for f in dir missing; do
        t timeout 5 hk-bench $f
        assert_fails 2 "hk-bench: $f: "
    done
    t bash -c 'hk-bench --prefill 2 --decode 1 "$0" >/dev/full' "$M"
    assert_fails 2 'hk-bench: standard output: '
    mkhk x.hk '{"metadata":[["general.architecture","string","rwkv7"]]}'
    t hk-bench --levels x.hk
    assert_fails 1 "hk-bench: x.hk: architecture 'rwkv7' is not supported"
}

# ---- scripts/bench-peer ----

# A peer of our own that is ten times slower than whatever it is told, and keeps what it was asked.
fake_peer() {
    mkdir -p shared/peer lib
    : >lib/libllama.so
    cat >shared/peer/peer.py <<'PY'
import json, os, sys
open("asked", "a").write(" ".join(sys.argv[1:]) + "\n")
pp, tg, depth = (int(sys.argv[sys.argv.index(o) + 1]) for o in ("--pp", "--tg", "--depth"))
if "broken" in "".join(sys.argv):
    sys.exit("peer: no")
print(json.dumps({"peer": "fake 1", "cpu": "none", "batch": 512, "depth": depth, "pp": pp, "tg": tg,
                  "pp_tok_s": 1e-3 if pp else None, "tg_tok_s": 1e-3 if tg else None, "load_s": 1.5, "context_s": 0.5,
                  "buffers_mib": {"CPU KV": 4.0, "CPU compute": 9.0}, "foreign_cpu": 0.25,
                  "memory_mib": {"anon": 40.0}, "memory_before_mib": {"anon": 11.0}}))
PY
    export HK_SHARED=$PWD/shared PEER_LIB=$PWD/lib B
}

@test "bench-peer: both engines in turn, and a table of the ratios" {
    fake_peer
    cp "$M" 'a|b.gguf'
    t "$ROOT/scripts/bench-peer" --prefill 8 --decode 2 --reps 1 --rounds 2 --threads 1 --raw raw 'a|b.gguf' "$M"
    assert_status 0
    assert_out_like $'^machine .*; threads 1; kernels .*; batch 512; prompt 8; generated 2; depth 0; processors any.\n'
    assert_out_has '; peer fake 1; back end none; '
    assert_out_has 'took at most 0.25 processors'
    assert_out_has $'\n\n| model | type | MiB | prefill: hk | peer | ratio | decode: hk | peer | ratio |'
    assert_out_like $'\n\\| a\\\\\\|b \\| f16 \\| 0 \\| [0-9.]+ \\| 0.0 \\| \\*\\*[0-9.]+\\*\\* \\([0-9.]+-[0-9.]+\\) \\|'
    assert_out_like $'\n\\| stories260K-f16 \\| f16 \\| .* \\| 25.0 \\| [0-9]+ \\| 2000 \\| 2 \\| .+ \\|$'
    [[ $(wc -l <asked) -eq 4 && $(wc -l <raw) -eq 4 ]]
    [[ $(head -n 1 asked) == 'bench a|b.gguf --threads 1 --reps 1 --pp 8 --tg 2 --depth 0' ]]
    for ((i = 1; i <= 4; i++)); do sed -n ${i}p raw | json - 'v["hk"]["reps"]' >/dev/null; done
}

@test "bench-peer: after a depth; the peer's back end has its level; programs elsewhere, on one processor" {
    fake_peer
    local level=avx2
    [[ $(hk-hardware-profile | json - '"avx2" in v["kernels"]["runnable"]') == True ]] || level=generic
    local cpu=haswell
    [[ $level == avx2 ]] || cpu=x64
    local one
    one=$(taskset -pc $$ | sed 's/.*: //; s/[^0-9].*//')
    ln -s "$(dirname "$(command -v hk-bench)")" programs
    B=missing t "$ROOT/scripts/bench-peer" --prefill 8 --decode 2 --depth 9 --reps 1 --rounds 1 --cpu $cpu --bin programs \
        --pin "$one" --raw raw "$M"
    assert_status 0
    assert_out_has "; threads 1; kernels $level; "
    assert_out_has "; depth 9; processors $one."
    [[ $(cat asked) == "--cpu $cpu bench $M --threads 1 --reps 1 --pp 8 --tg 2 --depth 9" ]]
    [[ $(json raw '[v["hk"]["prefill"][0]["depth"],v["hk"]["decode"][0]["depth"]]') == '[9,9]' ]]
    # What differs gets a column.
    t "$ROOT/scripts/bench-peer" --prefill 0 --decode 2 --reps 1 --rounds 1 --cpu $cpu --pin "$one" --raw raw "$M"
    assert_out_has '| f16 | 0 | - | - | - | '
    t "$ROOT/scripts/bench-table" raw
    assert_out_has '| model | type | MiB | prompt | depth | prefill: hk |'
    assert_out_has '| f16 | 0 | 0 | 0 | - | - | - | '
    t "$ROOT/scripts/bench-peer" --bin lib "$M"
    assert_fails 2 'bench-peer: no hk-bench in lib'
    t "$ROOT/scripts/bench-peer" --cpu unknown "$M"
    assert_fails 2 'bench-peer: --cpu unknown: no level of hk is known to match, set HK_KERNELS'
}

@test "bench-peer: models are made once, of the types and shapes asked for" {
    fake_peer
    # Stands for both programs: notes what it was asked and writes a model.
    cat >shared/peer/mkmodel.py <<'PY'
import os, shutil, sys
PRESETS = {"a": {"layers": 5}, "b": {"layers": 3}}
def note(out):
    open("made", "a").write(" ".join(sys.argv[1:]) + "\n")
    shutil.copy(os.environ["MODEL"], out)
if sys.argv[0].endswith("mkmodel.py"):
    note(sys.argv[1])
PY
    sed -i '1a if sys.argv[1] == "quantize": import mkmodel; mkmodel.note(sys.argv[3]); sys.exit(0)' shared/peer/peer.py
    export MODEL=$M
    t "$ROOT/scripts/bench-peer" --prefill 0 --decode 1 --reps 1 --rounds 1 --make m --shape a --shape b Q8_0 F16 IQ1_S MXFP4
    assert_status 0
    [[ $(ls m | LC_ALL=C sort) == $(printf '%s\n' {a,b}-{F16,IQ1_S,MXFP4,Q8_0}.gguf {a,b}-2-{F16,IQ1_S}.gguf | LC_ALL=C sort) ]]
    [[ $(grep '^m/a-\|quantize m/a' made | LC_ALL=C sort) == 'm/a-2-F16.gguf.part a --context 32768 --layers 2
m/a-F16.gguf.part a --context 32768 --layers 5
m/a-IQ1_S.gguf.part --repeat m/a-2-IQ1_S.gguf 5
quantize m/a-2-F16.gguf m/a-2-IQ1_S.gguf IQ1_S --imatrix uniform
quantize m/a-F16.gguf m/a-MXFP4.gguf.part MXFP4 --tensor-type attn=MXFP4 --tensor-type ffn=MXFP4
quantize m/a-F16.gguf m/a-Q8_0.gguf.part Q8_0' ]]
    rm made
    t "$ROOT/scripts/bench-peer" --prefill 0 --decode 1 --reps 1 --rounds 1 --make m --shape b Q8_0
    assert_out_has $'\n| b-Q8_0 | f16 |'
    [[ ! -e made ]]
    t "$ROOT/scripts/bench-peer" --make m --shape c Q8_0
    assert_status 2
    assert_err_has 'bench-peer: cannot make c-Q8_0.gguf'
}

@test "bench-peer: a model that one of them refuses is left out" {
    fake_peer
    cp "$M" broken.gguf
    make_models
    t "$ROOT/scripts/bench-peer" --prefill 8 --decode 2 --reps 1 --rounds 1 --hk broken.gguf
    assert_status 2
    assert_err 'bench-peer: broken.hk: cannot be read'
    cp model.hk broken.hk
    t "$ROOT/scripts/bench-peer" --prefill 8 --decode 2 --reps 1 --rounds 1 --hk --raw raw broken.gguf model.gguf
    assert_status 1
    assert_err_has 'bench-peer: broken.gguf: left out'
    refute_out_has broken
    assert_out_has $'\n| model | f16 |'
    json raw 'v["hk"]["model"]' | grep -qx model.hk
}

@test "with an adapter of the file's history" {
    hk-convert "$M" m.hk
    mkdir q
    "$PYTHON" "$ROOT/tests/lib/mkadapter.py" peft q '{}' \
        base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight:2x64 \
        base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight:64x2
    hk-append --lora q --name q m.hk
    # shellcheck disable=SC2086 # words
    t hk-bench $FEW --adapter q=0.5 --sequences 3 m.hk
    assert_status 0
    assert_json 'v["decode"][0]["sequences"]' 3
    # shellcheck disable=SC2086 # words
    t hk-bench $FEW --adapter r m.hk
    assert_fails 1 'no record r; there are: q'
}

@test "bench-peer: without the peer it says what to install" {
    fake_peer
    PEER_LIB='' t "$ROOT/scripts/bench-peer" "$M"
    assert_status 2
    assert_out ''
    assert_err_has 'npm install @node-llama-cpp/linux-'
    rm shared/peer/peer.py
    t "$ROOT/scripts/bench-peer" "$M"
    assert_fails 2 'set HK_SHARED'
    t "$ROOT/scripts/bench-peer"
    assert_fails 2 'no model; try --help'
    for bad in '--reps 0' '--rounds x' '--threads' '--what'; do
        # shellcheck disable=SC2086 # words
        t "$ROOT/scripts/bench-peer" $bad
        assert_fails 2 'bench-peer: '
    done
}
