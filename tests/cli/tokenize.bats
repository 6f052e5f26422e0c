#!/usr/bin/env bats
# hk-tokenize: text to token ids.
# shellcheck disable=SC2016 # lines for sh
load common

M=$FIX/models/stories260K-f16.gguf
GPT2=$FIX/tokenizers/gpt2/gpt2-vocab.gguf

@test "ids, one on each line" {
    t hk-tokenize "$M" 'Once upon a time'
    assert_status 0
    assert_out $'1\n403\n407\n261\n378'
    assert_err ''
}

@test "the text is the arguments, or else standard input as it is" {
    t hk-tokenize --no-bos "$M" Once upon a time
    assert_out $'403\n407\n261\n378'
    one=$output
    t_sh 'printf "Once upon a time" | hk-tokenize --no-bos "$1"' "$M"
    assert_out "$one"
    t_sh 'printf "a\0b\377\n" | hk-tokenize --no-bos "$1" | hk-detokenize --exact "$1" | od -An -tx1' "$M"
    assert_out ' 61 00 62 ff 0a'
}

@test "a start token that is spelled is not repeated, as hk-run has it" {
    t hk-tokenize --special --json "$M" '<s>Once upon'
    assert_out '{"tokens":[1,403,407],"count":3}'
    t hk-tokenize --special --bos --json "$M" '<s>Once upon'
    assert_out '{"tokens":[1,403,407],"count":3}'
    t hk-tokenize --special --json "$M" '<s><s>Once upon'
    assert_json 'v["tokens"][:3]' '[1,1,403]'
    t hk-tokenize --special --no-bos --json "$M" '<s>Once upon'
    assert_json 'v["tokens"][:2]' '[1,403]'
    t hk-tokenize --json "$M" '<s>Once upon'
    assert_json 'v["count"] > 4' True
}

@test "json" {
    t hk-tokenize --json "$M" 'Once upon'
    assert_out '{"tokens":[1,403,407],"count":3}'
    t hk-tokenize --json --pieces "$M" 'Once upon'
    assert_out '{"tokens":[1,403,407],"pieces":["<s>","▁Once","▁upon"],"count":3}'
    t hk-tokenize --json --count "$M" 'Once upon'
    assert_out '{"count":3}'
    t_sh 'hk-tokenize --json --no-bos "$1" </dev/null' "$M"
    assert_out '{"tokens":[],"count":0}'
}

@test "pieces, made harmless" {
    t hk-tokenize --pieces "$M" 'Once upon'
    assert_out $'1\t<s>\n403\t▁Once\n407\t▁upon'
    t hk-tokenize -p "$GPT2" ' world'
    assert_out $'995\tĠworld'
    "$PYTHON" - "$GPT2" odd.gguf <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data.replace(b"<|endoftext|>", b"<|\x1b[31mtext|>"))
PY
    t_sh 'hk-tokenize --pieces --special "$1" "$(printf "<|\033[31mtext|>")"' odd.gguf
    assert_status 0
    assert_out $'50256\t<|\\x1b[31mtext|>'
}

@test "count" {
    t hk-tokenize -c "$M" 'Once upon a time'
    assert_out 5
    t_sh 'hk-tokenize --count "$1" </dev/null' "$M"
    assert_out 1
    t_sh 'hk-tokenize --count --no-bos "$1" </dev/null' "$M"
    assert_out 0
}

@test "start token: as the file says, always, never" {
    t hk-tokenize "$GPT2" a
    assert_out 64
    t hk-tokenize --bos "$GPT2" a
    assert_out $'50256\n64'
    t hk-tokenize --bos "$M" a
    assert_out $'1\n261'
    t hk-tokenize --no-bos "$M" a
    assert_out 261
    t hk-tokenize --bos --json "$GPT2" a
    assert_out '{"tokens":[50256,64],"count":2}'
}

@test "control tokens are text unless asked for" {
    t hk-tokenize --no-bos "$GPT2" 'a<|endoftext|>'
    assert_out $'64\n27\n91\n437\n1659\n5239\n91\n29'
    t hk-tokenize --no-bos --special "$GPT2" 'a<|endoftext|>'
    assert_out $'64\n50256'
}

@test "raw ids are hk-perplexity's" {
    t_sh 'hk-tokenize --ids --no-bos "$1" "Once upon" | od -An -tu4' "$M"
    assert_out '        403        407'
    t_sh 'hk-tokenize --ids "$1" "Once upon" | hk-detokenize --ids "$1"' "$M"
    assert_out 'Once upon'
}

