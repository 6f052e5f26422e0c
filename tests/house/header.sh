#!/bin/sh
# hkfmt.h and hkmodel.h are complete in themselves, in C and in C++, and need nothing but the standard headers.
. tests/tap.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cp libhkfmt/hkfmt.h libhkfmt/hkmodel.h "$work"
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'

cxx=
for candidate in g++ clang++; do
    [ -n "$cxx" ] || ! command -v $candidate >/dev/null || cxx=$candidate
done

for header in hkfmt.h hkmodel.h; do
    printf '#include "%s"\n' $header >"$work/alone.c"
    for std in c99 c17; do
        # shellcheck disable=SC2086 # a list of options
        works "$header compiles alone as $std" "$CC" -std=$std $strict "$work/alone.c"
    done
    if [ -n "$cxx" ]; then
        cp "$work/alone.c" "$work/alone.cc"
        # shellcheck disable=SC2086 # a list of options
        works "$header compiles alone as c++11" $cxx -std=c++11 $strict "$work/alone.cc"
    else
        skip "$header compiles alone as c++11" 'no C++ compiler'
    fi

    # Twice, and after a system header: the guard and the names hold.
    printf '#include <stdio.h>\n#include "%s"\n#include "%s"\nint main(void) { return HK_OK; }\n' \
        $header $header >"$work/twice.c"
    # shellcheck disable=SC2086 # a list of options
    works "$header may be included twice" "$CC" -std=c17 $strict "$work/twice.c"
done

finish
