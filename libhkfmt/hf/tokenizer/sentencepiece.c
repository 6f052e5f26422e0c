/* SentencePiece's BPE in Hugging Face's form: a model with byte_fallback whose normalizer spells
 * spaces U+2581. Its merges become the scores by which the engine merges.
 *
 * The engine joins the neighbours whose joined text has the best score, whatever they are; this
 * model only those that its list names. Both do the same if of each piece's own text the list
 * makes that piece, the score being the rank of the last merge: what neighbours stand next to each
 * other with the text of a piece, in any text, they do so too when that piece stands alone, since
 * merges inside it happen in the same order. It is also good if the text of a piece never comes
 * down to two neighbours, for then neither joins them. Any other vocabulary is refused. */
#include "libhkfmt/hf/tokenizer/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/tokenizer/merges.h"
#include "libhkfmt/hf/tokenizer/model_file.h"

enum { MAX_CHARS = 1024, MAX_MERGES = 1 << 24 };
/* Looks at neighbours that all pieces together may take: a file of usual size needs a hundredth. */
#define MAX_WORK ((uint64_t)1 << 31)

static enum hk_status refuse_spm(const struct hk_tok *t, const char *what, const char *name)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer: %s: %s", what, name);
}

/* ---- normalizer and pre-tokenizer ---- */

static bool is_field_text(const json_t *o, const char *key, const char *text)
{
    const json_t *v = json_object_get(o, key);
    return json_is_string(v) && hk_bytes_are(hk_json_string_bytes(v), text);
}

struct normal {
    bool prefix, replaced;
};

static enum hk_status read_normalizer_step(const struct hk_tok *t, const json_t *o,
                                           struct normal *n)
{
    if (hk_json_has_type(o, "Prepend") && is_field_text(o, "prepend", HK_VOCAB_SPACE) &&
        !n->prefix && !n->replaced) {
        n->prefix = true;
        return HK_OK;
    }
    if (hk_json_has_type(o, "Replace") &&
        is_field_text(json_object_get(o, "pattern"), "String", " ") &&
        is_field_text(o, "content", HK_VOCAB_SPACE)) {
        n->replaced = true;
        return HK_OK;
    }
    return refuse_spm(t, "a normalizer that is not known here", hk_json_text(o, "type"));
}

