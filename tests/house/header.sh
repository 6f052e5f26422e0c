#!/bin/sh
# hkfmt.h and hkmodel.h are complete in themselves, in C and in C++, and need nothing but the standard headers.
. tests/tap.sh

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cp libhkfmt/hkfmt.h libhkfmt/hkmodel.h "$work"
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'

cxx=
for candidate in g++ clang++; do
    ! command -v $candidate >/dev/null || cxx="$cxx $candidate"
done

for header in hkfmt.h hkmodel.h; do
    printf '#include "%s"\n' $header >"$work/alone.c"
    for std in c99 c17; do
        # shellcheck disable=SC2086 # a list of options
        works "$header compiles alone as $std" "$CC" -std=$std $strict "$work/alone.c"
    done
    cp "$work/alone.c" "$work/alone.cc"
    for compiler in $cxx; do
        # shellcheck disable=SC2086 # a list of options
        works "$header compiles alone as c++11 with $compiler" $compiler -std=c++11 $strict "$work/alone.cc"
    done

    # Twice, and after a system header: the guard and the names hold.
    printf '#include <stdio.h>\n#include "%s"\n#include "%s"\nint main(void) { return HK_OK; }\n' \
        $header $header >"$work/twice.c"
    # shellcheck disable=SC2086 # a list of options
    works "$header may be included twice" "$CC" -std=c17 $strict "$work/twice.c"
done

# A program in C++ that opens a file, walks it, writes one and checks that, linked with the library.
[ -n "$cxx" ] || skip 'the headers serve a program in C++' 'no C++ compiler'
sanitize=${SAN:+-fsanitize=$SAN}
for compiler in $cxx; do
    # shellcheck disable=SC2086 # perhaps an option
    works "embed.cc compiles with $compiler" $compiler -std=c++11 -Wall -Wextra -Wpedantic -Werror $sanitize \
        -I"$work" -o "$work/embed" tests/house/embed.cc "$B/libhkfmt.a" -lcrypto -lz -ljansson -lm
    same 'and reads, writes and checks' 'gguf, f16: 47 tensors, 26 keys
llama.rope.dimension_count = 8
token_embd.weight [512 64]: -0.294678
wrote 1 tensor: 0 faults' "$("$work/embed" "$HK_FIXTURES/models/stories260K-f16.gguf" "$work/written.hk" 2>&1)"
done

finish
