/* box.h: a file in memory, made of hand-written sections, and the checks that its tensors decode to
 * what they should. */
#ifndef BOX_H
#define BOX_H

#include <string.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/name_index.h"
#include "libhkfmt/hk/file.h"
#include "tests/lib/tap.h"

/* Bytes grow by sections, which tensors then name. */
struct box {
    uint8_t *bytes;
    size_t size;
    struct hk_tensor tensors[4];
    struct hk_part part;
    struct hk_file file;
};

static inline void box_free(struct box *b)
{
    hk_index_free(&b->file.by_bytes);
    hk_index_free(&b->file.by_shape);
    free(b->bytes);
}

/* Append a section at an odd offset, so that nothing may rely on alignment. */
static inline uint64_t box_add(struct box *b, const void *p, size_t n)
{
    size_t at = b->size | 1;
    uint8_t *grown = realloc(b->bytes, at + n);
    if (grown == NULL)
        abort();
    memset(grown + b->size, 0xee, at - b->size);
    if (n > 0)
        memcpy(grown + at, p, n);
    b->bytes = grown;
    b->size = at + n;
    return at;
}

static inline struct hk_tensor *box_tensor(struct box *b, const char *name, unsigned type,
                                           unsigned ndim, const uint64_t *shape)
{
    struct hk_tensor *t = &b->tensors[b->file.tensor_count++];
    *t = (struct hk_tensor){
        .name = {(const uint8_t *)name, strlen(name)},
        .type = (uint16_t)type,
        .ndim = (uint8_t)ndim,
        .block_size = 32,
    };
    memcpy(t->shape, shape, ndim * sizeof *shape);
    return t;
}

static inline void box_data(struct box *b, struct hk_tensor *t, const void *p, size_t n)
{
    t->data_offset = box_add(b, p, n);
    t->data_size = n;
}

static inline void box_scales(struct box *b, struct hk_tensor *t, const void *p, size_t n)
{
    t->scale_offset = box_add(b, p, n);
    t->scale_size = n;
}

static inline void box_residual(struct box *b, struct hk_tensor *t, const void *p, size_t n)
{
    t->residual_offset = box_add(b, p, n);
    t->residual_size = n;
}

/* The bytes move to a block of their exact size, where a read past the end is seen. */
static inline const struct hk_file *box_file(struct box *b)
{
    uint8_t *exact = malloc(b->size > 0 ? b->size : 1);
    if (exact == NULL)
        abort();
    if (b->size > 0)
        memcpy(exact, b->bytes, b->size);
    free(b->bytes);
    b->bytes = exact;
    b->part = (struct hk_part){.map = exact, .size = b->size, .fd = -1};
    b->file.parts = &b->part;
    b->file.part_count = 1;
    b->file.tensors = b->tensors;
    if (hk_build_targets(&b->file, NULL) != HK_OK)
        abort();
    return &b->file;
}

static uint32_t random_state = 12345;
static inline uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static inline bool same(const float *a, const float *b, size_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

/* RANGES random ranges have the bits of the same elements read in one go. */
static inline bool ranges_agree(const struct hk_decoder *d, const float *whole, uint64_t elems,
                                int ranges)
{
    for (int i = 0; i < ranges; i++) {
        uint64_t first = random_u32() % (elems + 1);
        size_t n = (size_t)(random_u32() % (elems - first + 1));
        if (i % 2 == 1 && n > 9)
            n %= 9;
        float *part = malloc((n > 0 ? n : 1) * sizeof *part);
        if (part == NULL)
            abort();
        hk_decoder_read(d, first, n, part);
        bool good = n == 0 || same(part, whole + first, n);
        free(part);
        if (!good)
            return false;
    }
    return true;
}

/* Tensor number I of B decodes to WANT. */
static inline void expect(struct box *b, size_t i, const float *want, const char *what)
{
    const struct hk_file *f = box_file(b);
    const struct hk_tensor *t = &b->tensors[i];
    uint64_t n = hk_tensor_elems(t);
    struct hk_decoder *d = NULL;
    struct hk_error err = {.text = ""};
    float *y = malloc(n * sizeof *y + 1);
    if (y == NULL)
        abort();
    if (ok(hk_decoder_new(&d, f, t, &err) == HK_OK, "%s: opens %s", what, err.text)) {
        hk_decoder_read(d, 0, (size_t)n, y);
        ok(same(y, want, (size_t)n), "%s: values", what);
        ok(ranges_agree(d, want, n, 200), "%s: ranges", what);
        hk_decoder_free(&d);
    }
    ok(d == NULL, "%s: freed", what);
    free(y);
    box_free(b);
}

/* The only tensor of B is refused with STATUS and a message that has TEXT. */
static inline void expect_refusal(struct box *b, enum hk_status status, const char *text,
                                  const char *what)
{
    const struct hk_file *f = box_file(b);
    struct hk_decoder *d = NULL;
    struct hk_error err = {.text = ""};
    enum hk_status s = hk_decoder_new(&d, f, &b->tensors[0], &err);
    ok(s == status && strstr(err.text, text) != NULL && d == NULL, "%s: %s", what, err.text);
    ok(hk_decoder_new(&d, f, &b->tensors[0], NULL) == status, "%s: the same without an error",
       what);
    box_free(b);
}

/* N f32 as the file has them. */
static inline const uint8_t *stored(const float *v, size_t n)
{
    static uint8_t bytes[1 << 16];
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &v[i], sizeof u);
        put32(bytes + 4 * i, u);
    }
    return bytes;
}

#endif
