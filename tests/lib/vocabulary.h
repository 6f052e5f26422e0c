/* vocabulary.h: makes .hk files of tokenizer metadata in memory, and their tokenizers. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/tokenizer/tokenizer.h"
#include "libhkfmt/base/le.h"
#include "tests/lib/tap.h"

#define BLANK "\xe2\x96\x81" /* U+2581 */

__attribute__((unused)) static struct hk_bytes str(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

__attribute__((unused)) static void check(enum hk_status s, const struct hk_error *err)
{
    if (s != HK_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

__attribute__((unused)) static void set(struct hk_writer *w, const char *key,
                                        enum hk_meta_type type, struct hk_bytes v)
{
    struct hk_error err;
    check(hk_writer_set(w, str(key), type, v, &err), &err);
}

__attribute__((unused)) static void set_strings(struct hk_writer *w, const char *key,
                                                const char *const *s, uint32_t n)
{
    static uint8_t blob[1 << 16];
    uint8_t *data = blob + 8 + 4 * ((size_t)n + 1);
    uint32_t at = 0;
    put32(blob, HK_ARRAY_STRING);
    put32(blob + 4, n);
    for (uint32_t i = 0; i < n; i++) {
        put32(blob + 8 + 4 * (size_t)i, at);
        memcpy(data + at, s[i], strlen(s[i]));
        at += (uint32_t)strlen(s[i]);
    }
    put32(blob + 8 + 4 * (size_t)n, at);
    set(w, key, HK_META_BYTES, (struct hk_bytes){blob, (size_t)(data - blob) + at});
}

/* 32-bit words: integers, or the bits of floats. */
__attribute__((unused)) static void set_words(struct hk_writer *w, const char *key,
                                              enum hk_array_kind kind, const void *words,
                                              uint32_t n)
{
    static uint8_t blob[1 << 14];
    put32(blob, kind);
    put32(blob + 4, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, (const uint8_t *)words + 4 * (size_t)i, 4);
        put32(blob + 8 + 4 * (size_t)i, v);
    }
    set(w, key, HK_META_BYTES, (struct hk_bytes){blob, 8 + 4 * (size_t)n});
}

__attribute__((unused)) static void set_int(struct hk_writer *w, const char *key, int64_t v)
{
    struct hk_error err;
    check(hk_writer_set_int(w, key, v, &err), &err);
}

__attribute__((unused)) static void set_bool(struct hk_writer *w, const char *key, bool v)
{
    uint8_t b = v;
    set(w, key, HK_META_BOOL, (struct hk_bytes){&b, 1});
}

__attribute__((unused)) static struct hk_writer *begin(void)
{
    struct hk_writer *w = NULL;
    struct hk_error err;
    check(hk_writer_new(&w, NULL, &err), &err);
    return w;
}

/* Finish the file in memory; a descriptor of it. */
__attribute__((unused)) static int finish_fd(struct hk_writer *w)
{
    int fd = memfd_create("vocabulary", 0);
    struct hk_out *out = NULL;
    struct hk_error err;
    check(hk_out_fd(&out, fd, &err), &err);
    check(hk_writer_begin(w, out, &err), &err);
    check(hk_writer_finish(w, &err), &err);
    check(hk_out_commit(&out, &err), &err);
    hk_writer_free(&w);
    return fd;
}

/* Finish the file and make its tokenizer. */
__attribute__((unused)) static enum hk_status finish(struct hk_writer *w, struct hke_tokenizer **t,
                                                     struct hk_error *err)
{
    int fd = finish_fd(w);
    struct hk_file *f = NULL;
    check(hk_open_fd(&f, fd, err), err);
    enum hk_status s = hke_tokenizer_new(t, f, err);
    hk_close(&f);
    close(fd);
    return s;
}

__attribute__((unused)) static struct hke_tokenizer *made(struct hk_writer *w)
{
    struct hke_tokenizer *t = NULL;
    struct hk_error err;
    if (finish(w, &t, &err) != HK_OK)
        printf("# %s\n", err.text);
    return t;
}

#endif
