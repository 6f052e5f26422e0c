#!/bin/sh
# Runs the EXAMPLES of the man pages of sections 1 and 5 (manual.sh has the library's).
#
# In that section each literal block (.Bd -literal ... .Ed) is a session in a directory that holds
# model.gguf, model.hk and a PEFT adapter of it in adapter/, the same for all blocks of a page, with
# the programs in PATH:
#
#   - a line "$ COMMAND" is run by sh; one that ends in a backslash goes on in the next line;
#   - the lines after it, if there are any, are its output: standard output, or that followed by
#     standard error; a last line "..." stands for whatever else comes;
#   - it has to exit 0, or N where the command ends in "  # exit N".
#
# Blocks without "$ " are text and are not run.
. tests/tap.sh
. tests/examples.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
model=$HK_FIXTURES/models/stories260K-f16.gguf
mkdir "$work/bin"
ln -s /usr/bin/python3 "$work/bin/python3" # the one that has NumPy
PATH=$work/bin:$B/bin:$PATH
export PATH HOME="$work"

# extract PAGE DIRECTORY: writes N.cmd, N.status and, where output is given, N.out.
# shellcheck disable=SC2016 # a program for awk
extract() {
    awk -v dir="$2" '
    function plain(s) {
        gsub(/\\&/, "", s); gsub(/\\-/, "-", s); gsub(/\\\(aq/, "\047", s); gsub(/\\\(dq/, "\"", s)
        gsub(/\\\(ga/, "`", s); gsub(/\\\(ha/, "^", s); gsub(/\\\(ti/, "~", s)
        gsub(/\\(e|\(rs)/, "\\", s)
        return s
    }
    function command(s) {
        if (match(s, /[ \t]*# exit [0-9]+$/)) {
            print substr(s, RSTART + RLENGTH - 1) + 0 >(base ".status")
            s = substr(s, 1, RSTART - 1)
        }
        print s >(base ".cmd")
        more = s ~ /\\$/
    }
    /^\.Sh / { inside = $2 == "EXAMPLES" }
    !inside { next }
    /^\.Bd .*-literal/ { block = 1; base = ""; next }
    /^\.Ed/ { block = 0; next }
    !block || /^\.\\"/ { next }
    { line = plain($0) }
    line ~ /^\$ / { base = sprintf("%s/%03d", dir, ++n); command(substr(line, 3)); next }
    base == "" { next }
    more { command(line); next }
    { print line >(base ".out") }' "$1"
}

works 'the example model is there' test -f "$model"
for page in man/*.[15]; do
    name=$(basename "$page")
    mkdir -p "$work/$name/dir" "$work/$name/steps"
    cp "$model" "$work/$name/dir/model.gguf"
    cp -r "$HK_FIXTURES/adapter" "$work/$name/dir"
    hk-convert "$model" "$work/$name/dir/model.hk" || fail "$name: a model for its examples"
    extract "$page" "$work/$name/steps"
    ran=0
    for step in "$work/$name/steps"/*.cmd; do
        [ -f "$step" ] || continue
        cd "$work/$name/dir" || exit 2
        example "$name" "${step%.cmd}"
        cd "$OLDPWD" || exit 2
        ran=$((ran + 1))
    done
    case $name in *.1) works "$name: has examples" test $ran -gt 0 ;; esac
done

finish