static enum hk_status read_spm_normalizer(const struct hk_tok *t, struct normal *n)
{
    const json_t *o = json_object_get(t->json, "normalizer"), *step;
    size_t i;
    if (o == NULL || json_is_null(o))
        return HK_OK;
    if (!hk_json_has_type(o, "Sequence"))
        return read_normalizer_step(t, o, n);
    json_array_foreach(json_object_get(o, "normalizers"), i, step)
    {
        enum hk_status st = read_normalizer_step(t, step, n);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

static enum hk_status read_metaspace(struct hk_tok *t, const json_t *o, struct normal *n)
{
    static const char *const schemes[] = {"first", "always"};
    if (!is_field_text(o, "replacement", HK_VOCAB_SPACE) ||
        !json_is_false(json_object_get(o, "split")) || n->prefix)
        return refuse_spm(t, "pre_tokenizer", "Metaspace that splits, or with a normalizer");
    for (size_t i = 0; i < 2; i++) {
        if (is_field_text(o, "prepend_scheme", schemes[i]))
            t->scheme = schemes[i];
    }
    if (t->scheme == NULL && !is_field_text(o, "prepend_scheme", "never"))
        return refuse_spm(t, "pre_tokenizer: Metaspace with the prepend_scheme",
                          hk_json_text(o, "prepend_scheme"));
    n->prefix = t->scheme != NULL;
    n->replaced = true;
    return HK_OK;
}

/* After the normalizer there are no spaces left to split at. */
static enum hk_status read_spm_pre_tokenizer(struct hk_tok *t, struct normal *n)
{
    const json_t *o = json_object_get(t->json, "pre_tokenizer");
    if (o == NULL || json_is_null(o))
        return HK_OK;
    if (hk_json_has_type(o, "Split") &&
        is_field_text(json_object_get(o, "pattern"), "String", " ") && n->replaced)
        return HK_OK;
    if (!hk_json_has_type(o, "Metaspace"))
        return refuse_spm(t, "a pre-tokenizer that is not known here", hk_json_text(o, "type"));
    return read_metaspace(t, o, n);
}

static enum hk_status read_space_spelling(struct hk_tok *t)
{
    struct normal n = {0};
    enum hk_status st = read_spm_normalizer(t, &n);
    if (st == HK_OK)
        st = read_spm_pre_tokenizer(t, &n);
    if (st == HK_OK && !n.replaced)
        st = refuse_spm(t, "normalizer", "spaces stay spaces in a vocabulary with byte_fallback");
    t->space_prefix = n.prefix;
    if (st == HK_OK && n.prefix && json_is_false(json_object_get(t->settings, "add_prefix_space")))
        st = hk_fail(
            t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
            "tokenizer_config.json: add_prefix_space false, where tokenizer.json puts a space "
            "before a text");
    return st;
}

/* ---- decoder: the engine has one way back from ids, and so must the file ---- */

/* U+2581 becomes a space. */
static bool is_space_replace(const json_t *o)
{
    return hk_json_has_type(o, "Replace") &&
           is_field_text(json_object_get(o, "pattern"), "String", HK_VOCAB_SPACE) &&
           is_field_text(o, "content", " ");
}

/* One space goes at the start of the text. */
static bool is_space_strip(const json_t *o)
{
    return hk_json_has_type(o, "Strip") && is_field_text(o, "content", " ") &&
           json_integer_value(json_object_get(o, "start")) == 1 &&
           json_integer_value(json_object_get(o, "stop")) == 0;
}

static bool decodes_pieces(const json_t *list, bool prefix)
{
    return json_array_size(list) == 3 + (size_t)prefix &&
           is_space_replace(json_array_get(list, 0)) &&
           hk_json_has_type(json_array_get(list, 1), "ByteFallback") &&
           hk_json_has_type(json_array_get(list, 2), "Fuse") &&
           (!prefix || is_space_strip(json_array_get(list, 3)));
}

static enum hk_status check_piece_decoder(const struct hk_tok *t)
{
    const json_t *o = json_object_get(t->json, "decoder");
    const json_t *list = hk_json_has_type(o, "Sequence") ? json_object_get(o, "decoders") : NULL;
    if (decodes_pieces(list, t->space_prefix))
        return HK_OK;
    if (json_array_size(list) == 1)
        o = json_array_get(list, 0);
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "tokenizer.json: a decoder %s that does not fit the normalizer",
                   hk_json_text(o, "type"));
}

/* ---- bytes ---- */

static enum hk_status mark_byte_pieces(struct hk_tok *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char piece[HK_VOCAB_BYTE_SIZE];
        hk_vocab_put_byte((uint8_t)b, piece);
        int64_t id = hk_tok_id(t, (struct hk_bytes){(const uint8_t *)piece, sizeof piece - 1});
        if (id < 0)
            return refuse_spm(t, "byte_fallback without the piece", piece);
        t->token[id].type = HK_TOKEN_BYTE;
    }
    return HK_OK;
}

/* ---- scores ---- */

struct trial { /* the text of one piece, merging */
    const struct hk_tok *t;
    const struct hk_tok_merges *merges;
    uint32_t id[MAX_CHARS], rank[MAX_CHARS]; /* rank of a symbol and the next, or UINT32_MAX */
    size_t n;
    uint64_t work;
    uint32_t last; /* rank of the last merge */
};

static void rank_trial_pair(struct trial *x, size_t i)
{
    x->rank[i] = UINT32_MAX;
    if (i + 1 >= x->n || x->id[i] == UINT32_MAX || x->id[i + 1] == UINT32_MAX)
        return;
    const struct hk_tok_merge *m = hk_tok_find_merge(x->merges, x->id[i], x->id[i + 1]);
    if (m != NULL)
        x->rank[i] = m->rank;
}

static size_t measure_char(const uint8_t *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    return len < n ? len : n;
}

static bool split_trial_chars(struct trial *x, struct hk_bytes piece)
{
    x->n = 0;
    for (size_t i = 0; i < piece.n;) {
        size_t len = measure_char(piece.p + i, piece.n - i);
        int64_t id = hk_tok_id(x->t, (struct hk_bytes){piece.p + i, len});
        if (x->n == MAX_CHARS)
            return false;
        x->id[x->n++] = id >= 0 ? (uint32_t)id : UINT32_MAX;
        i += len;
    }
    for (size_t i = 0; i < x->n; i++)
        rank_trial_pair(x, i);
    return true;
}

