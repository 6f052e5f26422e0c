#!/usr/bin/env bats
# hk-detokenize: token ids to text.
# shellcheck disable=SC2016 # lines for sh
load common

M=$FIX/models/stories260K-f16.gguf
GPT2=$FIX/tokenizers/gpt2/gpt2-vocab.gguf

@test "ids as arguments or on standard input, in whatever columns" {
    t hk-detokenize "$M" 1 403 407 261 378
    assert_status 0
    assert_out 'Once upon a time'
    assert_err ''
    for form in '1 403 407 261 378' '1\n403\n407\n261\n378\n' '[1,403,407,261,378]' '\t1,\r\n 403,407 , [261 378]\n\n'; do
        t_sh 'printf "$2" | hk-detokenize "$1"' "$M" "$form"
        assert_out 'Once upon a time'
    done
    t_sh 'hk-detokenize "$1" </dev/null' "$M"
    assert_status 0
    assert_out ''
}

@test "one newline is added, or nothing" {
    t_sh 'hk-detokenize "$1" 403 | od -An -tx1' "$M"
    assert_out ' 4f 6e 63 65 0a'
    t_sh 'hk-detokenize --exact "$1" 403 | od -An -tx1' "$M"
    assert_out ' 4f 6e 63 65'
    t_sh 'hk-detokenize "$1" </dev/null | od -An -tx1' "$M"
    assert_out ' 0a'
}

@test "control tokens only if asked for" {
    t hk-detokenize "$GPT2" 64 50256 65
    assert_out 'ab'
    t hk-detokenize --special "$GPT2" 64 50256 65
    assert_out 'a<|endoftext|>b'
}

@test "json" {
    t hk-detokenize --json "$M" 1 403 407
    assert_out '{"text":"Once upon","count":3}'
    t hk-detokenize --json "$GPT2" 64 187
    assert_out '{"text":"a�","count":2}'
    t_sh 'hk-detokenize --json "$1" </dev/null' "$M"
    assert_out '{"text":"","count":0}'
}

@test "characters appear when they are whole, and before more input comes" {
    mkfifo in
    hk-detokenize "$GPT2" <in >out &
    exec 7>in
    echo '64 12520' >&7 # a, a blank and three bytes of four
    for _ in $(seq 50); do [[ -s out ]] && break; sleep 0.1; done
    [[ $(hex out) == 6120 ]]
    echo 242 >&7
    sleep 0.2
    exec 7>&-
    wait $!
    t_sh 'hk-detokenize "$1" 64 12520 242 | od -An -tx1' "$GPT2"
    [[ $(hex out) == "${output// /}" ]]
}

@test "what hk-tokenize made comes back" {
    for m in "$M" "$GPT2"; do
        t_sh 'printf "caf\303\251  \342\202\254\n\n\t x\377\376 \0 <s> \360\237\230\200!" >text
            hk-tokenize "$1" <text | hk-detokenize --exact "$1" | cmp - text' "$m"
        assert_status 0
        t_sh 'hk-tokenize --ids "$1" <text | hk-detokenize --exact --ids "$1" | cmp - text' "$m"
        assert_status 0
        t_sh 'hk-tokenize --json "$1" <text | jq -c .tokens | hk-detokenize --exact "$1" | cmp - text' "$m"
        assert_status 0
    done
}

@test "malformed input is named with its place; what was before it is printed" {
    t_sh 'printf "1 403 x" | hk-detokenize "$1"' "$M"
    assert_fails 1 'hk-detokenize: standard input: byte 0x78 is not part of a number, at 0x6'
    t_sh 'printf "1 -3" | hk-detokenize "$1"' "$M"
    assert_fails 1 'byte 0x2d'
    t_sh 'printf "1 512" | hk-detokenize "$1"' "$M"
    assert_fails 1 'token 512 is outside the vocabulary of 512'
    t_sh 'printf "4294967296" | hk-detokenize "$1"' "$M"
    assert_fails 1 'too large'
    t_sh 'printf "99999999999999999999999999999" | hk-detokenize "$1"' "$M"
    assert_fails 1 'too large'
    t_sh 'printf abcde | hk-detokenize --ids "$1"' "$M"
    assert_status 1
    t_sh 'printf "\1\0\0\0\2\0" | hk-detokenize --ids "$1"' "$M"
    assert_fails 1 '6 bytes are not a whole number of 4-byte ids'
    t hk-detokenize "$M" 512
    assert_fails 1 'hk-detokenize: ids: token 512 is outside the vocabulary of 512'
}

@test "options are checked before the file is opened" {
    for bad in '--ids missing.hk 1' 'missing.hk x' 'missing.hk 4294967296' "missing.hk 1.5" '--what missing.hk' '--json=1 missing.hk'; do
        # shellcheck disable=SC2086 # words
        t hk-detokenize $bad
        assert_fails 2 'try --help'
        refute_err_has missing.hk
    done
    t hk-detokenize missing.hk ''
    assert_fails 2 'not a token id'
    t hk-detokenize
    assert_fails 2 'need a FILE'
    t hk-detokenize -
    assert_fails 2 'give the ids as arguments'
    t_from "$M" hk-detokenize - 1 403
    assert_out 'Once'
}

@test "a reader that leaves, a full disk, files that cannot be read" {
    t_sh 'yes 403 | hk-detokenize "$1" | head -c 9' "$M"
    assert_status 0
    assert_out 'Once Once'
    assert_err ''
    t_sh 'yes 403 | hk-detokenize "$1" >/dev/full' "$M"
    assert_fails 2 'hk-detokenize: standard output: '
    mkdir dir
    for f in dir missing; do
        t hk-detokenize $f 1
        assert_fails 2 "hk-detokenize: $f: "
    done
    t_sh 'hk-detokenize "$1" <dir' "$M"
    assert_fails 2 'hk-detokenize: standard input: '
}

@test "memory does not grow with the ids" {
    [[ -z ${SAN:-} ]] || skip 'SKIPPED: sanitizers need address space'
    t_sh 'ulimit -v 65536; yes 403 | head -n 5000000 | hk-detokenize "$1" | wc -c' "$M"
    assert_status 0
    assert_out 25000000
}
