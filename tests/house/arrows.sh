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
none 'engine includes only itself, kernels, the public headers and grow.h' \
    "$(quoted engine | offends 'engine/.*|kernels/.*|libhkfmt/(hk(fmt|model)|base/grow)\.h')"
none 'tools include only themselves, engine, kernels, the public headers and grow.h' \
    "$(quoted tools | offends 'tools/.*|engine/.*|kernels/.*|libhkfmt/(hk(fmt|model)|base/grow)\.h')"

# Between folders: what each includes beside itself, the public headers and grow.h, which depends on nothing.
# within FOLDER [FOLDER...]
within() {
    folder=$1 && shift
    allowed=$(printf '|%s/[^/]*\\.h' "$@")
    none "$folder includes only ${*:-itself}" \
        "$(quoted "$folder" | offends "$folder/.*|libhkfmt/(hk(fmt|model)|base/grow)\\.h$allowed")"
}
# But these, of other folders of the same part.
without() {
    folder=$1 && shift
    none "$folder does not include $*" "$(quoted "$folder" | grep -E " ($(printf '%s|' "$@")-)/")"
}
within libhkfmt/base
within libhkfmt/tensor libhkfmt/base
without libhkfmt/hk libhkfmt/model libhkfmt/adapter libhkfmt/hf libhkfmt/set libhkfmt/safetensors
within libhkfmt/model libhkfmt/base libhkfmt/tensor libhkfmt/hk
without libhkfmt/gguf libhkfmt/set libhkfmt/adapter
without libhkfmt/safetensors libhkfmt/set libhkfmt/adapter libhkfmt/hf
without libhkfmt/convert libhkfmt/set
within engine/tokenizer
within engine/sample engine engine/tokenizer
within engine/plan engine
within engine/run engine engine/plan
within engine/cpu engine engine/plan kernels
within tools/lib libhkfmt engine engine/cpu kernels

beyond='F_OFD_|O_TMPFILE|memfd_create|renameat2|copy_file_range|getrandom|madvise|strerror_r|/proc/self'
none 'libhkfmt asks for more than POSIX in base/sys.c only' "$(tracked 'libhkfmt/*.c' 'libhkfmt/*.h' |
    grep -vx 'libhkfmt/base/sys\.c' | xargs -r grep -nE "$beyond")"

foreign='openssl/.*|zlib\.h|jansson\.h|pcre2\.h'
none 'libhkfmt knows only libcrypto, zlib and jansson' \
    "$(system libhkfmt | grep -E " ($foreign)\$" | offends 'openssl/.*|zlib\.h|jansson\.h')"
none 'kernels know no library' "$(system kernels | grep -E " ($foreign)\$")"
none 'of the engine only cpu/sys.c asks for what is not POSIX' \
    "$(system engine | grep -E ' (linux/.*|sys/(syscall|prctl|auxv)\.h)$' | grep -v '^engine/cpu/sys\.c ')"
none 'engine knows only PCRE2' "$(system engine | grep -E " ($foreign)\$" | offends 'pcre2\.h')"

finish
