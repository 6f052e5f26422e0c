#!/bin/sh
# The makefile, on a copy of the tree: builds only what changed, shows commands on request, and
# installs a library that a program builds against, shared and static.
. tests/tap.sh

if [ -n "$SAN" ]; then
    echo '1..0 # SKIP the plain tree tests the makefile'
    exit 0
fi

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
tracked . | tar -c -T - | tar -x -C "$work"
here=$PWD
# Time stamps from the past, so that a touched file is newer on any file system.
find "$work" -type f -exec touch -d '2020-01-01' {} +
cd "$work" || exit 2
quick="OPT=-O0 PREFIX=/usr CC=$CC B=out"

build() {
    # shellcheck disable=SC2086 # a list of settings
    make -j2 $quick "$@"
}

works 'a fresh tree builds' build all

# compiled: the objects that a run of make with V=1 compiled.
compiled() {
    sed -n 's/.* -c -o \([^ ]*\.o\) .*/\1/p' "$work/log" | sort
}

build V=1 all >"$work/log" 2>&1
none 'a second run compiles and links nothing' "$(grep -E ' -o |^ar ' "$work/log")"

# The makefile's own record of who includes a header, checked against the sources.
touch libhkfmt/base/le.h
build V=1 all >"$work/log" 2>&1
same 'a touched header rebuilds what includes it' \
    "$(find out -name '*.d' ! -path 'out/tests/*' -exec grep -lE '(^| )libhkfmt/base/le\.h( |:|$)' {} + |
        sed 's/\.d$/.o/' | sort)" \
    "$(compiled)"
direct=$(grep -lF '"libhkfmt/base/le.h"' libhkfmt/*/*.c libhkfmt/*/*/*.c | sed 's:^\(.*\)\.c$:out/\1.o:' | sort)
none 'no direct includer is left out' "$(printf '%s\n' "$direct" | while IFS= read -r object; do
    compiled | grep -qxF "$object" || printf '%s\n' "$object"
done)"
none 'what does not include it is left alone' "$(compiled | grep -x 'out/libhkfmt/tensor/types.o')"

touch libhkfmt/tensor/types.c
build V=1 all >"$work/log" 2>&1
same 'a touched source rebuilds one object' out/libhkfmt/tensor/types.o "$(compiled)"
works 'V=1 shows whole commands' \
    grep -qE "^$CC .* -c -o out/libhkfmt/tensor/types.o libhkfmt/tensor/types.c" "$work/log"
touch libhkfmt/tensor/types.c
build all >"$work/log" 2>&1
same 'without it a line says what is made' '  CC    libhkfmt/tensor/types.o' "$(grep -F ' CC ' "$work/log")"

# Installing, as a package would.
root=$work/root
works 'make install fills DESTDIR' build install DESTDIR="$root"
libraries='lib/hk/libhkengine.so lib/libhkfmt.a lib/libhkfmt.so lib/libhkfmt.so.0 lib/libhkfmt.so.0.1.0'
same 'the library, its headers and its description are there' \
    "include/hkfmt.h include/hkmodel.h $libraries lib/pkgconfig/hkfmt.pc" \
    "$(cd "$root/usr" && find include lib ! -type d | LC_ALL=C sort | paste -sd' ')"
for source in tools/hk.c tools/hk-*.c; do
    [ -f "$source" ] || continue
    works "$(basename "$source" .c) is there" test -x "$root/usr/bin/$(basename "$source" .c)"
done
for page in man/*.[0-9]; do
    [ -f "$page" ] || continue
    works "$(basename "$page") is there" cmp "$page" "$root/usr/share/man/man${page##*.}/$(basename "$page")"
done
works 'an installed program finds its library' "$root/usr/bin/hk-inspect" --version
works 'and one with the engine' "$root/usr/bin/hk-run" --version
works 'so it does from another place' sh -c "mv '$root/usr' '$root/moved' && '$root/moved/bin/hk-run' --version &&
    mv '$root/moved' '$root/usr'"
for program in "$root"/usr/bin/hk-*; do
    program=${program##*/}
    works "bash finds the completion of $program" test -f "$root/usr/share/bash-completion/completions/$program"
    works "so does fish" test -f "$root/usr/share/fish/vendor_completions.d/$program.fish"
done
works 'zsh finds its completion' grep -q '^#compdef hk hk-append' "$root/usr/share/zsh/site-functions/_hk"

if command -v man >/dev/null; then
    same 'man finds its page' "$root/usr/share/man/man1/hk-run.1" "$(man -M "$root/usr/share/man" -w hk-run)"
else
    skip 'man finds its page' 'SKIPPED: no man'
fi

