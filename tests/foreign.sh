#!/bin/sh
# Programs of a build for another architecture (B) against the native ones (HK_NATIVE): what they
# write is the same, byte for byte. Run by scripts/check-foreign.
# shellcheck disable=SC2016 # lines for sh
. tests/tap.sh

if [ -z "${HK_NATIVE:-}" ]; then
    echo '1..0 # SKIP scripts/check-foreign runs this'
    exit 0
fi
model=$HK_FIXTURES/models/stories260K-f16.gguf
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/native" "$work/foreign"
unset HK_KERNELS HK_THREADS

level= # of kernels that the foreign programs take; the native ones take their best, which must agree

# both NAME LINE: runs it with each build's programs first in PATH, in a directory of
# each; then all files there are equal, standard output among them.
both() {
    name=$1
    for side in native foreign; do
        bin=$HK_NATIVE/bin choice=
        [ $side = native ] || bin=$B/bin choice=${level:+"export HK_KERNELS=$level;"}
        if ! (cd "$work/$side" && PATH=$bin:$PATH model=$model sh -c "$choice $2") \
            >"$work/$side/out" 2>"$work/$side.err"; then
            fail "$name" "$(printf '%s: ' $side && cat "$work/$side.err")"
            return
        fi
    done
    if said=$(diff -r "$work/native" "$work/foreign" 2>&1); then pass "$name"; else fail "$name" "$said"; fi
}

both 'hk-convert: GGUF to .hk' 'hk-convert "$model" model.hk'
both 'hk-convert: .hk to GGUF' 'hk-convert model.hk back.gguf && cmp "$model" back.gguf'
both 'hk-convert: streamed' 'hk-convert - - --to hk <"$model" | cmp - model.hk'
both 'hk-inspect: .hk' 'hk-inspect --full model.hk'
both 'hk-inspect: GGUF' 'hk-inspect --full "$model"'
both 'hk-inspect: a table' 'hk-inspect --table model.hk'
both 'hk-meta: an edit' \
    'cp "$model" m.gguf && hk-convert m.gguf m.hk && hk-meta set m.hk llama.context_length 99 && hk-meta export m.hk'
both 'hk-convert: safetensors' 'hk-convert model.hk m.safetensors && hk-convert m.safetensors s.hk'
both 'hk-convert: a directory' 'hk-convert --to hf model.hk dir && hk-convert dir d.hk && hk-convert d.hk d.gguf'
both 'hk-convert: shards' 'hk-convert --split-size 300k model.hk part.hk && hk-convert part-00002-of-*.hk whole.hk'
both 'hk-hash' 'hk-hash model.hk'
both 'hk-diff' 'hk-diff --json "$model" m.safetensors; [ $? -le 1 ]'
both 'hk-append: a record' 'cp model.hk a.hk && export SOURCE_DATE_EPOCH=1 && chmod u+w a.hk &&
    echo "{\"a\":1}" | hk-append -z --loss 1.5 --eval - a.hk && hk-log a.hk && hk-rollback a.hk 0 && cmp a.hk model.hk'
lora=${HK_SHARED:-}/fixtures/trained/tiny-llama/lora
[ ! -d "$lora" ] || both 'hk-append, hk-merge: an adapter' "hk-convert '$lora/..' l.hk && export SOURCE_DATE_EPOCH=1 &&
    hk-append --lora '$lora' l.hk && hk-merge l.hk merged.hk && hk-run --adapter lora l.hk ROMEO: -n 4 --temp 0"
both 'hk-verify' 'hk-verify --payload model.hk'
both 'hk-dequant: every tensor' 'hk-dequant --all raw model.hk'
both 'hk-dequant: .npy' 'hk-dequant --npy --all npy model.hk'
both 'hk-dequant: text' 'hk-dequant --text --rows 0:2 model.hk token_embd.weight'

# Every valid or broken file is read or refused in the same words.
for program in inspect verify; do
    both "hk-$program: every file of malformed/" \
        'cd "$HK_FIXTURES/malformed" && for f in *.gguf; do hk-'$program' "$f" 2>&1; echo "$f $?"; done'
done

text='Once upon a time, there was a little girl named Lily.'
levels=$("$B/bin/hk-hardware-profile" | sed 's/.*"runnable":\[\([^]]*\)\].*/\1/; s/[",]/ /g')
[ -n "$levels" ] || fail 'hk-hardware-profile names the levels that can run'
run='hk-run model.hk "Once upon a time" -n 24 --temp 0'
logits="printf %s '$text' | hk-perplexity --force --logits logits model.hk"
both 'hk-run: arithmetic in f32' "$run --activations f32"
for level in $levels; do
    both "hk-run: $level" "$run"
    both "hk-perplexity: $level" "$logits"
done

# The same story from quantised models, which the repository does not have.
for type in q4_0 q5_1 q8_0 iq4_nl; do
    quantised=${HK_SHARED:-}/fixtures/models/stories260K-$type.gguf
    { [ -z "${HK_SHARED:-}" ] || [ -n "${HK_TYPES:-}" ] || [ ! -f "$quantised" ]; } && continue
    for level in $levels; do
        both "hk-run: $type, $level" "hk-run '$quantised' 'Once upon a time' -n 24 --temp 0"
    done
done

# Models of every type, or of HK_TYPES: at each level their logits are those of the list, which the
# native levels are held to as well (tests/cli/hashes.bats).
if command -v python3 >/dev/null; then
    mkdir "$work/types"
    python3 -B tests/lib/mktypes.py "$work/types"
    # shellcheck disable=SC2086 # names of types
    python3 -B tests/hashes --once --jobs "$(nproc)" --bin "$B/bin" --dir "$work/types" \
        "$HK_FIXTURES/logits/types.txt" ${HK_TYPES:-} >"$work/hashes" 2>&1
    sed -n 's/^ok [0-9]* - //p' "$work/hashes" >"$work/same"
    while read -r line; do pass "logits: $line"; done <"$work/same"
    if grep -qv '^ok\|^1\.\.\|^# SKIPPED' "$work/hashes" || ! [ -s "$work/same" ]; then
        fail 'logits of every type' "$(grep -v '^ok' "$work/hashes")"
    fi
else
    skip 'logits of every type' 'no python3'
fi

finish
