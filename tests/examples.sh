# examples.sh: runs a command that a page shows and compares what it does with what the page says.
# Needs tap.sh.
# shellcheck shell=sh

# agrees EXPECTED ACTUAL
agrees() {
    if [ "$(tail -n 1 "$1")" = ... ]; then
        lines=$(($(wc -l <"$1") - 1))
        [ "$(head -n $lines "$1")" = "$(head -n $lines "$2")" ]
    else
        [ "$(cat "$1")" = "$(cat "$2")" ]
    fi
}

# example PAGE BASE: the command in BASE.cmd, in the current directory, against BASE.out and BASE.status
# where they exist.
example() {
    title="$1: $(head -n 1 "$2.cmd")"
    want=$(cat "$2.status" 2>/dev/null || echo 0)
    sh "$2.cmd" </dev/null >"$2.stdout" 2>"$2.stderr"
    got=$?
    cat "$2.stdout" "$2.stderr" >"$2.both"
    if [ "$got" != "$want" ]; then
        fail "$title" "exit status $got, not $want
$(cat "$2.both")"
    elif [ -f "$2.out" ] && ! agrees "$2.out" "$2.stdout" && ! agrees "$2.out" "$2.both"; then
        fail "$title" "the page has:
$(cat "$2.out")
the command gives:
$(cat "$2.both")"
    else
        pass "$title"
    fi
}
