#!/bin/sh
# The fuzzers' target over its seeds and a fixed number of their mutations: "make fuzz" searches on.
. tests/tap.sh

seeds=$(mktemp -d "${TMPDIR:-/tmp}/hk-fuzz.XXXXXX") || exit 2
trap 'rm -rf "$seeds"' EXIT
if /usr/bin/python3 -B tests/fuzz/seeds.py "$seeds"; then
    report=$("$B/tests/fuzz_open" -runs=4000 "-save=$seeds/last" "$seeds"/*.hk "$seeds"/*.safetensors \
        tests/fixtures/malformed/*.gguf tests/fixtures/malformed/*.safetensors 2>&1) ||
        report="$report
the last input: $(base64 -w 0 "$seeds/last")"
else
    report='no seeds'
fi
none 'every file of bytes is answered' "$(printf '%s\n' "$report" | grep -v '^[0-9]* files, 4000 mutations$')"

finish
