/* Knuth, Morris and Pratt's search, for each string on its own. What is held back is the longest
 * beginning of a string that the text ends with, so the string itself is the buffer. */
#include "engine/sample/stop.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/grow.h"

struct pattern {
    uint8_t *p;
    size_t n;
    size_t *shorter; /* [m]: where m bytes match, the next smaller number that do; for m >= 1 */
    size_t match;    /* bytes that the text ends with; below n, as the search ends at n */
};

struct hke_stop {
    struct pattern *pattern;
    size_t count;
    const struct pattern *holder; /* whose beginning is held back; NULL: nothing */
    size_t held;
    bool found;
};

/* ---- setting up ---- */

/* Length of the match after one more byte. */
static size_t advance_match(const struct pattern *p, size_t match, uint8_t byte)
{
    while (p->p[match] != byte) {
        if (match == 0)
            return 0;
        match = p->shorter[match];
    }
    return match + 1;
}

static enum hk_status prepare_pattern(struct pattern *p, struct hk_bytes string,
                                      struct hk_error *err)
{
    if (string.n == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "an empty stop string");
    p->n = string.n;
    p->p = malloc(p->n);
    p->shorter = calloc(p->n, sizeof *p->shorter);
    if (p->p == NULL || p->shorter == NULL)
        return hk_fail_nomem(err);
    memcpy(p->p, string.p, p->n);
    for (size_t m = 1, match = 0; m < p->n; m++) {
        p->shorter[m] = match;
        match = advance_match(p, match, p->p[m]);
    }
    return HK_OK;
}

enum hk_status hke_stop_new(struct hke_stop **out, const struct hk_bytes *string, size_t count,
                            struct hk_error *err)
{
    struct hke_stop *s = calloc(1, sizeof *s);
    if (s == NULL)
        return hk_fail_nomem(err);
    s->pattern = calloc(count > 0 ? count : 1, sizeof *s->pattern);
    enum hk_status st = s->pattern == NULL ? hk_fail_nomem(err) : HK_OK;
    for (size_t i = 0; i < count && st == HK_OK; i++) {
        s->count++;
        st = prepare_pattern(&s->pattern[i], string[i], err);
    }
    if (st != HK_OK)
        hke_stop_free(&s);
    else
        *out = s;
    return st;
}

void hke_stop_free(struct hke_stop **s)
{
    if (*s == NULL)
        return;
    for (size_t i = 0; i < (*s)->count; i++) {
        free((*s)->pattern[i].p);
        free((*s)->pattern[i].shorter);
    }
    free((*s)->pattern);
    free(*s);
    *s = NULL;
}

/* ---- the search ---- */

static enum hk_status reserve_text(struct hke_text *t, size_t more, struct hk_error *err)
{
    size_t need;
    if (__builtin_add_overflow(t->n, more, &need) || !hk_grow(&t->p, &t->capacity, need, 1))
        return hk_fail_nomem(err);
    return HK_OK;
}

static void append_reserved(struct hke_text *t, const uint8_t *p, size_t n)
{
    if (n > 0)
        memcpy(t->p + t->n, p, n);
    t->n += n;
}

/* Of what was held back and BYTE, append all but the last KEEP bytes. */
static void release_held(const struct hke_stop *s, uint8_t byte, size_t keep, struct hke_text *out)
{
    size_t n = s->held + 1 - keep;
    append_reserved(out, s->held > 0 ? s->holder->p : NULL, n < s->held ? n : s->held);
    if (n > s->held)
        append_reserved(out, &byte, 1);
}

static void take_byte(struct hke_stop *s, uint8_t byte, struct hke_text *out)
{
    const struct pattern *holder = NULL;
    size_t longest = 0, whole = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct pattern *p = &s->pattern[i];
        p->match = advance_match(p, p->match, byte);
        if (p->match == p->n && p->n > whole)
            whole = p->n;
        if (p->match > longest) {
            longest = p->match;
            holder = p;
        }
    }
    s->found = whole > 0;
    release_held(s, byte, s->found ? whole : longest, out);
    s->holder = holder;
    s->held = s->found ? 0 : longest;
}

enum hk_status hke_stop_push(struct hke_stop *s, struct hk_bytes text, struct hke_text *out,
                             struct hk_error *err)
{
    enum hk_status st = reserve_text(out, s->held + text.n, err);
    for (size_t i = 0; i < text.n && st == HK_OK && !s->found; i++)
        take_byte(s, text.p[i], out);
    return st;
}

bool hke_stop_found(const struct hke_stop *s)
{
    return s->found;
}

enum hk_status hke_stop_end(struct hke_stop *s, struct hke_text *out, struct hk_error *err)
{
    enum hk_status st = reserve_text(out, s->held, err);
    if (st == HK_OK && s->held > 0) {
        append_reserved(out, s->holder->p, s->held);
        s->held = 0;
    }
    return st;
}
