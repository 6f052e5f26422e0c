/* mk_hf.h: models of a few hundred weights with changes, and their Hugging Face directories in
 * memory, for tests of what such a directory says. */
#ifndef MK_HF_H
#define MK_HF_H

#include <jansson.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/hf/export.h"
#include "libhkfmt/safetensors/st.h"
#include "tests/lib/mk_gguf.h"

/* ---- a model of a few hundred weights, with changes ---- */

enum { WIDTH = 8, HEADS = 2, KV = 1, HEAD = 4, FFN = 12, VOCAB = 16, LAYERS = 2, MOST = 64 };

enum how {
    END, /* of a list of changes */
    INT,
    REAL,
    TEXT,
    JSON,
    FLAG,
    IDS,     /* an i32 array of the digits of text */
    DROP,    /* the key or tensor is left out */
    ROWS,    /* the tensor has this many rows */
    VECTOR,  /* a tensor of this many elements more, all of them 1 */
    FACTORS, /* a tensor of as many factors as there are pairs: 1 and then the number */
    OUTPUT,  /* output.weight: number 1 as the embedding, 2 its shared_ref, 3 another */
    TYPE,    /* the tensor is of this type, all zero */
};

struct change {
    enum how how;
    const char *name;
    double number;
    const char *text;
};

struct model {
    struct hk_writer *w;
    const char *arch;
    const struct change *changes;
    size_t count;
    struct {
        size_t bytes;
        float first, step;
        double factor; /* of FACTORS, else 0 */
    } payload[MOST];
};

