#!/bin/sh
# Includes follow libhkfmt <- kernels <- engine <- tools, and each folder its own dependencies.
. tests/tap.sh

# quoted FOLDER, system FOLDER: "FILE: HEADER" for each include of either form.
quoted() {
    tracked "$1/*.c" "$1/*.h" | xargs -r sed -n \
        's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/;T;F;p' | paste -d' ' - -
}

system() {
    tracked "$1/*.c" "$1/*.h" | xargs -r sed -n \
        's/^[ \t]*#[ \t]*include[ \t]*<\([^>]*\)>.*/\1/;T;F;p' | paste -d' ' - -
}

offends() {
    grep -Ev " ($1)\$"
}

# The installed headers lie beside each other, wherever that is.
none 'libhkfmt includes only itself' \
    "$(quoted libhkfmt | grep -vx 'libhkfmt/hkmodel\.h hkfmt\.h' | offends 'libhkfmt/.*')"
none 'kernels include only themselves, blocks.h, tables.h and type_list.h' \
    "$(quoted kernels | offends 'kernels/.*|libhkfmt/tensor/(blocks|tables|type_list)\.h')"
none 'engine includes only itself, kernels and the public headers' \
    "$(quoted engine | offends 'engine/.*|kernels/.*|libhkfmt/hk(fmt|model)\.h')"
none 'tools include only themselves, engine, kernels and the public headers' \
    "$(quoted tools | offends 'tools/.*|engine/.*|kernels/.*|libhkfmt/hk(fmt|model)\.h')"

foreign='openssl/.*|zlib\.h|jansson\.h|pcre2\.h'
none 'libhkfmt knows only libcrypto, zlib and jansson' \
    "$(system libhkfmt | grep -E " ($foreign)\$" | offends 'openssl/.*|zlib\.h|jansson\.h')"
none 'kernels know no library' "$(system kernels | grep -E " ($foreign)\$")"
none 'engine knows only PCRE2' "$(system engine | grep -E " ($foreign)\$" | offends 'pcre2\.h')"

finish