# A distribution's folders, stripped.
debian="LIBDIR=/usr/lib/x86_64-linux-gnu MANDIR=/usr/share/hk-man"
# shellcheck disable=SC2086 # a list of settings
works 'make install-strip with other folders' build install-strip $debian DESTDIR="$work/debian"
works 'its programs find their libraries' "$work/debian/usr/bin/hk-run" --version
none 'nothing has symbols left but the archive' "$(find "$work/debian" -type f \( -path '*/bin/*' -o -name '*.so*' \) \
    -exec sh -c 'readelf -S "$1" | grep -q "\.symtab" && echo "$1"' - {} \;)"
# Their size is that of what the tests run, not of this quick build.
mkdir "$work/stripped"
cp -L "$here/${B:-build}"/bin/* "$here/${B:-build}"/lib*.so "$here/${B:-build}"/lib/hk/*.so "$work/stripped"
strip "$work"/stripped/*
size=$(du -cb "$work"/stripped/* | tail -n 1 | cut -f 1)
works "programs and libraries take less than 12 MB: $size bytes" test "$size" -lt 12000000
same 'hkfmt.pc follows LIBDIR' "-L/usr/lib/x86_64-linux-gnu -lhkfmt" \
    "$(PKG_CONFIG_LIBDIR=$work/debian/usr/lib/x86_64-linux-gnu/pkgconfig PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
        pkg-config --libs hkfmt | sed 's/ *$//')"
touch "$work/debian/usr/bin/other" "$work/debian/usr/lib/x86_64-linux-gnu/other"
# shellcheck disable=SC2086 # a list of settings
works 'make uninstall' build uninstall $debian DESTDIR="$work/debian"
same 'it leaves what is not ours' 'usr/bin/other usr/lib/x86_64-linux-gnu/other' \
    "$(cd "$work/debian" && find . ! -type d | sed 's:^\./::' | sort | paste -sd' ')"
none 'and no folder of ours' "$(find "$work/debian" -name hk)"
outside="BINDIR=/srv/hk/bin LIBDIR=/opt/odd/lib64"
# shellcheck disable=SC2086 # a list of settings
works 'make install with folders outside PREFIX' build install $outside DESTDIR="$work/outside"
same 'places as many files as in it' "$(find "$root" ! -type d | wc -l)" "$(find "$work/outside" ! -type d | wc -l)"
works 'its programs find their libraries' "$work/outside/srv/hk/bin/hk-run" --version
# shellcheck disable=SC2086 # a list of settings
build uninstall $outside DESTDIR="$work/outside" >/dev/null 2>&1
none 'make uninstall leaves no file of them' "$(find "$work/outside" ! -type d)"
build all >/dev/null 2>&1

none 'nothing installed knows where it was built' "$(grep -rlF "$work" "$root/usr/lib/pkgconfig" "$root/usr/include")"

# With another prefix, after a build for the first one.
build install PREFIX=/opt/hk DESTDIR="$work/other" >/dev/null 2>&1
same 'hkfmt.pc follows PREFIX' /opt/hk \
    "$(PKG_CONFIG_PATH=$work/other/opt/hk/lib/pkgconfig pkg-config --variable=prefix hkfmt)"

cat >"$work/user.c" <<'END'
#include <hkmodel.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct hk_error err;
    struct hk_file *file = NULL;
    enum hk_status s = hk_open(&file, "/nowhere/model.hk", &err);
    printf("%s %s\n", hk_type_info(HK_TYPE_Q4_K)->name, hk_status_name(s));
    return s != HK_E_IO || strlen(err.text) == 0;
}
END
export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
# shellcheck disable=SC2046 # lists of options
works 'a program builds against the shared library' \
    "$CC" -o shared user.c $(pkg-config --cflags --libs hkfmt)
works 'and runs with it' env LD_LIBRARY_PATH="$root/usr/lib" ./shared
# shellcheck disable=SC2046 # lists of options
works 'so does one in C++' g++ -o shared-cc tests/house/embed.cc $(pkg-config --cflags --libs hkfmt)
works 'and runs with it' env LD_LIBRARY_PATH="$root/usr/lib" \
    ./shared-cc tests/fixtures/models/stories260K-f16.gguf written.hk
works 'by its soname' sh -c 'readelf -d shared | grep -qF "[libhkfmt.so.0]"'
# shellcheck disable=SC2046 # lists of options
works 'a program builds against the static library' \
    "$CC" -o static user.c $(pkg-config --cflags hkfmt) -L"$root/usr/lib" -Wl,-Bstatic -lhkfmt -Wl,-Bdynamic \
    $(pkg-config --static --libs hkfmt | sed 's/-lhkfmt//')
works 'and runs alone' ./static
works 'without the shared one' sh -c '! readelf -d static | grep -qF libhkfmt'

build V=1 WARN=-Wall out/libhkfmt.a >"$work/log" 2>&1
same 'changed flags rebuild everything' "$(find out/libhkfmt -name '*.o' | sort)" "$(compiled)"

cd "$here" || exit 2
finish
