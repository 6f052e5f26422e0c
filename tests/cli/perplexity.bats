# hk-perplexity
load common.bash

setup() {
    common_setup
    M=$FIX/models/stories260K-f16.gguf
    TEXT='Once upon a time, there was a little girl named Lily. She loved to play outside.'
}

# ids N...: as --ids takes them.
ids() { "$PYTHON" -c 'import struct,sys; sys.stdout.buffer.write(b"".join(struct.pack("<I",int(i)) for i in sys.argv[1:]))' "$@"; }

# cosine A B: of two files of f32.
cosine() {
    "$PYTHON" - "$1" "$2" <<'PY'
import array, math, sys
a, b = (array.array("f", open(p, "rb").read()) for p in sys.argv[1:])
assert len(a) == len(b) > 0, (len(a), len(b))
dot = lambda x, y: math.fsum(p * q for p, q in zip(x, y))
print(dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)))
PY
}

at_least() { "$PYTHON" -c 'import sys; sys.exit(float(sys.argv[1]) < float(sys.argv[2]))' "$1" "$2"; }

@test "prints the perplexity of a text" {
    t_sh 'printf "%s" "$1" | hk-perplexity "$2"' "$TEXT" "$M"
    assert_status 0
    assert_err ''
    t_sh 'printf "%s" "$1" | hk-perplexity -v "$2"' "$TEXT" "$M"
    assert_err_like '^hk-perplexity: 2[0-9] tokens, [0-9.]+ a second; memory: .*; kernels: [a-z0-9]+; threads: [0-9]+$'
    assert_json 'list(v)' '["file","perplexity","nll","tokens","ctx"]'
    assert_json 'abs(math.exp(v["nll"])/v["perplexity"]-1) < 1e-12' True
    assert_json '1.2 < v["perplexity"] < 2 and v["ctx"] == 512' True
}

@test "logits of the stored ids agree with the reference, for every batch alike" {
    # shellcheck disable=SC2046 # words
    ids $(json "$FIX/models/expected.json" '" ".join(map(str,v["logits"]["prompt_ids"]))') >prompt
    for batch in 1 7 64; do
        t_from prompt hk-perplexity --ids --batch $batch --logits $batch.f32 "$M"
        assert_status 0
        assert_json 'v["tokens"]' 31
        [[ $batch -eq 1 ]] || assert_same 1.f32 $batch.f32
        results+="$output "
    done
    at_least "$(cosine 1.f32 "$FIX/models/stories260K.logits.f32")" 0.99999
    # shellcheck disable=SC2086 # words
    [[ $(printf '%s\n' $results | sort -u | wc -l) -eq 1 ]]
    want=$(json "$FIX/models/expected.json" 'v["logits"]["mean_nll_of_next_token"]')
    assert_json "abs(v['nll'] - $want) < 1e-4" True
}

@test "windows together, whatever their number, give the same digits and logits" {
    for i in {1..40}; do printf '%s' "$TEXT $i "; done >text
    for batch in 1 64 512; do
        t_from text hk-perplexity --ctx 50 --batch $batch --logits one.f32 -f "$M"
        one=$output
        for n in 2 5 64; do
            t_from text hk-perplexity --ctx 50 --batch $batch --sequences $n --logits $n.f32 -f "$M"
            assert_status 0
            assert_out "$one"
            assert_same one.f32 $n.f32
        done
    done
    t_from text hk-perplexity --sequences 0 "$M"
    assert_fails 2 '--sequences'
}

@test "the same from the .hk" {
    make_models
    t_sh 'printf "%s" "$1" | hk-perplexity --logits a.f32 model.gguf' "$TEXT"
    one=$output
    t_sh 'printf "%s" "$1" | hk-perplexity --logits b.f32 model.hk' "$TEXT"
    assert_out "${one/model.gguf/model.hk}"
    assert_same a.f32 b.f32
}

@test "pages that are large or locked change nothing" {
    t_sh 'printf "%s" "$1" | hk-perplexity --logits a.f32 "$2"' "$TEXT" "$M"
    one=$output
    t_sh 'printf "%s" "$1" | hk-perplexity --huge-pages --mlock --logits b.f32 "$2"' "$TEXT" "$M"
    assert_out "$one"
    assert_same a.f32 b.f32
}

