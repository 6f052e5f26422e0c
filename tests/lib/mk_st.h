/* mk_st.h: safetensors files in memory for the tests. */
#ifndef MK_ST_H
#define MK_ST_H

#include "libhkfmt/safetensors/st.h"
#include "tests/lib/mk_gguf.h"

static inline struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

static inline bool equal(struct hk_bytes a, struct hk_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* A file of header JSON and DATA bytes that count from 0. */
static inline struct mk make(struct hk_bytes json, size_t data)
{
    struct mk m = {0};
    mk_int(&m, json.n, 8);
    mk_bytes(&m, json.p, json.n);
    for (size_t i = 0; i < data; i++)
        mk_int(&m, i, 1);
    return m;
}

static inline enum hk_status open_json(struct hk_file **f, struct hk_bytes json, size_t data,
                                       struct hk_error *err)
{
    struct mk m = make(json, data);
    *f = NULL;
    *err = (struct hk_error){0};
    enum hk_status status = mk_open(f, m.p, m.n, err);
    mk_free(&m);
    return status;
}

#endif
