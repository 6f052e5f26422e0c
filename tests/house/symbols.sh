#!/bin/sh
# What the archives define and need: prefixes, the exported interface, no global state, no printing.
. tests/tap.sh

if [ -n "$SAN" ]; then
    echo '1..0 # SKIP sanitizers add symbols of their own'
    exit 0
fi

for file in libhkfmt.a libhkkern.a libhkengine.a libhktool.a libhkfmt.so; do
    if [ -f "$B/$file" ]; then pass "$file is built"; else fail "$file is built"; fi
done

# defined ARCHIVE, needed ARCHIVE: its symbols, with C's and the compiler's own left out.
defined() {
    nm -g --defined-only "$B/$1" | awk 'NF == 3 { print $3 }' | sort -u
}

needed() {
    nm -u "$B/$1" | awk 'NF == 2 { print $2 }' | sort -u
}

# Objects in sections that can be written to while the program runs.
mutable() {
    objdump -t "$B/$1" | awk '
        /file format/ { object = $1 }
        $0 ~ / O / && / (\.bss|\.data|\.tbss|\.tdata|\*COM\*)/ && !/ \.data\.rel\.ro/ { print object, $NF }'
}

# The names that hkfmt.h and hkmodel.h declare HK_API.
declared() {
    cat libhkfmt/hkfmt.h libhkfmt/hkmodel.h | sed 's:/\*.*\*/::' |
        awk '/^[ \t]*#/ { next } /\/\*/ { out = 1 } !out { print } /\*\// { out = 0 }' |
        tr '\n' ' ' | tr ';{}' '\n' | grep HK_API | sed 's/^[^(]*[ *]\(hk_[a-z0-9_]*\)(.*/\1/' | sort
}

exported() {
    nm -D --defined-only "$B/libhkfmt.so" | awk '{ print $3 }' |
        grep -Ev '^(_init|_fini|_edata|_end|__bss_start)$' | sort
}

prefix() {
    none "$1 defines only $2" "$(defined "$1" | grep -Ev "^($2)")"
}

prefix libhkfmt.a hk_
prefix libhkkern.a hkk_
prefix libhkengine.a hke_
# A program of more than one file has a prefix of its own: hash_ for hk-hash. What several share has
# its header's: record_ and records_ for records.h.
own=$(find tools \( -name 'hk-*.c' -o -name '*.h' \) -exec basename {} \; |
    sed 's/\.[ch]$//; s/^hk-//; s/-/_/g; s/s$/s?/; s/$/_/' | sort -u | paste -sd'|')
prefix libhktool.a "tool_|$own"

banned='exit|_exit|_Exit|abort|getenv|secure_getenv|puts|printf|putchar|vprintf|perror|err|errx|warn|warnx'
banned="$banned|__printf_chk|__vprintf_chk|__assert_fail|setlocale|stdout|stderr|signal|sigaction"
for archive in libhkfmt.a libhkkern.a libhkengine.a; do
    none "$archive never prints, exits, asserts or reads the environment" \
        "$(needed $archive | grep -Ex "$banned")"
    none "$archive has no mutable globals" "$(mutable $archive)"
done

none 'libhkfmt.so exports what its headers declare, no more and no less' \
    "$({ declared; exported; } | sort | uniq -u)"
same 'libhkfmt.so needs only its three libraries, beside those of C' \
    'libc.so.6 libcrypto.so.3 libjansson.so.4 libm.so.6 libz.so.1' \
    "$(readelf -d "$B/libhkfmt.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | paste -sd' ')"

none 'libhkengine.so exports what is ours alone' "$(nm -D --defined-only "$B/lib/hk/libhkengine.so" |
    awk '{ print $3 }' | grep -Ev '^(hke_|hkk_(select|levels)$)')"
same 'libhkengine.so needs libhkfmt.so and its two libraries, beside those of C' \
    'libc.so.6 libhkfmt.so.0 libm.so.6 libpcre2-8.so.0 libutf8proc.so.2' \
    "$(readelf -d "$B/lib/hk/libhkengine.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v ld-linux | sort |
        paste -sd' ')"

# Programs that need the engine; every other one is an inspection tool.
engine=$(sed -n 's/^ENGINE_PROGS := //p' GNUmakefile)
for source in tools/hk.c tools/hk-*.c; do
    [ -f "$source" ] || continue
    program=$(basename "$source" .c)
    libraries='libc\.so.*|libm\.so.*|libjansson\.so.*|libhkfmt\.so\.0|ld-linux.*'
    case " $engine " in *" $program "*) libraries="$libraries|libhkengine\.so" ;; esac
    none "$program links only what it may" "$(readelf -d "$B/bin/$program" 2>&1 |
        sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p; /rror:/p' | grep -Exv "$libraries")"
done

finish
