# What a person types against what comes, in a terminal and in pipes.
load common.bash

setup() {
    common_setup
    make_models
    cp model.hk m.hk
    TEXT=', there was a little girl named Lily. She'
}

# pipe TYPED STATUS OUTPUT: TYPED in a shell whose streams are no terminal gives exactly OUTPUT on both of the outputs together.
pipe() {
    local out status=0
    out=$(bash -c "$1" 2>&1 </dev/null && echo .) || { status=$? && out=$(bash -c "$1" 2>&1 </dev/null; echo .); }
    out=${out%.}
    [[ $status -eq $2 && $out == "$3" ]] ||
        { printf 'typed:    %s\nexpected: %s, %q\ngot:      %s, %q\n' "$1" "$2" "$3" "$status" "$out" >&2 && return 1; }
}

# screen TYPED OUTPUT [PATTERN KEYS]...: TYPED at a terminal shows what matches OUTPUT, an extended regular expression, from its
# first byte to "status N".
screen() {
    local typed=$1 want=$2 out
    shift 2
    out=$("$PYTHON" "$ROOT/tests/lib/terminal.py" "$@" "$typed")
    [[ $out =~ ^$want$ ]] || { printf 'typed:    %s\nexpected: %s\ngot:      %q\n' "$typed" "$want" "$out" >&2 && return 1; }
}

@test "echo, printf, here-strings and files as prompts" {
    pipe 'echo "Once upon a time" | hk-run -n 12 m.hk' 0 "$TEXT"$'\n'
    pipe 'printf "Once upon a time" | hk-run -n 12 m.hk' 0 "$TEXT"$'\n'
    pipe 'hk-run -n 12 m.hk <<<"Once upon a time"' 0 "$TEXT"$'\n'
    pipe 'echo "Once upon a time" >p && hk-run -n 12 m.hk <p' 0 "$TEXT"$'\n'
    pipe 'hk-run -n 12 m.hk Once upon a time' 0 "$TEXT"$'\n'
    pipe 'hk run -n 12 m.hk Once upon a time' 0 "$TEXT"$'\n'
    pipe 'hk-run --exact -n 12 m.hk Once upon a time' 0 "$TEXT"
    pipe 'hk-tokenize m.hk "Once upon a time" | hk-detokenize m.hk' 0 $'Once upon a time\n'
    pipe 'echo "Once upon a time" | hk-tokenize m.hk | hk-detokenize --exact m.hk' 0 $'Once upon a time\n'
}

@test "command substitution, read, xargs, loops" {
    pipe 'x=$(hk-run -n 12 m.hk Once upon a time); echo "<$x>"' 0 "<$TEXT>"$'\n'
    pipe 'hk-run -n 12 m.hk Once upon a time | { read -r line; echo "<$line>"; }' 0 "<$TEXT>"$'\n'
    pipe 'printf "Once upon a time\nLily\n" | while read -r p; do hk-run -n 2 m.hk "$p"; done' 0 $', there\n and T\n'
    pipe 'printf "Once upon a time\nLily\n" | xargs -I{} hk-run -n 2 m.hk {}' 0 $', there\n and T\n'
    pipe 'printf "Once upon a time\nLily\n" | while read -r p; do echo "$p" | hk-run -n 2 m.hk; done' 0 $', there\n and T\n'
    pipe 'ls m.hk model.gguf | xargs hk-inspect --summary --json | jq -r .summary.family' 0 $'llama\nllama\n'
    pipe 'hk-meta get m.hk general.name; echo' 0 $'stories260K\n'
    pipe 'n=$(hk-meta get m.hk llama.block_count); echo $((n + 1))' 0 $'6\n'
}

@test "nothing but text where no terminal is" {
    pipe 'hk-run -n 12 m.hk Once upon a time 2>&1 | cat' 0 "$TEXT"$'\n'
    pipe 'hk-run -q -n 12 m.hk Once upon a time 2>&1 >/dev/null | wc -c' 0 $'0\n'
    pipe 'hk-run -v -n 12 m.hk Once upon a time 2>&1 >/dev/null | grep -c "^hk-run: prompt: 5 tokens"' 0 $'1\n'
    pipe 'echo -n "Once upon a time" | hk-perplexity m.hk 2>&1 | jq -c .tokens' 0 $'3\n'
    pipe 'hk-verify --payload m.hk 2>&1 | jq -c .valid' 0 $'true\n'
    pipe 'hk-convert -f model.gguf x.hk 2>&1' 0 ''
}

