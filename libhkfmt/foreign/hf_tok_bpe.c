/* Byte-level BPE vocabularies: what the engine does of the model's settings, and the merges. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/foreign/hf_tok.h"

static enum hk_status unsupported(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.json: %s", what);
}

static bool is_empty(const json_t *model, const char *key)
{
    const json_t *v = json_object_get(model, key);
    return v == NULL || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0);
}

/* A boolean of the model, false where there is none. */
static enum hk_status read_bool(const struct hk_tok *t, const json_t *model, const char *key,
                                bool *out)
{
    const json_t *v = json_object_get(model, key);
    if (v != NULL && !json_is_boolean(v) && !json_is_null(v))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "tokenizer.json: model.%s is no boolean",
                       key);
    *out = json_is_true(v);
    return HK_OK;
}

enum hk_status hk_tok_check_bpe(struct hk_tok *t)
{
    const json_t *model = json_object_get(t->json, "model");
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return unsupported(t, "model.dropout: merging at random");
    if (!is_empty(model, "continuing_subword_prefix"))
        return unsupported(t, "model.continuing_subword_prefix");
    if (!is_empty(model, "end_of_word_suffix"))
        return unsupported(t, "model.end_of_word_suffix");
    return read_bool(t, model, "ignore_merges", &t->ignore_merges);
}

bool hk_tok_has_bytes(const struct hk_tok *t)
{
    return json_is_true(json_object_get(json_object_get(t->json, "model"), "byte_fallback"));
}

/* "left right" for each merge, in the order of the list, into TEXT; AT has where each begins. */
static bool spell(const struct hk_tok *t, const struct hk_tok_merges *m, struct hk_bytes *line,
                  struct hk_buf *text)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct hk_bytes left = t->token[m->merge[i].left].piece,
                        right = t->token[m->merge[i].right].piece;
        hk_buf_put(text, left.p, left.n);
        hk_buf_text(text, " ");
        hk_buf_put(text, right.p, right.n);
        line[m->merge[i].rank].n = left.n + right.n + 1;
    }
    const uint8_t *p = text->p;
    for (uint32_t i = 0; i < m->count && !text->failed; i++) {
        struct hk_bytes *b = &line[m->merge[i].rank];
        b->p = p;
        p += b->n;
    }
    return !text->failed;
}

static enum hk_status check_blanks(const struct hk_tok *t, const struct hk_tok_merges *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct hk_bytes piece = t->token[m->merge[i].id].piece;
        if (memchr(piece.p, ' ', piece.n) != NULL)
            return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "tokenizer.json: model.merges: merge %u makes \"%.*s\", which has a "
                           "blank",
                           m->merge[i].rank, HK_STR(piece));
    }
    return HK_OK;
}

static enum hk_status put_merges(struct hk_tok *t, const struct hk_tok_merges *m)
{
    enum hk_status s = check_blanks(t, m);
    if (s != HK_OK)
        return s;
    struct hk_bytes *line = calloc((size_t)m->count + 1, sizeof *line);
    struct hk_buf text = {0};
    if (line != NULL && spell(t, m, line, &text))
        hk_kvlist_strings(t->out, "tokenizer.ggml.merges", line, m->count);
    else
        s = hk_fail_nomem(t->err);
    hk_buf_free(&text);
    free(line);
    return s;
}

enum hk_status hk_tok_read_bpe(struct hk_tok *t)
{
    struct hk_tok_merges m = {0};
    hk_kvlist_text(t->out, "tokenizer.ggml.model", "gpt2");
    enum hk_status s = hk_tok_put_pre(t);
    if (s == HK_OK)
        s = hk_tok_read_merges(t, &m);
    if (s == HK_OK)
        s = hk_tok_read_added(t);
    if (s == HK_OK)
        s = hk_tok_put_vocab(t);
    if (s == HK_OK)
        s = put_merges(t, &m);
    if (s == HK_OK)
        hk_kvlist_bool(t->out, "tokenizer.ggml.ignore_merges", t->ignore_merges);
    free(m.merge);
    return s;
}
