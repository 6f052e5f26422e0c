/* Token ids to text, at once or as a stream of whole characters. */
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "libhkfmt/base/grow.h"

static enum hk_status append_to_text(struct hke_text *out, const uint8_t *p, size_t n,
                                     struct hk_error *err)
{
    if (n == 0)
        return HK_OK;
    if (!hk_grow(&out->p, &out->capacity, out->n + n, 1))
        return hk_fail_nomem(err);
    memcpy(out->p + out->n, p, n);
    out->n += n;
    return HK_OK;
}

/* Whether TEXT of token ID begins with the space that encoding put before the text. */
static bool has_dummy_prefix(const struct hke_tokenizer *t, uint32_t id, struct hk_bytes text)
{
    return t->kind == HK_VOCAB_SPM && t->space_prefix && t->type[id] == HK_TOKEN_NORMAL &&
           text.n > 0 && text.p[0] == ' ';
}

/* What ID adds to the text of S. */
static enum hk_status take_token_text(struct hke_stream *s, uint32_t id, struct hk_bytes *text,
                                      struct hk_error *err)
{
    const struct hke_tokenizer *t = s->t;
    if (id >= t->text.n)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "token %u is outside the vocabulary of %u",
                       id, t->text.n);
    *text = tok_string(&t->text, id);
    bool hidden = t->type[id] == HK_TOKEN_CONTROL || t->type[id] == HK_TOKEN_UNKNOWN;
    if (hidden && (s->options & HKE_SHOW_SPECIAL) == 0) {
        text->n = 0;
        return HK_OK;
    }
    if (!s->started && has_dummy_prefix(t, id, *text)) {
        text->p++;
        text->n--;
    }
    s->started = true;
    return HK_OK;
}

void hke_stream_start(struct hke_stream *s, const struct hke_tokenizer *t, unsigned options)
{
    *s = (struct hke_stream){.t = t, .options = options, .started = (options & HKE_CONTINUE) != 0};
}

enum hk_status hke_stream_push(struct hke_stream *s, uint32_t id, struct hke_text *out,
                               struct hk_error *err)
{
    struct hk_bytes text;
    size_t before = out->n;
    enum hk_status st = take_token_text(s, id, &text, err);
    if (st != HK_OK || (st = append_to_text(out, s->hold, s->held, err)) != HK_OK)
        return st;
    if ((st = append_to_text(out, text.p, text.n, err)) != HK_OK) {
        out->n = before;
        return st;
    }
    s->held = out->n > before ? hk_utf8_unfinished(out->p + before, out->n - before) : 0;
    out->n -= s->held;
    if (s->held > 0)
        memcpy(s->hold, out->p + out->n, s->held);
    return HK_OK;
}

enum hk_status hke_stream_end(struct hke_stream *s, struct hke_text *out, struct hk_error *err)
{
    enum hk_status st = append_to_text(out, s->hold, s->held, err);
    if (st == HK_OK)
        s->held = 0;
    return st;
}

enum hk_status hke_decode(const struct hke_tokenizer *t, const uint32_t *id, size_t n,
                          unsigned options, struct hke_text *out, struct hk_error *err)
{
    struct hke_stream s;
    size_t before = out->n;
    hke_stream_start(&s, t, options);
    for (size_t i = 0; i < n; i++) {
        struct hk_bytes text;
        enum hk_status st = take_token_text(&s, id[i], &text, err);
        if (st == HK_OK)
            st = append_to_text(out, text.p, text.n, err);
        if (st != HK_OK) {
            out->n = before;
            return st;
        }
    }
    return HK_OK;
}

void hke_text_free(struct hke_text *text)
{
    free(text->p);
    *text = (struct hke_text){0};
}
