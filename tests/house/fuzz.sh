#!/bin/sh
# Each fuzz target over its seeds and a fixed number of their mutations: "make fuzz" searches on.
. tests/tap.sh

# In memory: the targets write many small files, and what dies leaves its own behind.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then TMPDIR=/dev/shm; fi
work=$(mktemp -d "${TMPDIR:-/tmp}/hk-fuzz.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
TMPDIR=$work
export TMPDIR
seeds=$work/seeds

# TARGET: says what it found, and with which input.
search() {
    "$B/tests/fuzz_$1" "-runs=$runs" "-save=$work/last" "$seeds/$1"/* >"$work/out" 2>&1 &&
        grep -q "^[0-9]* files, $runs mutations$" "$work/out" && return
    cat "$work/out"
    echo "the last input: $(base64 -w 0 "$work/last")"
}

runs=2000
/usr/bin/python3 -B tests/fuzz/seeds.py "$seeds" || echo 'no seeds'
for source in tests/fuzz/fuzz_*.c; do
    target=${source#*/fuzz_} target=${target%.c}
    [ "$target" = main ] || none "fuzz target $target: seeds and $runs mutations" "$(search "$target")"
done

finish
