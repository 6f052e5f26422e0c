# hk, and the conventions that every program keeps.
load common.bash

programs() { (cd "$BIN" && ls hk hk-*); }
# A program of that name in the current directory which shows how it was called.
fake() {
    printf '#!/bin/sh\necho "%s: $0 $*"\nexit %s\n' "$1" "${2:-0}" >"$1"
    chmod +x "$1"
}

@test "lists every program of the tree" {
    t hk help
    assert_status 0
    for source in "$ROOT"/tools/hk-*.c; do
        name=$(basename "$source" .c)
        assert_out_like "hk ${name#hk-} +[a-zA-Z]"
    done
    [[ $(grep -c '^  hk ' <<<"$output") -eq $(ls "$ROOT"/tools/hk-*.c | wc -l) ]]
    list=$output
    t hk --help
    assert_out "$list"
}

@test "runs a program with its arguments and status" {
    mkhk x.hk
    t hk inspect --header x.hk
    assert_status 0
    assert_json 'v["header"]["tensor_count"]' 2
    t hk-inspect --header x.hk
    direct=$output
    t hk hk-inspect --header x.hk
    assert_out "$direct"
    t hk dequant x.hk none
    assert_fails 1 'hk-dequant: x.hk: no tensor none'
}

@test "takes the program beside itself before the one in PATH" {
    mkdir own other
    cp "$BIN/hk" own
    ln -s "$BIN/../lib" lib
    (cd own && fake hk-inspect 3)
    (cd other && fake hk-inspect 4)
    t env PATH="$PWD/other:$PATH" own/hk inspect 'a b' --full
    assert_status 3
    assert_out_like '^hk-inspect: .*own/hk-inspect a b --full$'
    t own/hk -q inspect -- --quiet
    assert_out_like '^hk-inspect: .*own/hk-inspect -q -- --quiet$'
    rm own/hk-inspect
    t env PATH="$PWD/other:$PATH" own/hk inspect x
    assert_status 4
    rm other/hk-inspect
    t env PATH="$PWD/other" own/hk inspect x
    assert_fails 2 'hk: cannot run hk-inspect: No such file or directory'
}

