#!/bin/sh
# Each key of a model's metadata stands as one string in libhkfmt, engine and tools: in the table that lists it.
. tests/tap.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every string literal, one a line, without its quotes; comments and #include lines left out.
tracked 'libhkfmt/*.[ch]' 'engine/*.[ch]' 'tools/*.[ch]' | xargs -r cat |
    sed -E 's:/\*.*\*/::; /^[ \t]*#[ \t]*include/d' |
    awk '/\/\*/ { out = 1 } !out { print } /\*\// { out = 0 }' |
    grep -oE '"([^"\\]|\\.)*"' | sed 's/^"//; s/"$//' >"$work/strings"

# keys FILE: the keys of the table in FILE, "[ENUM] = "KEY"," a line.
keys() {
    sed -nE 's/^ *\[HK_[A-Z0-9_]+\] = "([a-z_.]+\.[a-z0-9_.]+)",.*/\1/p' "$1"
}

# spelled: "KEY COUNT" for each key on standard input that is not spelled once.
spelled() {
    while IFS= read -r key; do
        pattern=$(printf '%s\n' "$key" | sed 's/\./[.]/g')
        count=$(grep -cE "(^|[^a-zA-Z0-9_.])$pattern([^a-zA-Z0-9_.]|[.]?$|[.][^a-zA-Z0-9_])" "$work/strings")
        [ "$count" -eq 1 ] || echo "$key $count"
    done
}

vocabulary=libhkfmt/model/vocabulary.c
works 'the table of tokenizer keys is found' test "$(keys $vocabulary | wc -l)" -gt 20
none 'each tokenizer key is spelled once' "$(keys $vocabulary | spelled)"
none 'no tokenizer key is spelled that the table does not list' \
    "$(grep -oE 'tokenizer[.](ggml|hk)[.][a-z0-9_.]*|hk[.]hf[.](tokenizer|special)[a-z0-9_.]*' "$work/strings" |
        grep -vxF "$(keys $vocabulary)")"

finish