static inline struct hk_bytes text(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

static inline const struct change *changed(const struct model *m, const char *name, enum how how)
{
    for (const struct change *c = m->changes; c->how != END; c++)
        if (c->how == how && strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static inline void set(struct model *m, const char *key, enum hk_meta_type type, const void *p,
                       size_t n)
{
    mk_need(hk_writer_set(m->w, text(key), type, (struct hk_bytes){p, n}, NULL) == HK_OK, key);
}

static inline void set_real(struct model *m, const char *key, double v)
{
    uint8_t bytes[8];
    put_f64(bytes, v);
    set(m, key, HK_META_FLOAT64, bytes, sizeof bytes);
}

static inline void set_int(struct model *m, const char *key, double v)
{
    uint8_t bytes[8];
    put64(bytes, (uint64_t)(int64_t)v);
    set(m, key, HK_META_INT64, bytes, sizeof bytes);
}

static inline void set_ids(struct model *m, const char *key, const char *digits)
{
    uint8_t blob[8 + 4 * MOST] = {HK_ARRAY_I32};
    const size_t n = strlen(digits);
    put32(blob + 4, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        put32(blob + 8 + 4 * i, (uint32_t)(digits[i] - '0'));
    set(m, key, HK_META_BYTES, blob, 8 + 4 * n);
}

static inline void set_changed(struct model *m)
{
    for (const struct change *c = m->changes; c->how != END; c++) {
        const uint8_t flag = c->number != 0;
        if (c->how == INT)
            set_int(m, c->name, c->number);
        else if (c->how == REAL)
            set_real(m, c->name, c->number);
        else if (c->how == TEXT || c->how == JSON)
            set(m, c->name, c->how == TEXT ? HK_META_STRING : HK_META_JSON, c->text,
                strlen(c->text));
        else if (c->how == FLAG)
            set(m, c->name, HK_META_BOOL, &flag, 1);
        else if (c->how == IDS)
            set_ids(m, c->name, c->text);
    }
}

static inline void set_keys(struct model *m)
{
    static const struct {
        const char *name;
        double value;
    } keys[] = {
        {"block_count", LAYERS},         {"embedding_length", WIDTH},
        {"feed_forward_length", FFN},    {"attention.head_count", HEADS},
        {"attention.head_count_kv", KV}, {"context_length", 64},
    };
    char name[80];
    if (changed(m, "general.architecture", DROP) == NULL)
        set(m, "general.architecture", HK_META_STRING, m->arch, strlen(m->arch));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(name, sizeof name, "%s.%s", m->arch, keys[i].name);
        if (changed(m, name, DROP) == NULL)
            set_int(m, name, keys[i].value);
    }
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", m->arch);
    if (changed(m, name, DROP) == NULL)
        set_real(m, name, (double)1e-5f);
    set_changed(m);
}

/* ROWS 0: a vector. Values count up from FIRST by STEP. */
static inline void add(struct model *m, const char *name, uint64_t rows, uint64_t cols, float first,
                       float step)
{
    const struct change *c;
    if (changed(m, name, DROP) != NULL)
        return;
    if ((c = changed(m, name, ROWS)) != NULL)
        rows = (uint64_t)c->number;
    struct hk_tensor t = {.name = text(name), .ndim = rows > 0 ? 2 : 1, .block_size = 32};
    t.shape[0] = rows > 0 ? rows : cols;
    t.shape[1] = rows > 0 ? cols : 0;
    if ((c = changed(m, name, TYPE)) != NULL) {
        t.type = (uint16_t)c->number;
        first = step = 0;
    }
    const struct hk_type_info *info = hk_type_info(t.type);
    t.data_size = hk_tensor_elems(&t) / info->block_elems * info->block_bytes;
    mk_need(hk_writer_add(m->w, &t, 0, NULL) == HK_OK, name);
    m->payload[m->count].bytes = t.data_size;
    m->payload[m->count].first = first;
    m->payload[m->count++].step = step;
}

static inline void add_layer(struct model *m, unsigned layer)
{
    char name[HK_MAX_NAME + 1];
    const struct hk_tensor_row *row;
    const char *architecture;
    const struct hk_family *family = hk_family_of_architecture(text(m->arch), &architecture);
    const uint64_t sizes[] = {
        [HK_EXTENT_ONE] = 0,
        [HK_EXTENT_HIDDEN] = WIDTH,
        [HK_EXTENT_FFN] = FFN,
        [HK_EXTENT_QUERIES] = HEADS * HEAD,
        [HK_EXTENT_KEYS] = KV * HEAD,
        [HK_EXTENT_VALUES] = KV * HEAD,
        [HK_EXTENT_MIXED] = HEADS * HEAD,
        [HK_EXTENT_HEAD] = HEAD,
    };
    for (size_t i = 0; (row = hk_tensor_row(i)) != NULL; i++) {
        snprintf(name, sizeof name, "blk.%u.%s", layer, row->gguf);
        if (row->layer && (family == NULL ? row->needs == 0 : hk_tensor_row_is_of(row, family)))
            add(m, name, sizes[row->rows], sizes[row->cols], (float)(1000 * m->count), 1);
    }
}

static inline void add_tensors(struct model *m)
{
    add(m, "token_embd.weight", VOCAB, WIDTH, 0, 1);
    for (unsigned i = 0; i < LAYERS; i++)
        add_layer(m, i);
    add(m, "output_norm.weight", 0, WIDTH, 1, 0);
    for (const struct change *c = m->changes; c->how != END; c++) {
        struct hk_tensor shared = {.name = text("output.weight"),
                                   .type = HK_TYPE_SHARED_REF,
                                   .ndim = 2,
                                   .shape = {VOCAB, WIDTH}};
        if (c->how == OUTPUT && c->number == 2)
            mk_need(hk_writer_add(m->w, &shared, 0, NULL) == HK_OK, "shared");
        else if (c->how == OUTPUT)
            add(m, "output.weight", VOCAB, WIDTH, c->number == 1 ? 0 : 7, 1);
        if (c->how == VECTOR || c->how == FACTORS)
            add(m, c->name, 0, c->how == FACTORS ? HEAD / 2 : (uint64_t)c->number, 1, 0);
        if (c->how == FACTORS)
            m->payload[m->count - 1].factor = c->number;
    }
}

static inline void put_payload(struct model *m, size_t i)
{
    for (size_t k = 0; k < m->payload[i].bytes / 4; k++) {
        uint8_t bytes[4];
        float v = m->payload[i].first + (float)k * m->payload[i].step;
        if (m->payload[i].factor != 0)
            v = k == 0 ? 1 : (float)m->payload[i].factor;
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        put32(bytes, bits);
        mk_need(hk_writer_put(m->w, bytes, 4, NULL) == HK_OK, "payload");
    }
    const uint8_t zero[4] = {0};
    if (m->payload[i].bytes % 4 > 0)
        mk_need(hk_writer_put(m->w, zero, m->payload[i].bytes % 4, NULL) == HK_OK, "payload");
}

static inline struct hk_file *model(const char *arch, const struct change *changes)
{
    struct model m = {.arch = arch, .changes = changes};
    struct hk_out *out = NULL;
    struct hk_file *f = NULL;
    const int fd = mk_fd("", 0);
    mk_need(hk_writer_new(&m.w, NULL, NULL) == HK_OK, "writer");
    set_keys(&m);
    add_tensors(&m);
    bool good = hk_out_fd(&out, fd, NULL) == HK_OK && hk_writer_begin(m.w, out, NULL) == HK_OK;
    for (size_t i = 0; good && i < m.count; i++)
        put_payload(&m, i);
    good = good && hk_writer_finish(m.w, NULL) == HK_OK && hk_out_commit(&out, NULL) == HK_OK &&
           hk_open_fd(&f, fd, NULL) == HK_OK;
    mk_need(good, "making a model");
    hk_writer_free(&m.w);
    close(fd);
    return f;
}

/* A config.json of it, but for the brace that closes it; "mistral" has the keys of llama. */
#define STORED                                                                                     \
    "{\"architectures\":[\"MistralForCausalLM\"], \"model_type\":\"mistral\",\"hidden_size\":8.0," \
    "\"intermediate_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":2,"                  \
    "\"num_key_value_heads\":1,\"max_position_embeddings\":64,\"vocab_size\":16,"                  \
    "\"rms_norm_eps\":0.00001,\"sliding_window\":null,\"tie_word_embeddings\":true,"               \
    "\"eos_token_id\":[2,3],\"bos_token_id\":1,\"dtype\":\"float32\",\"own\":[1e5]"

/* ---- its directory ---- */

struct exported {
    struct hk_side_files files;
    struct hk_file *f; /* model.safetensors */
    char losses[2048];
    enum hk_status status;
    struct hk_error err;
};

static inline void note_loss(void *arg, const char *line)
{
    char *losses = arg;
    const size_t n = strlen(losses);
    snprintf(losses + n, sizeof((struct exported *)0)->losses - n, "%s\n", line);
}

/* Closes FROM. */
static inline struct exported export_as(struct hk_file *from, enum hk_type dense)
{
    struct exported e = {0};
    struct hk_view *v = NULL;
    struct hk_out *out = NULL;
    const struct hk_convert_options opt = {
        .size = sizeof opt, .dense = dense, .loss = note_loss, .arg = e.losses};
    const int fd = mk_fd("", 0);
    mk_need(hk_view_new(&v, from, &e.err) == HK_OK && hk_out_fd(&out, fd, NULL) == HK_OK, "view");
    e.status = hk_hf_export(v, &opt, &e.files, &e.err);
    if (e.status == HK_OK)
        e.status = hk_view_ready(v, &e.err);
    if (e.status == HK_OK)
        e.status = hk_write_safetensors(v->file, &opt, out, &e.err);
    if (e.status == HK_OK)
        e.status = hk_out_commit(&out, &e.err);
    else
        hk_out_discard(&out);
    if (e.status == HK_OK)
        e.status = hk_open_fd(&e.f, fd, &e.err);
    close(fd);
    hk_view_free(&v);
    hk_close(&from);
    return e;
}

static inline struct exported export(struct hk_file *from)
{
    return export_as(from, HK_TYPE_F16);
}

static inline void done(struct exported *e)
{
    hk_side_files_free(&e->files);
    hk_close(&e->f);
}

static inline struct hk_bytes side(const struct exported *e, const char *name)
{
    for (size_t i = 0; i < e->files.count; i++)
        if (strcmp(e->files.files[i].name, name) == 0)
            return (struct hk_bytes){e->files.files[i].bytes.p, e->files.files[i].bytes.n};
    return (struct hk_bytes){0};
}

/* "config.json" or another, at the names of PATH with dots between, as compact text. */
static inline const char *field(const struct exported *e, const char *file, const char *path,
                                char out[256])
{
    const struct hk_bytes bytes = side(e, file);
    json_t *json = json_loadb((const char *)bytes.p, bytes.n, 0, NULL);
    const json_t *v = json;
    char names[128], *rest = names;
    snprintf(names, sizeof names, "%s", path);
    for (char *name; v != NULL && (name = strsep(&rest, ".")) != NULL;)
        v = json_object_get(v, name);
    size_t n =
        v == NULL
            ? 0
            : json_dumpb(v, out, 255,
                         JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    out[n < 255 ? n : 255] = '\0';
    json_decref(json);
    return v == NULL ? "absent" : out;
}

struct wanted {
    const char *path, *value; /* of config.json; NULL ends */
};

static inline void says(const struct exported *e, const char *what, const char *file,
                        const struct wanted *wanted)
{
    char got[256];
    if (!ok(e->status == HK_OK, "%s: %s", what, e->status == HK_OK ? "goes" : e->err.text))
        return;
    for (; wanted->path != NULL; wanted++) {
        const char *v = field(e, file, wanted->path, got);
        ok(strcmp(v, wanted->value) == 0, "%s: %s: %s is %s", what, file, wanted->path, v);
    }
}

#endif
