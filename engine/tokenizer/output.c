/* What encoding a text gives, and how much work it may take. */
#include "engine/tokenizer/output.h"

#include "libhkfmt/base/grow.h"

enum hk_status hke_emit_token(struct tok_output *o, uint32_t id)
{
    struct hke_ids *out = o->ids;
    if (!hk_grow(&out->id, &out->capacity, out->n + 1, sizeof *out->id))
        return hk_fail_nomem(o->err);
    out->id[out->n++] = id;
    return HK_OK;
}

enum hk_status hke_emit_bytes(struct tok_output *o, const uint8_t *p, size_t n)
{
    const struct hke_tokenizer *t = o->t;
    for (size_t i = 0; i < n; i++) {
        if (t->byte[p[i]] != TOK_NONE)
            continue;
        if (t->kind == HK_VOCAB_SPM && t->unk >= 0)
            return hke_emit_token(o, (uint32_t)t->unk);
        return hk_fail(o->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "text: the vocabulary has no token for byte 0x%02x", p[i]);
    }
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < n && st == HK_OK; i++)
        st = hke_emit_token(o, t->byte[p[i]]);
    return st;
}

enum hk_status hke_check_work(const struct tok_output *o, const char *what)
{
    return o->work <= o->budget ? HK_OK
                                : hk_fail(o->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                                          "%s: too much work for a text of this length", what);
}
