#!/bin/sh
# The manual: well formed, a page for each program and none without one, complete, and true where
# that can be checked (options, references, the library's example). man-examples.sh runs the rest.
. tests/tap.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

text() {
    mandoc -T ascii "$1" | sed 's/.\x08//g'
}

programs() {
    for source in tools/hk.c tools/hk-*.c; do
        [ ! -f "$source" ] || basename "$source" .c
    done
}

same 'every program has its page, every page its program' "$(programs | sort)" \
    "$(find man -name '*.1' -exec basename {} .1 \; | sort)"

for page in man/*.[0-9]; do
    none "$(basename "$page") is clean" "$(mandoc -T lint "$page" | grep -v 'referenced manual not found')"
done

# Pages of programs have the sections of hk(1)'s conventions.
for page in man/*.1; do
    [ -f "$page" ] || continue
    none "$(basename "$page") has every section" \
        "$(for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' EXAMPLES 'SEE ALSO'; do
            grep -qx "\.Sh $section" "$page" || printf '%s\n' "$section"
        done)"
done

none 'references lead to pages' "$(sed -n 's/^\.Xr \(hk[a-z0-9-]*\) \([0-9]\).*/\1.\2/p' man/*.[0-9] |
    sort -u | while IFS= read -r page; do [ -f "man/$page" ] || echo "$page"; done)"

for program in $(programs); do
    page=man/$program.1
    [ -f "$page" ] || continue
    text "$page" >"$work/text"
    none "$program.1 has every option of --help" "$("$B/bin/$program" --help |
        grep -oE '(^|[ ,])--[a-z][a-z0-9-]*' | tr -d ' ,' | sort -u |
        while IFS= read -r option; do grep -qF -e "$option" "$work/text" || echo "$option"; done)"
    none "$program.1 has every letter of --help" "$("$B/bin/$program" --help |
        sed -n 's/^  -\([a-z]\), --.*/\1/p' | while IFS= read -r letter; do
            grep -qE "^ *-${letter}[ ,]" "$work/text" || echo "-$letter"
        done)"
    works "hk.1 names $program" grep -qF "$program" man/hk.1
done

# Every function of the headers is in hkfmt(3), and its example compiles and runs.
none 'hkfmt.3 names every function' "$(cat libhkfmt/hkfmt.h libhkfmt/hkmodel.h | sed 's:/\*.*\*/::' |
    grep -oE '\bhk_[a-z0-9_]+\(' |
    tr -d '(' | sort -u | while IFS= read -r name; do grep -qw "$name" man/hkfmt.3 || echo "$name"; done)"
none 'hkfmt.3 names nothing else' "$(grep -ohE '^\.(It )?Fn hk_[a-z0-9_]+' man/hkfmt.3 | sed 's/.* //' | sort -u |
    while IFS= read -r name; do grep -qE "\b$name\(" libhkfmt/hkfmt.h libhkfmt/hkmodel.h || echo "$name"; done)"
# Of its two literal blocks the first is the program, the second how it is run and what it prints.
awk -v dir="$work" '
    /^\.Sh / { inside = $2 == "EXAMPLES" }
    /^\.Ed/ { block = 0 }
    inside && block { gsub(/\\e/, "\\"); print >(dir (blocks == 1 ? "/example.c" : "/session")) }
    inside && /^\.Bd .*-literal/ { block = 1; blocks++ }' man/hkfmt.3
cp libhkfmt/hkfmt.h "$work"
sanitize=${SAN:+-fsanitize=$SAN}
# shellcheck disable=SC2086 # perhaps an option
works 'the example of hkfmt.3 compiles' "$CC" -std=c17 -Wall -Wextra -Wpedantic -Werror $sanitize \
    -I"$work" -o "$work/example" "$work/example.c" "$B/libhkfmt.a" -lcrypto -lz -ljansson -lm
model=$HK_FIXTURES/models/stories260K-f16.gguf
same 'and prints what the page says' "$(grep -v '^\$ ' "$work/session")" \
    "$("$work/example" "$model" blk.0.attn_q.weight 2>&1)"

finish
