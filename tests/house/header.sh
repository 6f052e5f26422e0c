#!/bin/sh
# hkfmt.h is complete in itself, in C and in C++, and needs nothing but the standard headers.
. tests/tap.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cp libhkfmt/hkfmt.h "$work"
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'

for std in c99 c17; do
    printf '#include "hkfmt.h"\n' >"$work/alone.c"
    # shellcheck disable=SC2086 # a list of options
    works "hkfmt.h compiles alone as $std" "$CC" -std=$std $strict "$work/alone.c"
done

cxx=
for candidate in g++ clang++; do
    [ -n "$cxx" ] || ! command -v $candidate >/dev/null || cxx=$candidate
done
if [ -n "$cxx" ]; then
    printf '#include "hkfmt.h"\n' >"$work/alone.cc"
    # shellcheck disable=SC2086 # a list of options
    works 'hkfmt.h compiles alone as c++11' $cxx -std=c++11 $strict "$work/alone.cc"
else
    skip 'hkfmt.h compiles alone as c++11' 'no C++ compiler'
fi

# Twice, and after a system header: the guard and the names hold.
printf '#include <stdio.h>\n#include "hkfmt.h"\n#include "hkfmt.h"\nint main(void) { return HK_OK; }\n' \
    >"$work/twice.c"
# shellcheck disable=SC2086 # a list of options
works 'hkfmt.h may be included twice' "$CC" -std=c17 $strict "$work/twice.c"

finish