@test "closed and full streams" {
    pipe 'hk-run -n 12 m.hk Once upon a time <&-' 0 "$TEXT"$'\n'
    pipe 'hk-run -n 12 m.hk <&-' 2 $'hk-run: standard input: cannot read: Bad file descriptor\n'
    pipe 'hk-run -n 12 m.hk Once >&-' 2 $'hk-run: standard output: cannot write: Bad file descriptor\n'
    pipe 'hk-run -n 12 m.hk Once >/dev/full' 2 $'hk-run: standard output: cannot write: No space left on device\n'
    pipe 'hk-inspect m.hk >/dev/full' 2 $'hk-inspect: standard output: cannot write: No space left on device\n'
    pipe 'hk-run m.hk Once upon a time | head -c 10; echo " ${PIPESTATUS[*]}"' 0 $', there wa 0 0\n'
    pipe 'hk-inspect --full m.hk | head -c 8 >/dev/null; echo "${PIPESTATUS[0]}"' 0 $'0\n'
    pipe 'hk-detokenize m.hk $(seq 300 400) | head -c 3 >/dev/null; echo "${PIPESTATUS[0]}"' 0 $'0\n'
}

@test "models from decompressors, FIFOs and standard input" {
    gzip -k m.hk
    mkfifo fifo
    pipe 'zcat m.hk.gz | hk-run -n 12 - Once upon a time' 0 "$TEXT"$'\n'
    pipe 'zcat m.hk.gz | hk-run -n 12 /dev/stdin Once upon a time' 0 "$TEXT"$'\n'
    pipe 'hk-run -n 12 <(zcat m.hk.gz) Once upon a time' 0 "$TEXT"$'\n'
    pipe 'echo Once upon a time | hk-run -n 12 <(zcat m.hk.gz)' 0 "$TEXT"$'\n'
    pipe 'echo Once upon a time | hk-run -n 12 m.hk -' 0 "$TEXT"$'\n'
    pipe 'cat m.hk >fifo & hk-run -n 12 fifo Once upon a time' 0 "$TEXT"$'\n'
    pipe 'hk-diff m.hk <(zcat m.hk.gz) && echo same' 0 $'same\n'
    pipe 'hk-convert -f <(zcat m.hk.gz) back.gguf && cmp model.gguf back.gguf' 0 ''
    pipe 'echo "1 403 407 261 378" | hk-detokenize m.hk -' 0 $'Once upon a time\n'
    pipe 'echo Once upon a time | hk-tokenize --count m.hk -' 0 $'6\n'
    pipe 'cp m.hk a.hk; echo "{\"pass\":1}" >fifo & hk-append --eval fifo --name e a.hk; hk-log a.hk | jq -r ".records[].name"' \
        0 $'e\n'
}

@test "a model from zstdcat" {
    need zstdcat
    zstd -q m.hk
    pipe 'hk-run -n 12 <(zstdcat m.hk.zst) Once upon a time' 0 "$TEXT"$'\n'
    pipe 'zstdcat m.hk.zst | hk-verify --payload - | jq .valid' 0 $'true\n'
}

@test "standard input serves once, and no stream is changed in place" {
    local model='standard input is the model: give the prompt as an argument (try --help)'
    pipe 'hk-run - <m.hk' 2 "hk-run: $model"$'\n'
    pipe 'hk-run - - <m.hk' 2 "hk-run: $model"$'\n'
    pipe 'hk-diff - /dev/stdin <m.hk' 2 $'hk-diff: A - and B /dev/stdin are both standard input (try --help)\n'
    pipe 'hk-meta set - k v <m.hk' 2 $'hk-meta: standard input: cannot be changed in place; name a file\n'
    pipe 'hk-rollback <(cat m.hk) 0 2>&1 | sed s/[0-9][0-9]*/N/' 0 \
        $'hk-rollback: /dev/fd/N: a descriptor cannot be changed in place; name a file\n'
    pipe 'hk-append --eval - --name e /dev/null <<<{}' 2 \
        $'hk-append: /dev/null: a device cannot be changed in place; name a file\n'
}