@test "weights that do not stay in memory change nothing" {
    t_sh 'printf "%s" "$1" | hk-perplexity --logits a.f32 "$2"' "$TEXT" "$M"
    one=$output
    t_sh 'printf "%s" "$1" | hk-perplexity --memory 1 --logits b.f32 "$2"' "$TEXT" "$M"
    assert_out "$one"
    assert_same a.f32 b.f32
    t_sh 'hk-bench --memory 1 --prefill 2 --decode 2 --reps 1 "$1" | jq -c "[.memory.kept,.memory.weights>400000]"' "$M"
    assert_out '[0,true]'
    t_sh 'hk-bench --prefill 2 --decode 2 --reps 1 "$1" | jq -c "[.memory.kept==.memory.weights]"' "$M"
    assert_out '[true]'
    t_sh 'echo a | hk-run --memory 1 --mlock "$1"' "$M"
    assert_fails 2 '--memory and --mlock exclude each other'
}

@test "a limit on locked pages is named" {
    [[ -z ${SAN:-} ]] || skip 'SKIPPED: sanitizers lock nothing'
    for tool in 'hk-perplexity' 'hk-run -n 1' 'hk-bench --prefill 1 --decode 0'; do
        # Privileges know no limit.
        t_sh 'ulimit -l 64
            [ "$(id -u)" != 0 ] || set -- setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$@"
            echo a | "$@"' $tool --mlock "$M"
        assert_fails 2 'cannot lock the weights in memory, 523 KiB: the limit RLIMIT_MEMLOCK is 64 KiB (ulimit -l): '
    done
}

@test "windows start afresh; a short last one counts" {
    ids 403 407 261 378 >a
    ids 432 383 286 >b
    cat a b >both
    t_from a hk-perplexity --ids "$M"
    one=$(printf '%s' "$output" | json - 'v["nll"]*v["tokens"]')
    t_from b hk-perplexity --ids "$M"
    two=$(printf '%s' "$output" | json - 'v["nll"]*v["tokens"]')
    t_from both hk-perplexity --ids --ctx 4 --logits out.f32 "$M"
    assert_json '[v["tokens"],v["ctx"]]' '[5,4]'
    assert_json "abs(v['nll']*5 - $one - $two) < 1e-9" True
    [[ $(stat -c %s out.f32) -eq $((7 * 512 * 4)) ]]
}

@test "trained models: the stored logits and perplexities" {
    need_shared
    for name in tiny-llama:26.8746 tiny-qwen3:26.4280; do
        dir=$SHARED/fixtures/trained/${name%:*}
        head -c 256 "$dir/val.tokens.u32" >first
        t_from first hk-perplexity --ids --logits out.f32 -f "$dir/${name%:*}-f16.gguf"
        assert_status 0
        at_least "$(cosine out.f32 "$dir/logits.f32")" 0.99999
    done
    dir=$SHARED/fixtures/trained/tiny-llama
    head -c 8192 "$dir/val.tokens.u32" >some
    t_from some hk-perplexity --ids --ctx 512 "$dir/tiny-llama-f16.gguf"
    assert_json 'v["tokens"]' 2044
    # The tokens that --ids names are those of the text.
    t_from "$dir/val.txt" bash -c 'head -c 3000 | hk-perplexity "$0"' "$dir/tiny-llama-f16.gguf"
    count=$(printf '%s' "$output" | json - 'v["tokens"]+2')
    nll=$(printf '%s' "$output" | json - 'v["nll"]')
    head -c $((4 * count)) "$dir/val.tokens.u32" >same
    t_from same hk-perplexity --ids "$dir/tiny-llama-f16.gguf"
    assert_json "abs(v['nll'] / $nll - 1) < 0.01" True
}

@test "too little is an error" {
    t_sh 'hk-perplexity "$1" </dev/null' "$M"
    assert_fails 1 'hk-perplexity: standard input: need at least 2 tokens, got 0'
    ids 1 >one
    t_from one hk-perplexity --ids --logits out.f32 "$M"
    assert_fails 1 'need at least 2 tokens, got 1'
    assert_files one
}

@test "ids are checked" {
    ids 1 2 512 >beyond
    t_from beyond hk-perplexity --ids --logits out.f32 "$M"
    assert_fails 1 'hk-perplexity: standard input: token 2 is 512, but the vocabulary has 512 tokens'
    printf 'abcde' >odd
    t_from odd hk-perplexity --ids "$M"
    assert_fails 1 '5 bytes are not a whole number of 4-byte ids'
    assert_files beyond odd
}

