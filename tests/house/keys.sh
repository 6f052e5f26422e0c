#!/bin/sh
# Each key of a model's metadata, and each name of a tensor or a class, stands as one string in libhkfmt, engine and
# tools: in the table that lists it.
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
        pattern=$(printf '%s\n' "$key" | sed 's/[.*]/[&]/g')
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

# Hyperparameters: most stand behind the architecture's name, or a format for it.
model_keys() {
    sed -nE 's/^ *X\([A-Z0-9_]+, *"([a-z_.]+)",.*/\1/p' libhkfmt/model/model.h
}

# spelled_behind_any: as spelled, also behind a dot.
spelled_behind_any() {
    while IFS= read -r key; do
        pattern=$(printf '%s\n' "$key" | sed 's/[.*]/[&]/g')
        count=$(grep -cE "(^|[^a-zA-Z0-9_])$pattern([^a-zA-Z0-9_.]|[.]?$|[.][^a-zA-Z0-9_])" "$work/strings")
        [ "$count" -eq 1 ] || echo "$key $count"
    done
}

works 'the table of hyperparameter keys is found' test "$(model_keys | wc -l)" -gt 30
none 'each hyperparameter key is spelled once' \
    "$(model_keys | grep -vxE 'vocab_size|(attn|final)_logit_softcapping|logit_scale' | spelled_behind_any)"
# config.json calls some fields so: this one is read in one file and written in another.
same 'vocab_size is a key, and a field of config.json' 3 "$(grep -cx vocab_size "$work/strings")"
none 'no key of a rope is spelled that the table does not list' \
    "$(grep -oE 'hk[.]rope[a-z0-9_.]*|[%a-z0-9]+[.]rope[.][a-z0-9_.]*|rope[.](scaling|freq|dim|scale)[a-z0-9_.]*' \
        "$work/strings" | grep -vxF "$(model_keys)")"

# Names of tensors, as GGUF and transformers have them, and of classes.
tensor_names() {
    sed -nE '/^ *(ONCE|LAYER|MAYBE|ROUTER|EXPERTS)\([A-Z_]+,/p' libhkfmt/model/tensors.c |
        grep -oE '"[a-z_.*]+"' | tr -d '"'
}
class_names() {
    sed -nE 's/^ *\.class_name = "([A-Za-z0-9]+)",.*/\1/p' libhkfmt/model/families.c
}

works 'the table of tensors is found' test "$(tensor_names | wc -l)" -gt 30
# Families differ in what a tensor is called, so the table may have a name in several rows.
none 'each name of a tensor is spelled in the table alone' "$(tensor_names | sort | uniq -c |
    while read -r rows name; do
        printf '%s\n' "$name" | spelled | grep -vx "$name $rows"
    done)"
works 'the table of families is found' test "$(class_names | wc -l)" -gt 3
none 'each name of a class is spelled once' "$(class_names | spelled)"

finish
