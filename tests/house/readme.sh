#!/bin/sh
# The README's sessions: each indented "$ " line is run, in one directory for all, and prints what
# the lines below it say.
. tests/tap.sh
. tests/examples.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/dir" "$work/steps"
ln -s "$PWD/tests" "$work/dir/tests"
ln -s /usr/bin/python3 "$work/bin/python3" # the one that has NumPy
PATH=$work/bin:$B/bin:$PATH
export PATH

# shellcheck disable=SC2016 # a program for awk
awk -v dir="$work/steps" '
    !/^    / { base = ""; next }
    { line = substr($0, 5) }
    line ~ /^\$ / { base = sprintf("%s/%03d", dir, ++n); print substr(line, 3) >(base ".cmd"); next }
    base != "" { print line >(base ".out") }' README.md

cd "$work/dir" || exit 2
for step in "$work/steps"/*.cmd; do
    example README "${step%.cmd}"
done

finish