@test "mistakes" {
    pipe 'hk-run' 2 $'hk-run: need a FILE (try --help)\n'
    pipe 'hk-run nothing.hk Once' 2 $'hk-run: nothing.hk: cannot open: No such file or directory\n'
    pipe 'hk-run m.hk ""' 0 "$(hk-run m.hk '')"$'\n'
    pipe 'hk-run m.hk </dev/null' 2 $'hk-run: standard input: the prompt is empty\n'
    pipe 'hk-run --thread 2 m.hk Once' 2 $'hk-run: unknown option --thread: did you mean --threads? (try --help)\n'
    pipe 'hk-run -n gl m.hk Once' 2 $'hk-run: -n: not a whole number: gl (try --help)\n'
    pipe 'hk-rollback m.hk abc' 2 $'hk-rollback: GENERATION: not a whole number: abc (try --help)\n'
    pipe 'hk runn m.hk' 2 $'hk: no program hk-runn: did you mean run?\n'
    pipe 'hk-meta get m.hk general.nam' 1 $'hk-meta: m.hk: no key general.nam: did you mean general.name?\n'
    pipe 'hk-convert model.gguf m.hk' 2 $'hk-convert: m.hk: exists; use -f to replace it\n'
}

@test "a terminal: what is waited for, text, one newline, statistics" {
    stat='hk-run: prompt: 5 tokens.*kernels: [a-z0-9]+; threads: [0-9]+'
    screen 'hk-run -n 12 m.hk Once upon a time' "$TEXT"$'\n'"$stat"$'\n''status 0'
    screen 'hk-run -q -n 12 m.hk Once upon a time' "$TEXT"$'\n''status 0'
    screen 'hk-run -n 12 m.hk' \
        'hk-run: reading the prompt from the terminal; Ctrl-D on a line of its own ends it'$'\n''Once upon a time'$'\n'".*$TEXT"$'\n'"$stat"$'\n''status 0' \
        'ends it' 'Once upon a time\n^D'
    screen 'echo Once upon a time | hk-run -q -n 12 m.hk' "$TEXT"$'\n''status 0'
    screen 'hk-inspect m.hk' 'file +m.hk.*parameters +260.03 thousand.*size +[0-9.]+ KiB, hk'$'\n''status 0'
    screen 'hk-inspect m.hk model.gguf' $'file +m.hk.*, hk\n\nfile +model.gguf.*, gguf\nstatus 0'
    screen 'hk-log m.hk' $'\\{\n  "file": "m.hk",\n  "records": \\[\\]\n\\}\nstatus 0'
    screen 'hk-rollback m.hk 0' $'\\{\n  "file": "m.hk",.*\n\\}\nstatus 0'
    screen 'hk-inspect --tensors m.hk | head -c 14' '\{"file":"m.hk"status 0'
}

@test "Ctrl-C in mid text: the text is kept; twice ends at once" {
    screen 'hk-run -q --ctx 1000000 m.hk Once upon a time' ', there was a little girl.*'$'\n''status 130' 'girl named Lily' '^C'
    screen 'hk-run --ctx 1000000 m.hk Once upon a time' \
        ', there was a little girl.*'$'\n''hk-run: prompt: 5 tokens.*'$'\n''status 130' 'girl named Lily' '^C'
    screen '{ sleep 1; echo now; } & hk-run -q --ctx 1000000 m.hk Once upon a time >out; echo $?; tail -c 1 out | od -An -tx1' \
        'now'$'\n''(\^C)?130'$'\n'' 0a'$'\n''status 0' now '^C'
    screen 'hk-run --json --ctx 1000000 m.hk Once upon a time >out & sleep 1; kill -TERM $!; wait $!; echo $?; jq -r .finish_reason out' \
        '.*143'$'\n''interrupted'$'\n''status 0'
}

@test "a bar for what takes long, gone afterwards; none with -q or where no terminal is" {
    slow='{ head -c 300000 m.hk; sleep 1.5; tail -c +300001 m.hk; }'
    bar=$'\r\e''\[Kreading [0-9.]+ KiB'
    screen "$slow | hk-hash --base - | cut -c 1-4" "($bar)+"$'\r\e''\[K29ec'$'\n''status 0'
    screen "hk-run -q -n 12 <($slow) Once upon a time" "$TEXT"$'\n''status 0'
    screen "$slow | hk-hash --base - 2>err | cut -c 1-4; cat err" '29ec'$'\n''status 0'
}

@test "binary data does not reach a terminal" {
    screen 'hk-convert m.hk -' 'hk-convert: .*terminal.*'$'\n''status 2'
    screen 'hk-dequant m.hk output_norm.weight' 'hk-dequant: .*terminal.*'$'\n''status 2'
    screen 'hk-tokenize --ids m.hk Once' 'hk-tokenize: .*terminal.*'$'\n''status 2'
}
