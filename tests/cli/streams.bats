#!/usr/bin/env bats
# Standard streams of every program: that are full, closed or do not block; FIFOs and <(...).
load common

# A model with a history, a copy of it, a key.
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    cp "$FIX/models/stories260K-f16.gguf" model.gguf
    hk-convert model.gguf model.hk
    printf '{"pass": 1}' >eval.json
    hk-append --eval eval.json --name e --lora "$FIX/adapter" --name a model.hk
    openssl genpkey -quiet -algorithm ed25519 -out key.pem 2>&-
    openssl pkey -in key.pem -pubout -out pub.pem
    hk-sign -k key.pem model.hk
}
setup() { common_setup && cp "$BATS_FILE_TMPDIR"/* .; }

# What every program that writes to standard output is asked, one a line.
writers() {
    cat <<'LINES'
hk-append --help
hk-bench --prefill 4 --decode 1 --reps 1 model.hk
hk-convert model.hk -
hk-convert model.hk - --to gguf --no-history
hk-dequant model.hk token_embd.weight
hk-dequant --text model.hk token_embd.weight
hk-dequant --json model.hk output_norm.weight
hk-detokenize model.hk 1 2 3
hk-diff model.hk model.hk --json
hk-hardware-profile
hk-hash model.hk
hk-hash --json model.hk
hk-inspect model.hk
hk-log -x 0 model.hk
hk-log -x 1 --raw model.hk
hk-log -x 1 --to gguf model.hk
hk-log model.hk
hk-merge model.hk -
hk-meta export model.hk
hk-meta get model.hk general.architecture
hk-meta list model.hk
hk-perplexity model.hk
hk-rollback -n model.hk 0
hk-run model.hk Once -n 4
hk-run --json model.hk Once -n 4
hk-sign -k key.pem -o - model.hk
hk-tokenize model.hk Once
hk-verify --key pub.pem model.hk
hk-verify --text model.hk
hk --help
LINES
}

@test 'full: every program says once that standard output cannot be written, exit 2' {
    while read -r line; do
        t_sh "$line <model.gguf >/dev/full"
        [[ $line != hk-perplexity* ]] || t_sh "echo Once upon a time | $line >/dev/full"
        assert_fails 2 'standard output: ' || fail "$line"
        assert_err_has 'No space left on device' || fail "$line"
    done < <(writers)
}

# slowly LINE...: what LINE prints through pipes that do not block, at both ends of it, and are read and written little by
# little; its status last.
slowly() {
    "$PYTHON" - "$@" <<'PY'
import os, subprocess, sys, threading, time
line, given = sys.argv[1], open(sys.argv[2], "rb").read() if len(sys.argv) > 2 else b""
in_read, in_write = os.pipe()
out_read, out_write = os.pipe()
os.set_blocking(in_read, False)
os.set_blocking(out_write, False)
p = subprocess.Popen(["bash", "-c", line], stdin=in_read, stdout=out_write, stderr=subprocess.PIPE)
os.close(in_read), os.close(out_write)
def feed():
    for at in range(0, len(given), 30000):
        os.write(in_write, given[at:at + 30000])
        time.sleep(0.005)
    os.close(in_write)
threading.Thread(target=feed, daemon=True).start()
got = b""
time.sleep(0.3) # the pipe is full by now
while data := os.read(out_read, 20000):
    got += data
    time.sleep(0.001)
error = p.stderr.read()
assert p.wait(timeout=60) == 0 and error == b"", (p.returncode, error)
sys.stdout.buffer.write(got)
PY
}

@test 'streams that do not block lose nothing' {
    while read -r line; do
        bash -c "$line" >want
        slowly "$line" >got
        cmp want got >&2 || fail "$line"
    done <<'LINES'
hk-convert model.hk -
hk-merge model.hk -
hk-dequant model.hk token_embd.weight
hk-dequant --text model.hk token_embd.weight
hk-inspect --full model.hk
hk-log -x a --to gguf model.hk
hk-run -n 500 model.hk Once upon a time
LINES
    for line in 'hk-hash --base -' 'hk-convert - -' 'hk-inspect --header -'; do
        bash -c "$line <model.hk" >want
        slowly "$line" model.hk >got
        cmp want got >&2 || fail "$line"
    done
    yes 'Once upon a time' | head -c 300000 >text
    for line in 'hk-tokenize model.hk' 'hk-tokenize --json model.hk'; do
        bash -c "$line <text" >want
        slowly "$line" text >got
        cmp want got >&2 || fail "$line"
    done
}

@test 'a reader that leaves ends a program quietly' {
    for line in 'hk-convert model.hk -' 'hk-inspect --full model.hk' 'hk-dequant --text model.hk token_embd.weight' \
        'hk-run --ctx 100000 model.hk Once' 'hk-log -x a --to gguf model.hk' 'hk-tokenize --pieces model.hk <model.gguf'; do
        t_sh "timeout 20 bash -c '$line' | head -c 1 >byte; echo \"\${PIPESTATUS[0]}\""
        assert_out 0
        assert_err ''
    done
}

@test 'what is no model is not copied to its end' {
    t_sh 'timeout 10 hk-inspect - </dev/zero'
    assert_status 1
    mkfifo zeros
    cat /dev/zero >zeros &
    t timeout 10 hk-inspect zeros
    assert_status 1
    kill $! 2>/dev/null || :
}

@test 'temporary copies: TMPDIR, and a directory that is not there' {
    t_sh 'cat model.hk | TMPDIR=/nonexistent hk-inspect -'
    assert_fails 2 'hk-inspect: standard input: cannot create a temporary file in /nonexistent (TMPDIR): '
    mkdir tmp
    t_sh 'cat model.hk | TMPDIR=tmp hk-hash --base - | cut -c 1-64'
    assert_out "$(hk-hash --base model.hk | cut -c 1-64)"
    [[ -z $(ls tmp) ]]
}
