/* Unicode normalisation form C, a stretch at a time: what is in the form already, nearly all text,
 * is neither decoded nor copied. Bytes that are not UTF-8 stay as they are. */
#include "engine/tokenizer/nfc.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "libhkfmt/base/grow.h"
#include "libhkfmt/hkmodel.h"

/* Characters that are their own normal form and never combine with one before them, so that a new
 * stretch may begin at each. Not all there are: the ranges that fill most texts. */
static const struct {
    uint32_t first, last;
} stable[] = {
    {0x0000, 0x02ff}, {0x0388, 0x03ff}, {0x0400, 0x0482}, {0x048a, 0x052f},   {0x2002, 0x20cf},
    {0x2190, 0x2328}, {0x3000, 0x3029}, {0x3041, 0x3096}, {0x30a1, 0x30fa},   {0x30fc, 0x30fc},
    {0x3400, 0x9fff}, {0xac00, 0xd7a3}, {0xff00, 0xffef}, {0x1f000, 0x1faff},
};

bool hke_is_stable_char(uint32_t c)
{
    if (c <= stable[0].last)
        return true;
    for (size_t i = 1; i < sizeof stable / sizeof *stable; i++) {
        if (c <= stable[i].last)
            return c >= stable[i].first;
    }
    return false;
}

/* Length of the stretch at P: characters up to the next stable one, or one byte that is no
 * character. *DONE: it is in the form as it stands. */
static size_t measure_stretch(const uint8_t *p, const uint8_t *end, bool *done)
{
    size_t n = 0;
    *done = true;
    while (p + n < end) {
        unsigned len = hk_utf8_length(p + n, end);
        if (len == 0)
            return n > 0 ? n : 1;
        bool is_stable = hke_is_stable_char(hk_utf8_code(p + n, len));
        if (is_stable && n > 0)
            return n;
        *done &= is_stable;
        n += len;
    }
    return n;
}

static bool append_normal(struct tok_nfc *x, const uint8_t *p, size_t n)
{
    if (n == 0)
        return true;
    if (!hk_grow(&x->text, &x->capacity, x->n + n, 1))
        return false;
    memcpy(x->text + x->n, p, n);
    x->n += n;
    return true;
}

/* Decompose a stretch of characters into X->code. */
static bool decompose_stretch(struct tok_nfc *x, const uint8_t *p, size_t n)
{
    enum { LONGEST = 4 }; /* code points of one canonical decomposition */
    x->codes = 0;
    for (size_t i = 0; i < n;) {
        unsigned len = hk_utf8_length(p + i, p + n);
        int32_t code = (int32_t)hk_utf8_code(p + i, len);
        if (!hk_grow(&x->code, &x->code_room, x->codes + LONGEST, sizeof *x->code))
            return false;
        utf8proc_ssize_t k = utf8proc_decompose_char(
            code, x->code + x->codes, LONGEST, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &(int){0});
        if (k < 1 || k > LONGEST) /* cannot be: the character is well formed */
            x->code[x->codes + (size_t)(k = 1) - 1] = code;
        x->codes += (size_t)k;
        i += len;
    }
    return true;
}

static unsigned combining_class_of(int32_t code)
{
    return (unsigned)utf8proc_get_property(code)->combining_class;
}

static int compare_mark_keys(const void *pa, const void *pb)
{
    uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return (a > b) - (a < b);
}

/* Put the N combining marks at CODE in the order of their classes, equal ones as they were. A text
 * may be one long run of marks, so this sorts where utf8proc's own ordering moves one at a time. */
static bool order_marks(struct tok_nfc *x, int32_t *code, size_t n)
{
    if (!hk_grow(&x->key, &x->key_room, n, sizeof *x->key))
        return false;
    for (size_t i = 0; i < n; i++) /* 8 bits of class, 35 of position, 21 of code point */
        x->key[i] =
            (uint64_t)combining_class_of(code[i]) << 56 | (uint64_t)i << 21 | (uint32_t)code[i];
    qsort(x->key, n, sizeof *x->key, compare_mark_keys);
    for (size_t i = 0; i < n; i++)
        code[i] = (int32_t)(x->key[i] & 0x1fffff);
    return true;
}

static bool order_stretch(struct tok_nfc *x)
{
    for (size_t i = 0; i < x->codes;) {
        size_t j = i;
        while (j < x->codes && combining_class_of(x->code[j]) != 0)
            j++;
        if (j > i + 1 && !order_marks(x, x->code + i, j - i))
            return false;
        i = j > i ? j : i + 1;
    }
    return true;
}

static bool append_composed(struct tok_nfc *x, const uint8_t *p, size_t n)
{
    if (!decompose_stretch(x, p, n) || !order_stretch(x))
        return false;
    utf8proc_ssize_t k = utf8proc_normalize_utf32(x->code, (utf8proc_ssize_t)x->codes,
                                                  UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        uint8_t c[4];
        if (!append_normal(x, c, (size_t)utf8proc_encode_char(x->code[i], c)))
            return false;
    }
    return true;
}

/* P moved forward over ASCII, but for the last such byte, which a mark may follow. */
static const uint8_t *skip_ascii_run(const uint8_t *p, const uint8_t *end)
{
    uint64_t word;
    for (; end - p > 8; p += 8) {
        memcpy(&word, p + 1, 8);
        if ((word & 0x8080808080808080u) != 0)
            break;
    }
    while (end - p > 1 && p[1] < 0x80)
        p++;
    return p;
}

bool hke_normalise(struct tok_nfc *x, struct hk_bytes text, struct hk_bytes *out)
{
    const uint8_t *p = text.p, *end = p + text.n, *from = p;
    x->n = 0;
    *out = text;
    bool changed = false;
    while (p < end) {
        if (*p < 0x80)
            p = skip_ascii_run(p, end);
        bool done;
        size_t n = measure_stretch(p, end, &done);
        if (!done) {
            if (!append_normal(x, from, (size_t)(p - from)) || !append_composed(x, p, n))
                return false;
            from = p + n;
            changed = true;
        }
        p += n;
    }
    if (changed) {
        if (!append_normal(x, from, (size_t)(end - from)))
            return false;
        *out = (struct hk_bytes){x->text, x->n};
    }
    return true;
}

void hke_nfc_free(struct tok_nfc *x)
{
    free(x->text);
    free(x->code);
    free(x->key);
    *x = (struct tok_nfc){0};
}