@test "an existing file of logits is kept without -f, and the model always" {
    ids 1 2 3 >in
    echo old >out.f32
    t_from in hk-perplexity --ids --logits out.f32 "$M"
    assert_fails 2 'hk-perplexity: out.f32: '
    [[ $(cat out.f32) == old ]]
    t_from in hk-perplexity --ids --logits out.f32 -f "$M"
    assert_status 0
    [[ $(stat -c %s out.f32) -eq 6144 ]]
    cp "$M" model.gguf
    ln -s model.gguf link
    t_from in hk-perplexity --ids --logits link -f model.gguf
    assert_fails 2 'the output is the input'
    assert_same "$M" model.gguf
}

@test "options are checked before the model is opened" {
    for bad in '--ctx 1' '--ctx x' '--batch 0' '--ids=1' '--what' '--logits -' '--logits' 'another'; do
        # shellcheck disable=SC2086 # words
        t hk-perplexity missing.hk $bad
        assert_fails 2 'try --help'
        refute_err_has missing.hk
    done
    t hk-perplexity
    assert_fails 2 'need a FILE'
    t hk-perplexity -
    assert_fails 2 'the model cannot be standard input'
}

@test "files that cannot be read or written" {
    ids 1 2 3 >in
    mkdir dir
    make_unreadable secret
    for f in dir missing; do
        t_from in timeout 5 hk-perplexity --ids $f
        assert_fails 2 "hk-perplexity: $f: "
    done
    t_unprivileged hk-perplexity "$PWD/secret"
    assert_fails 2 'Permission denied'
    t_from in hk-perplexity --ids --logits none/out.f32 "$M"
    assert_fails 2 'hk-perplexity: none/out.f32: '
    t_from in hk-perplexity --ids --logits /dev/full "$M"
    assert_fails 2 'No space left on device'
    t bash -c 'hk-perplexity --ids "$0" <in >/dev/full' "$M"
    assert_fails 2 'hk-perplexity: standard output: '
    t hk-perplexity --ids "$M" <dir
    assert_fails 2 'hk-perplexity: standard input: '
}

@test "what is not run is refused by name" {
    mkhk x.hk '{"metadata":[["general.architecture","string","rwkv7"]]}'
    t_sh 'echo text | hk-perplexity x.hk'
    assert_fails 1 "hk-perplexity: x.hk: architecture 'rwkv7' is not supported"
}

@test "ids need no vocabulary, text does" {
    "$PYTHON" - "$M" bare.gguf <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data.replace(b"tokenizer.ggml.", b"tokenizer.none."))
PY
    ids 1 403 407 >in
    t_from in hk-perplexity --ids bare.gguf
    assert_status 0
    t_sh 'echo text | hk-perplexity bare.gguf'
    assert_fails 1 'hk-perplexity: bare.gguf: '
}

@test "threads, batches and float weights in both ways change nothing" {
    # shellcheck disable=SC2046 # words
    ids $(json "$FIX/models/expected.json" '" ".join(map(str,v["logits"]["prompt_ids"]))') >prompt
    for more in '--threads 1' '--threads 3 --batch 5' '--threads 2 --activations f32'; do
        # shellcheck disable=SC2086 # words
        t_from prompt hk-perplexity --ids -f --logits "${more//[ -]/}" $more "$M"
        assert_status 0
        assert_same threads1 "${more//[ -]/}"
    done
}

@test "rounded activations, or not" {
    q=$FIX/models/stories260K-q8_0.gguf
    [[ -f $q ]] || q=${HK_SHARED:-}/fixtures/models/stories260K-q8_0.gguf
    [[ -f $q ]] || skip 'needs HK_SHARED: a quantised model'
    ids 1 403 407 261 378 >prompt
    t_from prompt hk-perplexity --ids --logits q8 "$q"
    assert_status 0
    t_from prompt hk-perplexity --ids --logits f32 --activations f32 "$q"
    assert_status 0
    ! cmp -s q8 f32
    at_least "$(cosine q8 f32)" 0.9999
    t_from prompt hk-perplexity --ids --activations f16 "$q"
    assert_fails 2 'hk-perplexity: --activations: takes q8 or f32, not'
}

@test "the environment names kernels and threads" {
    ids 1 2 3 >in
    HK_KERNELS=generic HK_THREADS=2 t_from in hk-perplexity -v --ids "$M"
    assert_status 0
    assert_err_has 'kernels: generic; threads: 2'
    HK_KERNELS=turbo t_from in hk-perplexity --ids "$M"
    assert_fails 2 'hk-perplexity: HK_KERNELS: turbo: '
}
