/* Compressed payloads over zlib. */
#include "libhkfmt/hk/compress.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "libhkfmt/base/le.h"

enum { CHUNK = 64 * 1024, SIZE_BYTES = 8 };

struct hk_deflater {
    z_stream z;
    uint64_t left; /* plain bytes still to come */
    hk_sink_fn *sink;
    void *arg;
    uint8_t out[CHUNK];
};

enum hk_status hk_deflater_new(struct hk_deflater **out, uint64_t size, hk_sink_fn *sink, void *arg,
                               struct hk_error *err)
{
    uint8_t head[SIZE_BYTES];
    struct hk_deflater *d = calloc(1, sizeof *d);
    if (d == NULL || deflateInit(&d->z, Z_DEFAULT_COMPRESSION) != Z_OK) {
        free(d);
        return hk_fail_nomem(err);
    }
    d->left = size;
    d->sink = sink;
    d->arg = arg;
    put64(head, size);
    enum hk_status st = sink(arg, head, sizeof head, err);
    if (st != HK_OK) {
        hk_deflater_free(&d);
        return st;
    }
    *out = d;
    return HK_OK;
}

void hk_deflater_free(struct hk_deflater **deflater)
{
    struct hk_deflater *d = *deflater;
    if (d == NULL)
        return;
    deflateEnd(&d->z);
    free(d);
    *deflater = NULL;
}

/* What is in z.next_in, to the sink as far as zlib lets go of it. */
static enum hk_status deflate_some(struct hk_deflater *d, int flush, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    do {
        d->z.next_out = d->out;
        d->z.avail_out = CHUNK;
        deflate(&d->z, flush); /* fails only where its state is not ours */
        const size_t made = CHUNK - d->z.avail_out;
        if (made > 0)
            st = d->sink(d->arg, d->out, made, err);
    } while (st == HK_OK && d->z.avail_out == 0);
    return st;
}

enum hk_status hk_deflater_write(struct hk_deflater *d, const void *p, size_t n,
                                 struct hk_error *err)
{
    const uint8_t *from = p;
    enum hk_status st = HK_OK;
    if (n > d->left)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a payload longer than was said");
    d->left -= n;
    while (st == HK_OK && n > 0) {
        const uInt some = n < CHUNK ? (uInt)n : CHUNK;
        d->z.next_in = (z_const Bytef *)(uintptr_t)from;
        d->z.avail_in = some;
        st = deflate_some(d, Z_NO_FLUSH, err);
        from += some;
        n -= some;
    }
    return st;
}

enum hk_status hk_deflater_end(struct hk_deflater **deflater, struct hk_error *err)
{
    struct hk_deflater *d = *deflater;
    enum hk_status st = HK_OK;
    if (d->left > 0)
        st = hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a payload %llu bytes shorter than was said",
                     (unsigned long long)d->left);
    if (st == HK_OK)
        st = deflate_some(d, Z_FINISH, err);
    hk_deflater_free(deflater);
    return st;
}

/* ---- reading ---- */

struct inflating {
    z_stream z;
    struct hk_bytes in; /* not given to zlib yet */
    uint64_t left;      /* plain bytes still expected */
    const struct hk_record *r;
    uint8_t out[CHUNK];
};

static enum hk_status refuse_zlib_stream(const struct hk_record *r, struct hk_error *err)
{
    return hk_fail(err, HK_E_FORMAT, r->data_offset,
                   "record '%.*s': compressed, but not as a zlib stream of the size it states",
                   HK_STR(r->name));
}

static void feed_inflater(struct inflating *s)
{
    if (s->z.avail_in > 0 || s->in.n == 0)
        return;
    const uInt some = s->in.n < INT_MAX ? (uInt)s->in.n : INT_MAX;
    s->z.next_in = (z_const Bytef *)(uintptr_t)s->in.p;
    s->z.avail_in = some;
    s->in.p += some;
    s->in.n -= some;
}

/* One chunk; *ENDED after the last. More than was stated is never written. */
static enum hk_status inflate_some(struct inflating *s, struct hk_out *out, bool *ended,
                                   struct hk_error *err)
{
    feed_inflater(s);
    s->z.next_out = s->out;
    s->z.avail_out = CHUNK;
    const int result = inflate(&s->z, Z_NO_FLUSH);
    const size_t made = CHUNK - s->z.avail_out;
    if (result == Z_MEM_ERROR)
        return hk_fail_nomem(err);
    if ((result != Z_OK && result != Z_STREAM_END) || made > s->left)
        return refuse_zlib_stream(s->r, err);
    s->left -= made;
    *ended = result == Z_STREAM_END;
    if (*ended && (s->left > 0 || s->z.avail_in > 0 || s->in.n > 0))
        return refuse_zlib_stream(s->r, err);
    return made > 0 ? hk_out_write(out, s->out, made, err) : HK_OK;
}

static enum hk_status inflate_all(const struct hk_record *r, struct hk_bytes data,
                                  struct hk_out *out, struct hk_error *err)
{
    struct inflating *s = calloc(1, sizeof *s);
    if (s == NULL || inflateInit(&s->z) != Z_OK) {
        free(s);
        return hk_fail_nomem(err);
    }
    s->r = r;
    s->left = le64(data.p);
    s->in = (struct hk_bytes){data.p + SIZE_BYTES, data.n - SIZE_BYTES};
    enum hk_status st = HK_OK;
    for (bool ended = false; st == HK_OK && !ended;)
        st = inflate_some(s, out, &ended, err);
    inflateEnd(&s->z);
    free(s);
    return st;
}

size_t hk_inflate_start(const struct hk_file *f, const struct hk_record *r, uint8_t *to, size_t n)
{
    z_stream z = {0};
    struct hk_bytes data = hk_record_data(f, r);
    if (data.n < SIZE_BYTES || inflateInit(&z) != Z_OK)
        return 0;
    data = (struct hk_bytes){data.p + SIZE_BYTES, data.n - SIZE_BYTES};
    z.next_in = (z_const Bytef *)(uintptr_t)data.p;
    z.avail_in = data.n < UINT_MAX ? (uInt)data.n : UINT_MAX;
    z.next_out = to;
    z.avail_out = n < UINT_MAX ? (uInt)n : UINT_MAX;
    (void)inflate(&z, Z_SYNC_FLUSH);
    inflateEnd(&z);
    return (size_t)(z.next_out - to);
}

enum hk_status hk_record_write(const struct hk_file *f, size_t i, struct hk_out *out,
                               struct hk_error *err)
{
    const struct hk_record *r = hk_record_at(f, i);
    if (r == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET, "no record %zu", i);
    const struct hk_bytes data = hk_record_data(f, r);
    if ((r->flags & HK_RECORD_COMPRESSED) == 0)
        return hk_out_write(out, data.p, data.n, err);
    if (data.n < SIZE_BYTES)
        return refuse_zlib_stream(r, err);
    return inflate_all(r, data, out, err);
}
