#!/bin/sh
# The shape of the tree, as scripts/figures counts it, within bounds.
. tests/tap.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2016 # a line for sh
works 'the figures are there' sh -c 'scripts/figures -v >"$0"' "$work/figures"

# list WORD: what the figures name WORD.
list() {
    sed -n "s/^$1 //p" "$work/figures"
}

# at_most NAME MOST PATTERN WORD: the first number after PATTERN is not above MOST; else what WORD lists is shown.
at_most() {
    figure=$(sed -n "s/^$3\\([0-9.]*\\).*/\\1/p" "$work/figures" | head -n 1)
    if [ -n "$figure" ] && awk "BEGIN { exit !($figure <= $2) }"; then
        pass "$1: $figure, at most $2"
    else
        fail "$1: ${figure:-no figure}, at most $2" "$(list "$4")"
    fi
}

at_most 'percent of functions whose name is not theirs alone' 1 'names of several functions .*, ' shared
at_most 'circles of files' 0 'circles ' circle
at_most 'circles of files across folders' 0 'circles .*across folders ' circle
at_most '.c files in the fullest folder' 40 'fullest folder .*: ' -
at_most 'file names in comments that no file has' 0 'names of files that are gone ' gone
at_most 'guards of headers that are not theirs' 0 'guards of headers that are not theirs ' guard

finish
