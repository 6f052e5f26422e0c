/* Building a tokenizer from a file's metadata. */
#include <stdlib.h>

#include "engine/tokenizer/added.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/cut.h"
#include "engine/tokenizer/split.h"
#include "engine/tokenizer/spm.h"
#include "engine/tokenizer/tokenizer.h"

/* The kind of tokenizer.ggml.model. *NAMED false: the file has no such key. */
static enum hk_status load_vocab_kind(const struct hk_file *f, enum hk_vocab_kind *kind,
                                      bool *named, struct hk_error *err)
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

static enum hk_status build_tokenizer(struct hke_tokenizer *t, const struct hk_file *f,
                                      struct hk_error *err)
{
    bool named;
    enum hk_status st = load_vocab_kind(f, &t->kind, &named, err);
    if (st != HK_OK)
        return st;
    t->add_bos = t->kind == HK_VOCAB_SPM;
    if (t->kind == HK_VOCAB_BPE && (st = hke_load_splits(t, f, err)) != HK_OK)
        return st;
    if ((st = hke_load_vocabulary(t, f, err)) != HK_OK)
        return st;
    if (!named)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "%s: the file does not say what tokenizer it has",
                       hk_vocab_key(HK_VOCAB_MODEL));
    if ((st = hke_load_token_texts(t, err)) != HK_OK ||
        (st = hke_load_added_flags(t, f, err)) != HK_OK ||
        (st = load_normalizer(t, f, err)) != HK_OK || (st = hke_index_added(t, err)) != HK_OK)
        return st;
    st = t->kind == HK_VOCAB_SPM ? hke_load_spm(t, f, err) : hke_load_bpe(t, f, err);
    if (st == HK_OK)
        hke_find_cuts(t);
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
    enum hk_status st = build_tokenizer(t, f, err);
    if (st == HK_OK)
        *out = t;
    else
        hke_tokenizer_free(&t);
    return st;
}

static void free_string_list(struct tok_strings *s)
{
    free(s->p);
    free(s->off);
}

void hke_tokenizer_free(struct hke_tokenizer **pt)
{
    struct hke_tokenizer *t = *pt;
    if (t == NULL)
        return;
    free_string_list(&t->piece);
    free_string_list(&t->text);
    free(t->type);
    free(t->ends);
    free(t->flags);
    for (size_t i = 0; i < 2; i++) {
        free(t->added[i].one);
        free(t->added[i].own);
    }
    free(t->rank);
    free(t->merges.slot);
    hke_free_string_index(&t->words);
    hke_free_splits(&t->splits);
    free(t);
    *pt = NULL;
}