static void join_trial_pair(struct trial *x, size_t at)
{
    x->last = x->rank[at];
    x->id[at] = hk_tok_find_merge(x->merges, x->id[at], x->id[at + 1])->id;
    x->n--;
    memmove(&x->id[at + 1], &x->id[at + 2], (x->n - at - 1) * sizeof x->id[0]);
    memmove(&x->rank[at + 1], &x->rank[at + 2], (x->n - at - 1) * sizeof x->rank[0]);
    rank_trial_pair(x, at);
    if (at > 0)
        rank_trial_pair(x, at - 1);
}

static void merge_trial(struct trial *x)
{
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < x->n; i++) {
            if (x->rank[i] < x->rank[best])
                best = i;
        }
        x->work += x->n;
        if (x->n < 2 || x->rank[best] == UINT32_MAX)
            return;
        join_trial_pair(x, best);
    }
}

/* Of tokenizer.model, whose scores stay, it is asked too: no merges of its pieces, which is what
 * tokenizer.json and transformers have, would do the same otherwise. */
static enum hk_status score_trial_piece(struct hk_tok *t, struct trial *x,
                                        struct hk_tok_token *token)
{
    if (!split_trial_chars(x, token->piece) || x->work > MAX_WORK)
        return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                       "tokenizer: the piece \"%.*s\" takes too much work", HK_STR(token->piece));
    bool letter = x->n <= 1;
    merge_trial(x);
    if (x->n == 2 && token->type == HK_TOKEN_NORMAL && t->json == NULL)
        return hk_fail(
            t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
            "tokenizer.model: no two pieces make \"%.*s\" of what its text comes to, so that no "
            "merges are equal to these scores",
            HK_STR(token->piece));
    if (x->n == 2 && token->type == HK_TOKEN_NORMAL)
        return hk_fail(
            t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
            "tokenizer.json: model.merges: no merge makes \"%.*s\" of what its text comes to, so "
            "that no scores are equal to these merges",
            HK_STR(token->piece));
    if (t->json == NULL)
        return HK_OK;
    const uint32_t rank = x->n == 1 && !letter ? x->last : x->merges->count;
    token->score = (float)-(int64_t)rank; /* 0 is not to become -0 */
    return HK_OK;
}

static enum hk_status check_no_byte_merges(const struct hk_tok *t, const struct hk_tok_merges *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (t->token[m->merge[i].left].type == HK_TOKEN_BYTE ||
            t->token[m->merge[i].right].type == HK_TOKEN_BYTE)
            return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                           "tokenizer.json: model.merges: merge %u is of a byte", m->merge[i].rank);
    }
    return HK_OK;
}

/* Added tokens do not come about by merging: a text has them no more when it is merged. */
static enum hk_status score_all_pieces(struct hk_tok *t, const struct hk_tok_merges *m)
{
    enum hk_status st = check_no_byte_merges(t, m);
    struct trial *x = calloc(1, sizeof *x);
    if (x == NULL)
        st = hk_fail_nomem(t->err);
    else
        *x = (struct trial){.t = t, .merges = m};
    for (uint32_t i = 0; i < t->count && st == HK_OK; i++) {
        bool user = t->token[i].type == HK_TOKEN_USER && t->token[i].in_model;
        if ((t->token[i].type == HK_TOKEN_NORMAL || user) && t->token[i].piece.n > 0)
            st = score_trial_piece(t, x, &t->token[i]);
    }
    free(x);
    return st;
}

/* ---- the whole ---- */

/* Blanks that PIECE has nothing beside; 0 if it has. */
static size_t count_spaces_alone(struct hk_bytes piece)
{
    for (size_t i = 0; i < piece.n; i += 3) {
        if (piece.n - i < 3 || memcmp(piece.p + i, HK_VOCAB_SPACE, 3) != 0)
            return 0;
    }
    return piece.n / 3;
}

static bool has_space(struct hk_bytes piece)
{
    return piece.n > 0 && (memchr(piece.p, ' ', piece.n) != NULL ||
                           memmem(piece.p, piece.n, HK_VOCAB_SPACE, 3) != NULL);
}

/* Whether all merges of spaces with each other come before those of a space with something else,
 * and no run of them merges with anything. Added tokens that are runs of spaces (Gemma) are then
 * what merging makes of them, whether a text has spaces or spells them U+2581. */
