/* tokenizer.model: SentencePiece's ModelProto, as far as it says how its BPE goes. */
#include "libhkfmt/hf/tokenizer/model_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/le.h"

/* ---- protocol buffers ---- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct field {
    uint32_t number;
    enum wire wire;
    uint64_t value;        /* of VARINT, FIXED32 and FIXED64 */
    struct hk_bytes bytes; /* of BYTES */
};

static bool take_proto_varint(struct hk_bytes *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->n > 0; shift += 7) {
        uint8_t b = *in->p++;
        in->n--;
        *out |= (uint64_t)(b & 0x7f) << shift;
        if ((b & 0x80) == 0)
            return true;
    }
    return false;
}

static bool take_proto_bytes(struct hk_bytes *in, uint64_t n, struct hk_bytes *out)
{
    if (n > in->n)
        return false;
    *out = (struct hk_bytes){in->p, (size_t)n};
    in->p += n;
    in->n -= (size_t)n;
    return true;
}

/* The next field of IN, which is not empty; false if it is damaged. */
static bool next_proto_field(struct hk_bytes *in, struct field *f)
{
    uint64_t tag, n;
    if (!take_proto_varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return false;
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
    switch (f->wire) {
    case VARINT:
        return take_proto_varint(in, &f->value);
    case BYTES:
        return take_proto_varint(in, &n) && take_proto_bytes(in, n, &f->bytes);
    case FIXED32:
        if (!take_proto_bytes(in, 4, &f->bytes))
            return false;
        f->value = le32(f->bytes.p);
        return true;
    case FIXED64:
        if (!take_proto_bytes(in, 8, &f->bytes))
            return false;
        f->value = le64(f->bytes.p);
        return true;
    }
    return false; /* groups, which nothing writes any more */
}

/* ---- the messages ---- */

struct model { /* with the defaults of the format */
    uint32_t pieces;
    uint64_t type;                    /* 1 unigram, 2 BPE, 3 words, 4 characters */
    bool suffix, bytes;               /* spaces behind words; byte_fallback */
    bool prefix, squeeze, escape;     /* add_dummy_prefix, remove_extra_whitespaces, escape_... */
    struct hk_bytes name, rules, map; /* of the normalisation */
    int32_t unk, bos, eos;
};

struct piece {
    struct hk_bytes text;
    uint32_t score;
    uint64_t type;
};

static enum hk_status refuse_damaged(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "tokenizer.model: %s is damaged", what);
}

static enum hk_status refuse_model_file(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "tokenizer.model: %s", what);
}

static bool read_model_piece(struct hk_bytes in, struct piece *p)
{
    struct field f;
    *p = (struct piece){.type = HK_TOKEN_NORMAL};
    while (in.n > 0) {
        if (!next_proto_field(&in, &f))
            return false;
        if (f.number == 1 && f.wire == BYTES)
            p->text = f.bytes;
        else if (f.number == 2 && f.wire == FIXED32)
            p->score = (uint32_t)f.value;
        else if (f.number == 3 && f.wire == VARINT)
            p->type = f.value;
        else if (f.number <= 3)
            return false;
    }
    return p->text.p != NULL;
}

static bool read_trainer_spec(struct hk_bytes in, struct model *m)
{
    struct field f;
    while (in.n > 0) {
        if (!next_proto_field(&in, &f))
            return false;
        if (f.wire != VARINT)
            continue;
        if (f.number == 3)
            m->type = f.value;
        else if (f.number == 24)
            m->suffix = f.value != 0;
        else if (f.number == 35)
            m->bytes = f.value != 0;
        else if (f.number == 40)
            m->unk = (int32_t)f.value;
        else if (f.number == 41)
            m->bos = (int32_t)f.value;
        else if (f.number == 42)
            m->eos = (int32_t)f.value;
    }
    return true;
}

static bool read_normalizer_spec(struct hk_bytes in, struct model *m)
{
    struct field f;
    while (in.n > 0) {
        if (!next_proto_field(&in, &f))
            return false;
        if (f.number == 1)
            m->name = f.bytes;
        else if (f.number == 2)
            m->map = f.bytes;
        else if (f.number == 3)
            m->prefix = f.value != 0;
        else if (f.number == 4)
            m->squeeze = f.value != 0;
        else if (f.number == 5)
            m->escape = f.value != 0;
        else if (f.number == 6)
            m->rules = f.bytes;
    }
    return true;
}

static enum hk_status read_model_settings(const struct hk_tok *t, struct model *m)
{
    struct hk_bytes in = {t->model, t->model_size};
    struct field f;
    *m = (struct model){
        .type = 1, .prefix = true, .squeeze = true, .escape = true, .bos = 1, .eos = 2};
    while (in.n > 0) {
        if (!next_proto_field(&in, &f))
            return refuse_damaged(t, "the file");
        m->pieces += f.number == 1;
        if (f.number >= 1 && f.number <= 3 && f.wire != BYTES)
            return refuse_damaged(t, "the file");
        if (f.number == 2 && !read_trainer_spec(f.bytes, m))
            return refuse_damaged(t, "trainer_spec");
        if (f.number == 3 && !read_normalizer_spec(f.bytes, m))
            return refuse_damaged(t, "normalizer_spec");
    }
    return m->pieces > 0 ? HK_OK : refuse_damaged(t, "the file, which has no pieces,");
}