@test "a vocabulary without weights will do, of either format" {
    hk-convert "$GPT2" vocab.hk
    t hk-tokenize vocab.hk 'Hello world'
    assert_out $'15496\n995'
}

# Three MiB are more than is held: the ids of the parts are those of the whole, taken at once.
@test "long texts are taken in parts" {
    "$PYTHON" - "$FIX/tokenizers/texts.json" <<'PY'
import json, sys
texts = [t["text"] for t in json.load(open(sys.argv[1], encoding="utf-8"))]
one = " ".join(texts).encode("utf-8", "surrogatepass")
open("text", "wb").write((one + b" and so on\n") * (3 * 2**20 // len(one) + 1))
PY
    for m in "$M" "$GPT2"; do
        t_sh 'hk-tokenize --no-bos --ids "$1" <text >ids && hk-detokenize --exact --ids "$1" <ids >back' "$m"
        assert_status 0
        [[ $m == "$M" ]] || assert_same text back # a literal U+2581 is a blank to SentencePiece
        t_sh '{ head -c 100000 text; sleep 0.1; tail -c +100001 text; } | hk-tokenize --no-bos --ids "$1" | cmp - ids' "$m"
        assert_status 0
        t_sh 'hk-tokenize --count --no-bos "$1" <text' "$m"
        assert_out "$(($(stat -c %s ids) / 4))"
    done
}

@test "a megabyte of one character on a small stack" {
    for c in a ' ' '\n' '\377'; do
        t_sh 'ulimit -s 64; head -c 1000000 /dev/zero | tr "\0" "$2" >text; hk-tokenize "$1" <text |
            hk-detokenize --exact "$1" | cmp - text' "$M" "$c"
        assert_status 0
        assert_err ''
    done
}

@test "memory does not grow with the text" {
    [[ -z ${SAN:-} ]] || skip 'SKIPPED: sanitizers need address space'
    yes 'Once upon a time there was a little girl' | head -c 30000000 >text || true
    t_sh 'ulimit -v 65536; hk-tokenize --count "$1" <text' "$M"
    assert_status 0
    t_sh 'ulimit -v 65536; yes hello | tr -d "\n" | hk-tokenize --count "$1"' "$M"
    assert_fails 2 'hk-tokenize: standard input: '
}

@test "a reader that leaves, a full disk" {
    for form in '' --json --pieces --ids; do
        # shellcheck disable=SC2086 # none or one word
        t_sh 'yes hello | hk-tokenize $2 "$1" | head -c 3 >/dev/null' "$M" "$form"
        assert_status 0
        assert_err ''
        # shellcheck disable=SC2086
        t_sh 'yes hello | head -c 100000 | hk-tokenize $2 "$1" >/dev/full' "$M" "$form"
        assert_fails 2 'hk-tokenize: standard output: '
    done
}

@test "options are checked before the file is opened" {
    for bad in '--bos --no-bos' '--ids --json' '--ids --count' '--ids --pieces' '--count --pieces' --what --json=1; do
        # shellcheck disable=SC2086 # words
        t hk-tokenize $bad missing.hk text
        assert_fails 2 'try --help'
        refute_err_has missing.hk
    done
    t hk-tokenize
    assert_fails 2 'need a FILE'
    t_sh 'hk-tokenize - </dev/null'
    assert_fails 2 'give the text as an argument'
    t_from "$M" hk-tokenize - 'Once upon'
    assert_out $'1\n403\n407'
}

@test "what cannot be tokenized is refused" {
    t hk-tokenize missing.hk text
    assert_fails 2 'hk-tokenize: missing.hk: '
    mkhk bare.hk '{"metadata":[["general.architecture","string","llama"]]}'
    t hk-tokenize bare.hk text
    assert_fails 1 'hk-tokenize: bare.hk: tokenizer.ggml.tokens: the file has no vocabulary'
    "$PYTHON" - "$GPT2" unknown.gguf <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data.replace(b"\x05\0\0\0\0\0\0\0gpt-2", b"\x05\0\0\0\0\0\0\0gpt-9"))
PY
    t hk-tokenize unknown.gguf text
    assert_fails 1 'unknown pre-tokenizer "gpt-9"'
    "$PYTHON" - "$M" nobos.gguf <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
key = b"tokenizer.ggml.bos_token_id\4\0\0\0"
at = data.index(key) + len(key)
open(sys.argv[2], "wb").write(data[:at] + b"\xff\xff\0\0" + data[at + 4:])
PY
    t hk-tokenize nobos.gguf text
    assert_fails 1 'outside the vocabulary of 512'
}
