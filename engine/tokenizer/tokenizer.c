/* A tokenizer as a whole: building it from a file's metadata, and what it says of its vocabulary.
 */
#include "engine/tokenizer/tokenizer.h"

#include <stdlib.h>

#include "engine/tokenizer/tok.h"

/* The kind of tokenizer.ggml.model. *NAMED false: the file has no such key. */
static enum hk_status find_kind(const struct hk_file *f, enum hk_vocab_kind *kind, bool *named,
                                struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_MODEL);
    *named = kv != NULL;
    *kind = HK_VOCAB_SPM;
    if (kv == NULL)
        return HK_OK;
    struct hk_bytes name;
    enum hk_status st = hk_kv_string(kv, &name, err);
    if (st != HK_OK)
        return st;
    *kind = hk_vocab_kind(name);
    if (*kind == HK_VOCAB_OTHER)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "%s: unknown tokenizer \"%.*s\"",
                       hk_vocab_key(HK_VOCAB_MODEL), HK_STR(name));
    return HK_OK;
}

/* Only a key of our own asks for a normalisation: GGUF has none that does, so that the ids from a
 * GGUF are those that other programs take from it, even where its source normalised (Qwen). */
static enum hk_status load_normalizer(struct hke_tokenizer *t, const struct hk_file *f,
                                      struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_NORMALIZER);
    struct hk_bytes name;
    if (kv == NULL)
        return HK_OK;
    enum hk_status st = hk_kv_string(kv, &name, err);
    if (st != HK_OK)
        return st;
    if (!hk_bytes_are(name, "nfc"))
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "%s: unknown normalisation \"%.*s\"",
                       hk_vocab_key(HK_VOCAB_NORMALIZER), HK_STR(name));
    t->nfc = true;
    return HK_OK;
}

static enum hk_status build(struct hke_tokenizer *t, const struct hk_file *f, struct hk_error *err)
{
    bool named;
    enum hk_status st = find_kind(f, &t->kind, &named, err);
    if (st != HK_OK)
        return st;
    t->add_bos = t->kind == HK_VOCAB_SPM;
    if (t->kind == HK_VOCAB_BPE && (st = hke_tok_pre_load(t, f, err)) != HK_OK)
        return st;
    if ((st = hke_tok_vocab_load(t, f, err)) != HK_OK)
        return st;
    if (!named)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "%s: the file does not say what tokenizer it has",
                       hk_vocab_key(HK_VOCAB_MODEL));
    if ((st = hke_tok_text_build(t, err)) != HK_OK ||
        (st = hke_tok_flags_load(t, f, err)) != HK_OK ||
        (st = load_normalizer(t, f, err)) != HK_OK || (st = hke_tok_added_build(t, err)) != HK_OK)
        return st;
    st = t->kind == HK_VOCAB_SPM ? hke_tok_spm_load(t, f, err) : hke_tok_bpe_load(t, f, err);
    if (st == HK_OK)
        hke_tok_find_cuts(t);
    return st;
}

enum hk_status hke_tokenizer_new(struct hke_tokenizer **out, const struct hk_file *f,
                                 struct hk_error *err)
{
    struct hke_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return hk_fail_nomem(err);
    for (unsigned b = 0; b < 256; b++)
        t->byte[b] = TOK_NONE;
    enum hk_status st = build(t, f, err);
    if (st == HK_OK)
        *out = t;
    else
        hke_tokenizer_free(&t);
    return st;
}

static void free_strings(struct tok_strings *s)
{
    free(s->p);
    free(s->off);
}

void hke_tokenizer_free(struct hke_tokenizer **pt)
{
    struct hke_tokenizer *t = *pt;
    if (t == NULL)
        return;
    free_strings(&t->piece);
    free_strings(&t->text);
    free(t->type);
    free(t->ends);
    free(t->flags);
    for (size_t i = 0; i < 2; i++) {
        free(t->added[i].one);
        free(t->added[i].own);
    }
    free(t->rank);
    free(t->merges.slot);
    hke_tok_table_free(&t->words);
    hke_tok_pre_free(&t->pre);
    free(t);
    *pt = NULL;
}

uint32_t hke_vocab_size(const struct hke_tokenizer *t)
{
    return t->piece.n;
}

int64_t hke_bos(const struct hke_tokenizer *t)
{
    return t->bos;
}

int64_t hke_eos(const struct hke_tokenizer *t)
{
    return t->eos;
}

bool hke_adds_bos(const struct hke_tokenizer *t)
{
    return t->add_bos && t->bos >= 0;
}

bool hke_adds_eos(const struct hke_tokenizer *t)
{
    return t->add_eos && t->eos >= 0;
}

bool hke_is_end_token(const struct hke_tokenizer *t, uint32_t id)
{
    return id < t->piece.n && t->ends[id];
}

enum hk_token_type hke_token_type(const struct hke_tokenizer *t, uint32_t id)
{
    return t->type[id];
}

struct hk_bytes hke_token_piece(const struct hke_tokenizer *t, uint32_t id)
{
    return tok_string(&t->piece, id);
}

struct hk_bytes hke_token_bytes(const struct hke_tokenizer *t, uint32_t id)
{
    return tok_string(&t->text, id);
}
