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

finish
