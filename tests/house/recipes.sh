#!/bin/sh
# The recipes of kernels/README.md, followed in a copy of the tree: a storage type and a kernel level are
# added where the recipes say, and nowhere else; what is built then knows them.
. tests/tap.sh

if [ -n "$SAN" ]; then
    echo '1..0 # SKIP the plain tree tests the recipes'
    exit 0
fi

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/before"
: >"$work/lost"
tracked . ':!tests/fixtures' | tar -c -T - | tar -x -C "$work/tree"
cp -r "$work/tree/." "$work/before"
cd "$work/tree" || exit 2

# put FILE WHERE TEXT: standard input goes before or after the line, the only one, that TEXT is a part of.
put() {
    cat >"$work/text"
    [ "$(grep -cF -- "$3" "$1")" = 1 ] || echo "$1: not one line has $3" >>"$work/lost"
    awk -v where="$2" -v part="$3" -v text="$work/text" '
        function insert(line) { while ((getline line <text) > 0) print line; close(text) }
        index($0, part) && where == "before" { insert() }
        { print }
        index($0, part) && where == "after" { insert() }' "$1" >"$work/new" && cat "$work/new" >"$1"
}

# steps TITLE: the files that the numbered steps of a recipe begin with, which may have * and NAME in them.
steps() {
    sed -n "/^### $1\$/,/^#/s/^[0-9][0-9]*\\. \`\\([^\`]*\\)\`.*/\\1/p" kernels/README.md
}

# follows TITLE [NAME]: the files changed since "$work/before" are those of the recipe; they are kept as "before".
follows() {
    steps "$1" | sed "s|NAME|${2:-}|" >"$work/steps"
    diff -rq "$work/before" . |
        sed 's|^Files .* and \./\(.*\) differ$|\1|; s|^Only in \./*\(.*\): |\1/|' >"$work/changed"
    : >"$work/odd"
    while IFS= read -r file; do
        found=
        while IFS= read -r step; do
            # shellcheck disable=SC2254 # a pattern
            case $file in $step) found=1 ;; esac
        done <"$work/steps"
        [ -n "$found" ] || echo "$file is not in the recipe" >>"$work/odd"
    done <"$work/changed"
    while IFS= read -r step; do
        found=
        while IFS= read -r file; do
            # shellcheck disable=SC2254 # a pattern
            case $file in $step) found=1 ;; esac
        done <"$work/changed"
        [ -n "$found" ] || echo "$step is in the recipe, but not needed" >>"$work/odd"
    done <"$work/steps"
    [ -s "$work/steps" ] || echo "no recipe" >>"$work/odd"
    none "the recipe '$1' names the files that it takes" "$(cat "$work/odd")"
}

# ---- a storage type: 32 signed bytes, last element first, and a half ----

put libhkfmt/hkfmt.h after 'HK_TYPE_NVFP4 = 0x63,' <<'END'
    HK_TYPE_DUMMY = 0x64,
END
put libhkfmt/tensor/type_list.h after '    X(NVFP4, ' <<'END'
    X(DUMMY, dummy, 0x64, 100, 32, SMALL, 1, d, d, qs) \
END
put libhkfmt/tensor/blocks.h before '#undef HK_BLOCK_SIZE' <<'END'
struct hk_dummy {
    uint8_t d[2];
    int8_t qs[32];
};
HK_BLOCK_SIZE(hk_dummy, 34);

END
cat >>libhkfmt/tensor/dequant_legacy.c <<'END'

void hk_decode_dummy(const uint8_t *restrict block, float *restrict y)
{
    const struct hk_dummy *b = (const void *)block;
    for (int j = 0; j < 32; j++)
        y[31 - j] = (float)b->qs[j] * hk_f16(le16(b->d));
}
END
put kernels/tmpl/unpack_small.h before '/* One block of 64 is two of S' <<'END'
static inline void unpack_dummy(const uint8_t *block, struct small *s)
{
    const struct hk_dummy *b = (const void *)block;
    s->d = le_half(b->d);
    for (int j = 0; j < 32; j++)
        s->v[31 - j] = b->qs[j];
}

END
put man/hk.5 after 'Ta 0x63 Ta nvfp4 Ta' <<'END'
.It \& Ta \& Ta \& Ta \& Ta 0x64 Ta dummy Ta 32 Ta 34
END
none 'the places that a storage type needs are there' "$(cat "$work/lost")"
follows 'A storage type'