@test "gives the program the signals it would have without hk" {
    mkdir own
    cp "$BIN/hk" own
    ln -s "$BIN/../lib" lib
    printf '#!/bin/sh\ngrep SigIgn /proc/self/status\n' >own/hk-inspect
    chmod +x own/hk-inspect
    t own/hk inspect
    assert_status 0
    ignored=$((16#${output##*[[:space:]]}))
    [[ $((ignored & 0x1000)) -eq 0 ]]
}

@test "opens the manual" {
    fake man
    t env PATH="$PWD:$PATH" hk help inspect
    assert_out_like 'man hk-inspect$'
    t env PATH="$PWD:$PATH" hk help hk-run
    assert_out_like 'man hk-run$'
    t env PATH="$PWD:$PATH" hk help hk
    assert_out_like 'man hk$'
    rm man
    t env PATH="$PWD" "$BIN/hk" help inspect
    assert_fails 2 'hk: cannot run man: No such file'
    t hk help nonsense
    assert_fails 2 'hk: no program hk-nonsense'
}

@test "refuses what is no program" {
    t hk
    assert_fails 2 'hk: need a PROGRAM'
    t hk nonsense
    assert_fails 2 'hk: no program hk-nonsense'
    t hk --nonsense
    assert_fails 2 'hk: unknown option --nonsense'
    t hk ../../bin/sh
    assert_fails 2 'no program'
}

@test "every program has --help and --version, checked for a full disk" {
    for p in $(programs); do
        t "$p" --help
        assert_status 0
        assert_out_has "usage: $p"
        assert_err ''
        help=$output
        t "$p" -h
        assert_status 0
        assert_out "$help"
        t "$p" --version
        assert_status 0
        assert_out_like "^$p [0-9]+\.[0-9]+\.[0-9]+$"
        t_sh "$p --version >/dev/full"
        assert_fails 2 "$p: standard output: cannot write: No space left on device"
        t_sh "$p --help | head -c 1"
        assert_err ''
    done
}

@test "every option that --help has is offered to a shell" {
    for p in $(programs); do
        t "$p" --complete -
        assert_status 0
        offered=$output
        t "$p" --help
        refute_out_has complete
        [[ $(grep -oP '^--[^\t]+' <<<"$offered" | sort) == $(grep -oP '^ .{5}\K--[^ ]+' <<<"$output" | sort) ]]
        [[ $(grep -oP '^-[^-\t]' <<<"$offered" | sort) == $(grep -oP '^  \K-[^-]' <<<"$output" | sort) ]]
    done
}

@test "what is mistyped is answered with the nearest name" {
    mkhk x.hk
    t hk runn
    assert_fails 2 'hk: no program hk-runn: did you mean run?'
    t hk-run --thread 3 x.hk
    assert_fails 2 'hk-run: unknown option --thread: did you mean --threads? (try --help)'
    t hk-run -ngl 1 x.hk
    assert_fails 2 'hk-run: unknown option -ngl; -n: not a whole number: gl'
    t hk-run -n gl x.hk
    assert_fails 2 'hk-run: -n: not a whole number: gl'
    t hk-dequant -force x.hk a.weight
    assert_fails 2 'hk-dequant: unknown option -force: did you mean --force?'
    assert_files x.hk
    t hk-meta lst x.hk
    assert_fails 2 'hk-meta: no command lst: did you mean list?'
    t hk-meta set --type flaot64 x.hk k 1
    assert_fails 2 'hk-meta: --type: takes string, int64, float64, bool, json, bytes, array<string>, array<f32> or array<i32>, not flaot64: did you mean float64?'
    t hk-convert --to ggfu x.hk y
    assert_fails 2 'not ggfu: did you mean gguf?'
    t hk-meta set x.hk general.architecture llama
    t hk-meta get x.hk general.architectur
    assert_fails 1 'hk-meta: x.hk: no key general.architectur: did you mean general.architecture?'
    t hk-meta get x.hk architecture
    assert_fails 1 'hk-meta: x.hk: no key architecture: did you mean general.architecture?'
    t hk-meta delete x.hk generall.architecture
    assert_fails 1 'hk-meta: x.hk: no key generall.architecture: did you mean general.architecture?'
    t hk-run --tokens 3 x.hk
    assert_fails 2 'hk-run: unknown option --tokens: did you mean --max-tokens?'
    t hk-dequant x.hk a.wieght
    assert_fails 1 'hk-dequant: x.hk: no tensor a.wieght: did you mean a.weight?'
    echo {} >e.json
    t hk-append --eval e.json --name maths x.hk
    t hk-log -x math x.hk
    assert_fails 1 'hk-log: x.hk: no record math: did you mean maths?'
    t hk-rollback x.hk abc
    assert_fails 2 'hk-rollback: GENERATION: not a whole number: abc'
}

@test "a usage error names the operand that is missing or too much" {
    for p in $(programs); do
        [[ $p != hk-hardware-profile ]] || continue
        t "$p"
        assert_fails 2 "$p: need "
    done
    t hk-merge a.hk
    assert_fails 2 'hk-merge: need FILE and OUT: OUT is missing'
    t hk-convert a b c
    assert_fails 2 'hk-convert: unexpected operand c: takes IN and OUT'
    t hk-log a b
    assert_fails 2 'hk-log: unexpected operand b: takes one FILE'
    t hk-append a.gguf b.hk
    assert_fails 2 'hk-append: nothing to append: --lora, '
    t hk-hardware-profile a
    assert_fails 2 'hk-hardware-profile: unexpected operand a: takes none'
}

@test "refusals name the option or program that helps" {
    mkhk x.hk
    cp x.hk y.hk
    t hk-convert x.hk y.hk
    assert_fails 2 'exists; use -f to replace it'
    t hk-log -x math x.hk
    assert_fails 1 'no record math: the file has none, hk-append adds them'
    t hk-merge x.hk out.hk
    assert_fails 1 'the file has no records, hk-append adds them'
    echo {} >e.json
    hk-append --eval e.json --generation 3 x.hk
    t hk-append --eval e.json --generation 2 x.hk
    assert_fails 2 'generation 2 lies before the last one: --generation takes 3 or more'
    t hk-convert x.hk x.gguf
    assert_fails 1 '--no-history leaves it out'
    t hk-inspect .
    assert_fails 1 'is a directory of 2 models, name one of them: x.hk, y.hk'
    HK_KERNELS=Generic t hk-hardware-profile
    assert_fails 2 'HK_KERNELS: Generic: there is no such level: did you mean generic?'
    HK_KERNELS=fast t hk-hardware-profile
    assert_fails 2 'HK_KERNELS: fast: there is no such level; hk-hardware-profile lists them'
    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out pub.pem
    t hk-verify --key pub.pem x.hk
    assert_fails 2 'x.hk.sig: is not there; --signature names another'
    script -qec 'hk-dequant y.hk a.weight' tty.txt </dev/null >/dev/null || true
    grep -q 'binary data is not written to a terminal: redirect it or name a file' tty.txt
}

@test "-q keeps warnings back, but no error" {
    mkhk x.hk
    printf 'no adapter' >a.bin
    t hk-append --lora a.bin x.hk
    assert_status 0
    assert_err_has 'a.bin: '
    t hk-append -q --lora a.bin x.hk
    assert_status 0
    assert_err ''
    t hk-append -q --lora none.bin x.hk
    assert_fails 2 'hk-append: none.bin: '
    t hk-append --quiet --lora a.bin
    assert_fails 2 'hk-append: need a FILE'
}

@test "every program refuses unknown options before it opens anything" {
    for p in $(programs); do
        t "$p" --no-such-option missing.hk
        assert_fails 2 "$p: unknown option --no-such-option"
        [[ $p == hk ]] || {
            t "$p" -_ missing.hk
            assert_fails 2 "$p: unknown option -_"
        }
    done
}

@test "options: both forms of a value, letters, mixed order, the end of options" {
    mkhk x.hk
    t hk-dequant x.hk --rows 0:1 a.weight --text
    assert_out '0.0 1.0 -2.0 3.5'
    t hk-dequant --rows=0:1 --text x.hk a.weight
    assert_out '0.0 1.0 -2.0 3.5'
    t hk-dequant -foout x.hk a.weight
    assert_status 0
    t hk-dequant -f -o out2 x.hk a.weight
    assert_same out out2
    t hk-dequant --text=1 x.hk a.weight
    assert_fails 2 'option --text takes no argument'
    t hk-dequant x.hk a.weight --rows
    assert_fails 2 'option --rows needs an argument: A:B'
    t hk-dequant x.hk a.weight -o
    assert_fails 2 'option -o needs an argument: OUT'
    cp x.hk -- --full
    t hk-inspect --header -- --full
    assert_json 'v["file"]' --full
    t env POSIXLY_CORRECT=1 hk-inspect x.hk --header
    assert_status 0
    assert_json '"tensors" in v' False
}

@test "messages keep to one line, whatever a file is called" {
    t hk-inspect $'no\nsuch\e[31m\xff'
    assert_fails 2 'hk-inspect: no\x0asuch\x1b[31m\xff: '
}

@test "a closed standard stream is an error where it is used, and no accident" {
    mkhk x.hk
    cp x.hk y.hk
    t_sh 'hk-inspect x.hk >&-'
    assert_fails 2 'standard output: cannot write: Bad file descriptor'
    t_sh 'hk-inspect - <&-'
    assert_fails 2 'standard input'
    t_sh 'hk-inspect nothing.hk 2>&-'
    assert_status 2
    t_sh 'hk-dequant -o out x.hk a.weight >&- 2>&- <&-'
    assert_status 0
    [[ $(stat -c %s out) -eq 32 ]]
    assert_same x.hk y.hk
}