static enum hk_status check_model_settings(const struct hk_tok *t, const struct model *m)
{
    static const char *const types[] = {"", "unigram", "bpe", "word", "char"};
    if (m->type != 2)
        return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tokenizer.model: a model of type %s is not supported",
                       m->type < 5 ? types[m->type] : "(unknown)");
    if (m->map.n > 0 || m->rules.n > 0)
        return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "tokenizer.model: the normalisation \"%.*s\" is not supported",
                       HK_STR(m->name));
    if (m->suffix)
        return refuse_model_file(t, "treat_whitespace_as_suffix is not supported");
    if (!m->bytes)
        return refuse_model_file(t, "a vocabulary without byte_fallback is not supported");
    if (m->squeeze)
        return refuse_model_file(t, "remove_extra_whitespaces is not supported");
    return m->escape ? HK_OK
                     : refuse_model_file(t, "spaces that are not escaped are not supported");
}

/* ---- pieces ---- */

typedef enum hk_status piece_fn(struct hk_tok *t, uint32_t id, const struct piece *p);

static enum hk_status each_model_piece(struct hk_tok *t, piece_fn *fn)
{
    struct hk_bytes in = {t->model, t->model_size};
    struct field f;
    uint32_t id = 0;
    while (in.n > 0) {
        struct piece p;
        if (!next_proto_field(&in, &f))
            return refuse_damaged(t, "the file");
        if (f.number != 1)
            continue;
        float score;
        if (!read_model_piece(f.bytes, &p) || p.type < HK_TOKEN_NORMAL || p.type > HK_TOKEN_BYTE ||
            (memcpy(&score, &p.score, sizeof score), isnan(score)))
            return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                           "tokenizer.model: piece %u is damaged", id);
        enum hk_status st = fn(t, id++, &p);
        if (st != HK_OK)
            return st;
    }
    return HK_OK;
}

static enum hk_status add_model_piece(struct hk_tok *t, uint32_t id, const struct piece *p)
{
    struct hk_tok_token *token = &t->token[id];
    if (hk_tok_id(t, p->text) >= 0)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "tokenizer.model: the piece \"%.*s\" is there twice", HK_STR(p->text));
    if (json_object_setn_new(t->ids, (const char *)p->text.p, p->text.n, json_integer(id)) != 0)
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "tokenizer.model: piece %u is not UTF-8",
                       id);
    token->piece = p->text;
    token->type = (uint8_t)p->type;
    token->in_model = true;
    token->added = p->type >= HK_TOKEN_UNKNOWN && p->type <= HK_TOKEN_USER;
    memcpy(&token->score, &p->score, sizeof p->score);
    return HK_OK;
}

/* The same piece as tokenizer.json has, whose score it then has. */
static enum hk_status compare_model_piece(struct hk_tok *t, uint32_t id, const struct piece *p)
{
    if (hk_tok_id(t, p->text) != id)
        return hk_fail(
            t->err, HK_E_FORMAT, HK_NO_OFFSET,
            "tokenizer.model and tokenizer.json disagree: piece %u is \"%.*s\" in one of them only",
            id, HK_STR(p->text));
    memcpy(&t->token[id].score, &p->score, sizeof p->score);
    if (p->type == HK_TOKEN_UNUSED)
        t->token[id].type = HK_TOKEN_UNUSED;
    return HK_OK;
}

enum hk_status hk_tok_read_model_scores(struct hk_tok *t, const struct hk_tok_merges *merges)
{
    struct model m;
    enum hk_status st = read_model_settings(t, &m);
    if (st == HK_OK)
        st = check_model_settings(t, &m);
    if (st == HK_OK)
        st = each_model_piece(t, compare_model_piece);
    float *score = st == HK_OK ? calloc((size_t)merges->count + 1, sizeof *score) : NULL;
    if (st == HK_OK && score == NULL)
        st = hk_fail_nomem(t->err);
    for (uint32_t i = 0; i < merges->count && st == HK_OK; i++)
        score[merges->merge[i].rank] = t->token[merges->merge[i].id].score;
    for (uint32_t i = 1; i < merges->count && st == HK_OK; i++) {
        if (score[i] > score[i - 1])
            st = hk_fail(
                t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                "tokenizer.json: model.merges: merge %u is not in the order of tokenizer.model's "
                "scores",
                i);
    }
    free(score);
    return st;
}

static enum hk_status check_model_ids(struct hk_tok *t, const struct model *m)
{
    const int32_t id[3] = {m->unk, m->bos, m->eos};
    for (size_t i = 0; i < 3; i++) {
        if (id[i] >= 0 && (uint32_t)id[i] >= t->count)
            return hk_fail(t->err, HK_E_RANGE, HK_NO_OFFSET,
                           "tokenizer.model: the special id %d is outside the vocabulary of %u",
                           id[i], t->count);
    }
    t->unk = m->unk;
    t->bos = m->bos;
    t->eos = m->eos;
    return HK_OK;
}

/* tokenizer_config.json's "legacy": false puts a space before the first word of a text only. */
static void read_model_prefix(struct hk_tok *t, const struct model *m)
{
    t->space_prefix = m->prefix;
    if (m->prefix && json_is_false(json_object_get(t->settings, "legacy")))
        t->scheme = "first";
}

enum hk_status hk_tok_read_model_file(struct hk_tok *t)
{
    struct model m;
    enum hk_status st = read_model_settings(t, &m);
    if (st == HK_OK)
        st = check_model_settings(t, &m);
    if (st == HK_OK)
        st = hk_tok_make_room(t, m.pieces);
    if (st == HK_OK && (t->ids = json_object()) == NULL)
        st = hk_fail_nomem(t->err);
    if (st == HK_OK)
        st = each_model_piece(t, add_model_piece);
    if (st == HK_OK)
        st = check_model_ids(t, &m);
    if (st == HK_OK)
        read_model_prefix(t, &m);
    return st;
}