# Names of the types that a file can hold, from the rows of the list.
types() {
    sed -n 's/^    X([A-Z0-9_]*, *\([a-z0-9_]*\), *0x[0-9a-f][0-9a-f],.*/\1/p' libhkfmt/tensor/type_list.h
}
none 'hk(5) has every storage type' "$(types | while IFS= read -r type; do
    grep -qE "(^|[^a-z0-9_])$type([^a-z0-9_]|\$)" man/hk.5 || echo "$type"
done)"
same 'each row of the list is a member of the public enum' "$(grep -c '^    X([A-Z]' libhkfmt/tensor/type_list.h)" \
    "$(grep -c '^ *HK_TYPE_[A-Z0-9_]* = ' libhkfmt/hkfmt.h)"

# ---- a kernel level, where levels of this processor's architecture have a folder ----

level=
if [ "$(uname -m)" = x86_64 ]; then
    rm -rf "$work/before"
    cp -r . "$work/before"
    level=dummy
    cat >kernels/x86/dummy.c <<'END'
/* The portable lanes once more, as a level of their own. */
#define HKK_LEVEL dummy
#define HKK_LEVEL_NAME "dummy"

#include "kernels/generic/vec.h"
#include "kernels/levels.h"
#include "kernels/tmpl/level.h"

#include "kernels/tmpl/math.h"

#include "kernels/tmpl/attend.h"
#include "kernels/tmpl/low_rank.h"
#include "kernels/tmpl/merge.h"
#include "kernels/tmpl/quantize.h"
#include "kernels/tmpl/rows.h"

#include "kernels/tmpl/route.h"

static size_t scratch_bytes_dummy(size_t cols, size_t n)
{
    return hkk_generic.scratch_bytes(cols, n);
}

#define HKK_PRODUCTS(X)
#include "kernels/tmpl/table.h"
END
    : >"$work/lost"
    put kernels/levels.h after 'extern const struct hkk_table hkk_generic' <<'END'
extern const struct hkk_table hkk_dummy;
END
    put kernels/cpu.c after '{"avx2", &hkk_avx2' <<'END'
        {"dummy", &hkk_dummy, NULL},
END
    # shellcheck disable=SC2016 # the text of a makefile
    put GNUmakefile after '$(B)/kernels/x86/avx2.o:' <<'END'
$(B)/kernels/x86/dummy.o: override CFLAGS += $(AVX2)
END
    none 'the places that a level needs are there' "$(cat "$work/lost")"
    follows 'A level' x86/dummy
else
    skip 'a kernel level' "no recipe is tried on $(uname -m)"
fi

# ---- what is built then ----

works 'the copy builds' make -s -j2 OPT=-O0 CC="$CC" B=out out/bin/hk-inspect out/bin/hk-dequant out/tests/test_kernels

qs=$(seq 1 32 | while read -r i; do printf '%02x' "$i"; done)
python3 tests/lib/mkhk.py "$work/x.hk" '{"tensors": [{"name": "x", "type": 100, "shape": [1, 32],
    "data": {"hex": "0038'"$qs"'"}}]}'
# shellcheck disable=SC2016 # a line for sh
works 'hk-inspect names the type' sh -c 'out/bin/hk-inspect "$0" | grep -qw dummy' "$work/x.hk"
same 'hk-dequant decodes it' "$(seq 32 -1 1 | awk '{ printf "%g ", $1 / 2 }')" \
    "$(out/bin/hk-dequant -o "$work/x.f32" "$work/x.hk" x 2>&1; od -An -v -tf4 "$work/x.f32" |
        awk '{ for (i = 1; i <= NF; i++) printf "%g ", $i }')"
out/tests/test_kernels --kernel matmul/dummy >"$work/tap" 2>&1
runs=$(out/tests/test_kernels --list | sed -n 's/^level \(.*\): runs$/\1/p')
same 'every level multiplies it' "$runs" "$(sed -n 's/^ok [0-9]* - \(.*\) matmul\/dummy$/\1/p' "$work/tap")"
if [ -n "$level" ]; then
    works 'the level runs' out/tests/test_kernels --level $level --kernel '[!am]*'
    works 'with the products of generic' out/tests/test_kernels --level $level --kernel 'matmul/q4_[0k]'
fi

finish