static bool do_space_runs_merge_first(const struct hk_tok *t, const struct hk_tok_merges *m)
{
    uint32_t last_run = 0, first_other = UINT32_MAX;
    for (uint32_t i = 0; i < m->count; i++) {
        struct hk_bytes left = t->token[m->merge[i].left].piece,
                        right = t->token[m->merge[i].right].piece;
        uint32_t rank = m->merge[i].rank;
        if (count_spaces_alone(left) > 0 && count_spaces_alone(right) > 0)
            last_run = rank > last_run ? rank : last_run;
        else if (count_spaces_alone(left) > 1 || count_spaces_alone(right) > 1)
            return false;
        else if ((has_space(left) || has_space(right)) && rank < first_other)
            first_other = rank;
    }
    return last_run < first_other;
}

/* An added token that the normalizer changes cannot be matched as the engine does it: only those
 * in a text as it is, and without spaces, are the same there. */
static enum hk_status check_added_spaces(struct hk_tok *t, const struct hk_tok_merges *m)
{
    bool runs = do_space_runs_merge_first(t, m);
    for (uint32_t i = 0; i < t->count; i++) {
        struct hk_tok_token *token = &t->token[i];
        bool space = has_space(token->piece);
        bool normalized = (token->flags & HK_ADDED_NORMALIZED) != 0;
        if (!token->added || (!space && !(normalized && t->space_prefix && t->scheme == NULL)))
            continue;
        if (!runs || !token->in_model || count_spaces_alone(token->piece) == 0 ||
            token->flags != 0 || token->type != HK_TOKEN_USER)
            return hk_fail(
                t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                "tokenizer.json: the added token \"%.*s\" would be changed by the normalizer",
                HK_STR(token->piece));
        token->type = HK_TOKEN_NORMAL;
        token->added = false;
    }
    return HK_OK;
}

static enum hk_status put_spm_keys(struct hk_tok *t)
{
    hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_MODEL), hk_vocab_kind_name(HK_VOCAB_SPM));
    hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_PRE),
                   "default"); /* as llama.cpp's converter has it */
    enum hk_status st = hk_tok_put_vocab(t);
    if (st == HK_OK)
        hk_kvlist_bool(t->out, hk_vocab_key(HK_VOCAB_ADD_SPACE_PREFIX), t->space_prefix);
    if (st == HK_OK && t->scheme != NULL)
        hk_kvlist_text(t->out, hk_vocab_key(HK_VOCAB_PREFIX_SCHEME), t->scheme);
    return st;
}

/* Merges that are not those that would be made of the scores are kept for the way back. */
static enum hk_status store_merges(const struct hk_tok *t, const struct hk_tok_merges *m)
{
    struct hk_tok_merges made = {0};
    enum hk_status st = hk_tok_make_merges(t, &made);
    if (st != HK_OK)
        return st;
    bool same = made.count == m->count;
    for (uint32_t i = 0; i < m->count && same; i++) {
        const struct hk_tok_merge *a = &m->merge[i], *b = &made.merge[a->rank];
        same = a->left == b->left && a->right == b->right;
    }
    free(made.merge);
    return same ? HK_OK : hk_tok_put_merges(t, HK_VOCAB_STORED_MERGES, m);
}

enum hk_status hk_tok_read_spm(struct hk_tok *t)
{
    struct hk_tok_merges m = {0};
    enum hk_status st = t->ignore_merges
                            ? refuse_spm(t, "model.ignore_merges", "with byte_fallback")
                            : read_space_spelling(t);
    if (st == HK_OK)
        st = check_piece_decoder(t);
    if (st == HK_OK)
        st = mark_byte_pieces(t);
    if (st == HK_OK)
        st = hk_tok_read_merges(t, &m);
    if (st == HK_OK)
        st = hk_tok_read_added(t);
    if (st == HK_OK)
        st = check_added_spaces(t, &m);
    if (st == HK_OK)
        st = t->model != NULL ? hk_tok_read_model_scores(t, &m) : score_all_pieces(t, &m);
    if (st == HK_OK)
        st = put_spm_keys(t);
    if (st == HK_OK)
        st = store_merges(t, &m);
    free(m.merge);
    return st;
}

enum hk_status hk_tok_read_spm_file(struct hk_tok *t)
{
    struct hk_tok_merges m = {0};
    enum hk_status st = hk_tok_read_model_file(t);
    if (st == HK_OK)
        st = mark_byte_pieces(t);
    if (st == HK_OK)
        st = hk_tok_read_added(t);
    if (st == HK_OK)
        st = hk_tok_make_merges(t, &m);
    if (st == HK_OK) {
        hk_tok_sort_merges(&m);
        st = score_all_pieces(t, &m);
    }
    free(m.merge);
    return st == HK_OK ? put_spm_keys(t) : st;
}
