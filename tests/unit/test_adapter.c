/* Adapters on a made base: merged tensors against a reference in double, everything that cannot be
 * applied refused by name, and payloads cut and broken anywhere. */
#include "libhkfmt/base/le.h"
#include "tests/lib/mini_model.h"

struct part { /* a tensor of an adapter */
    const char *name;
    uint64_t rows, cols; /* rows 0: a vector */
};

struct bytes {
    uint8_t *p;
    size_t n;
};

#define MODULE "base_model.model.model.layers.1."
#define CONFIG "\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":3"

/* ---- payloads ---- */

/* Value I of part K of every adapter here. */
static double value(size_t k, uint64_t i)
{
    return (double)(int)((i * 37 + k * 101 + 11) % 97) / 64 - 0.75;
}

static uint64_t size_of(const struct part *p)
{
    return (p->rows > 0 ? p->rows : 1) * p->cols;
}

/* CONFIG with a backslash before each quote and backslash, as text in JSON has it. */
static void escape(const char *config, char *out)
{
    for (; *config != '\0'; config++) {
        if (*config == '"' || *config == '\\')
            *out++ = '\\';
        *out++ = *config;
    }
    *out = '\0';
}

static int put_head(char *head, size_t size, const char *config, const struct part *parts, size_t n)
{
    char text[1000];
    uint64_t at = 0;
    escape(config, text);
    int used = snprintf(head, size, "{\"__metadata__\":{\"adapter_config\":\"{%s}\"}", text);
    for (size_t i = 0; i < n; i++) {
        const uint64_t end = at + 4 * size_of(&parts[i]);
        char rows[24] = "";
        if (parts[i].rows > 0)
            snprintf(rows, sizeof rows, "%llu,", (unsigned long long)parts[i].rows);
        used += snprintf(head + used, size - (size_t)used,
                         ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s%llu],\"data_offsets\":[%llu,%"
                         "llu]}",
                         parts[i].name, rows, (unsigned long long)parts[i].cols,
                         (unsigned long long)at, (unsigned long long)end);
        at = end;
    }
    return used + snprintf(head + used, size - (size_t)used, "}");
}

static struct bytes payload(const char *config, const struct part *parts, size_t n)
{
    static char head[8000];
    const size_t used = (size_t)put_head(head, sizeof head, config, parts, n);
    size_t size = 8 + used;
    for (size_t i = 0; i < n; i++)
        size += 4 * (size_t)size_of(&parts[i]);
    struct bytes b = {malloc(size), size};
    put64(b.p, used);
    memcpy(b.p + 8, head, used);
    uint8_t *at = b.p + 8 + used;
    for (size_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < size_of(&parts[k]); i++, at += 4) {
            const float f = (float)value(k, i);
            uint32_t bits;
            memcpy(&bits, &f, sizeof bits);
            put32(at, bits);
        }
    return b;
}

/* ---- the base with one record ---- */

static struct hk_file *with_record(const char *arch, struct mini_change change, struct bytes p)
{
    struct hk_error err;
    struct hk_appender *a;
    struct hk_file *f;
    char path[40];
    const int fd = mini_file(arch, change);
    const struct hk_new_record r = {.size = sizeof r,
                                    .type = HK_RECORD_LORA_ADAPTER,
                                    .name = mini_text("it"),
                                    .target = mini_text("model"),
                                    .generation = 1,
                                    .flags = HK_RECORD_ACTIVE};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    mini_must(hk_append_open(&a, path, 0, NULL, &err), &err);
    mini_must(hk_append_record(a, &r, &err), &err);
    mini_must(hk_append_write(a, p.p, p.n, &err), &err);
    mini_must(hk_append_commit(&a, &err), &err);
    mini_must(hk_open_fd(&f, fd, &err), &err);
    close(fd);
    return f;
}

static enum hk_status write_merged_hk(void *out, struct hk_file *merged, struct hk_error *err)
{
    return hk_convert(merged, HK_FORMAT_HK, NULL, out, err);
}

static enum hk_status merge(struct hk_file *f, double scale, struct hk_file **merged,
                            struct hk_error *err)
{
    struct hk_out *out;
    const int fd = memfd_create("merged", MFD_CLOEXEC);
    mini_must(hk_out_fd(&out, fd, err), err);
    enum hk_status status = hk_merge(f, &(struct hk_merge_item){0, scale}, 1, HK_TYPE_F32, 0,
                                     write_merged_hk, out, err);
    if (status == HK_OK) {
        mini_must(hk_out_commit(&out, err), err);
        mini_must(hk_open_fd(merged, fd, err), err);
    } else {
        hk_out_discard(&out);
    }
    close(fd);
    return status;
}

static float *values_of(const struct hk_file *f, const char *name)
{
    struct hk_decoder *d;
    struct hk_error err;
    const struct hk_tensor *t = hk_tensor_find(f, name);
    const size_t n = t != NULL ? (size_t)hk_tensor_elems(t) : 0;
    float *v = calloc(n + 1, sizeof *v);
    if (t == NULL)
        return v;
    mini_must(hk_decoder_new(&d, f, t, &err), &err);
    hk_decoder_read(d, 0, n, v);
    hk_decoder_free(&d);
    return v;
}

/* ---- against a reference ---- */

struct fold {
    const char *what, *arch, *config;
    const char *module, *base; /* the pair's module, and its tensor */
    uint64_t rows, cols;
    uint32_t rank;
    double scale; /* alpha over rank or its root, times that of the merge */
    double merge_scale;
    bool dora;
    uint64_t heads; /* rows are halves of so many heads in the adapter, pairs in the base; 0: not */
};

/* The row of the adapter that is row ROW of the base. */
static uint64_t row_there(const struct fold *c, uint64_t row)
{
    if (c->heads == 0)
        return row;
    const uint64_t length = c->rows / c->heads, at = row % length;
    return row - at + (at % 2 == 0 ? at / 2 : length / 2 + at / 2);
}

/* Row ROW of the result. */
static void fold_row(const struct fold *c, uint64_t row, const float *w, double *out)
{
    const uint64_t there = row_there(c, row);
    double norm = 0;
    for (uint64_t k = 0; k < c->cols; k++) {
        double sum = 0;
        for (uint32_t r = 0; r < c->rank; r++)
            sum += value(1, there * c->rank + r) * value(0, r * c->cols + k);
        out[k] = (double)w[row * c->cols + k] + c->scale * sum;
        norm += out[k] * out[k];
    }
    for (uint64_t k = 0; c->dora && k < c->cols; k++)
        out[k] *= value(2, there) / sqrt(norm);
}

static double largest_error(const struct fold *c, const float *w, const float *got)
{
    double largest = 0, row[64];
    for (uint64_t i = 0; i < c->rows; i++) {
        fold_row(c, i, w, row);
        for (uint64_t k = 0; k < c->cols; k++)
            largest = fmax(largest, fabs(row[k] - (double)got[i * c->cols + k]));
    }
    return largest;
}

static void test_fold(const struct fold *c)
{
    char names[3][120];
    const char *const endings[] = {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"};
    for (size_t i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%s%s%s", MODULE, c->module, endings[i]);
    const struct part parts[] = {
        {names[0], c->rank, c->cols}, {names[1], c->rows, c->rank}, {names[2], 0, c->rows}};
    struct bytes p = payload(c->config, parts, c->dora ? 3 : 2);
    struct hk_file *f = with_record(c->arch, (struct mini_change){0}, p), *merged = NULL;
    struct hk_error err = {0};
    enum hk_status status = merge(f, c->merge_scale, &merged, &err);
    if (!ok(status == HK_OK, "%s is merged %s", c->what, err.text)) {
        hk_close(&f);
        free(p.p);
        return;
    }
    float *w = values_of(f, c->base), *got = values_of(merged, c->base);
    const double error = largest_error(c, w, got);
    ok(error < 1e-6, "%s: largest error %.2g", c->what, error);
    size_t others = 0;
    for (size_t i = 0; i < hk_tensor_count(f); i++) {
        char name[HK_MAX_NAME + 1];
        const struct hk_bytes n = hk_tensor_at(f, i)->name;
        snprintf(name, sizeof name, "%.*s", (int)n.n, (const char *)n.p);
        float *a = values_of(f, name), *b = values_of(merged, name);
        others += memcmp(a, b, (size_t)hk_tensor_elems(hk_tensor_at(f, i)) * sizeof *a) != 0;
        free(a), free(b);
    }
    ok(others == 1 && hk_record_count(merged) == 0 && hk_kv_find(merged, "hk.merged") != NULL,
       "%s: no other tensor has changed, and hk.merged says it", c->what);
    free(w), free(got), free(p.p);
    hk_close(&merged);
    hk_close(&f);
}

#define QWEN_V "qwen3", CONFIG, "self_attn.v_proj", "blk.1.attn_v.weight", MINI_HEAD, MINI_WIDTH
#define WITH(config)                                                                               \
    "qwen3", CONFIG config, "mlp.down_proj", "blk.1.ffn_down.weight", MINI_WIDTH, MINI_FFN

static void test_folds(void)
{
    const struct fold folds[] = {
        {"a pair", QWEN_V, 2, 1.5, 1, false, 0},
        {"a pair half", QWEN_V, 2, 0.75, 0.5, false, 0},
        {"a pair of rank 3", WITH(",\"rank_pattern\":{\"down_proj\":3}"), 3, 1, 1, false, 0},
        {"an alpha of its own", WITH(",\"alpha_pattern\":{\"x_proj\":1,\"down_proj\":5}"), 2, 2.5,
         1, false, 0},
        {"the first pattern that matches",
         WITH(",\"alpha_pattern\":{\"mlp.down_proj\":7,\"down_proj\":5}"), 2, 3.5, 1, false, 0},
        {"a pattern matches whole parts of a name",
         WITH(",\"alpha_pattern\":{\"own_proj\":7,\"layers.0.mlp.down_proj\":9}"), 2, 1.5, 1, false,
         0},
        {"a pattern with an alternative", WITH(",\"alpha_pattern\":{\"(up|down)_proj\":7}"), 2, 3.5,
         1, false, 0},
        {"a pattern from the beginning", WITH(",\"alpha_pattern\":{\"^model.layers.1.mlp.*\":7}"),
         2, 3.5, 1, false, 0},
        {"rsLoRA", WITH(",\"use_rslora\":true"), 2, 3 / sqrt(2), 1, false, 0},
        {"rsLoRA of rank 5 and alpha 7",
         WITH(",\"use_rslora\":true,\"rank_pattern\":{\"down_proj\":5},"
              "\"alpha_pattern\":{\"down_proj\":7}"),
         5, 7 / sqrt(5), 1, false, 0},
        {"DoRA", WITH(",\"use_dora\":true"), 2, 1.5, 1, true, 0},
        {"DoRA half", WITH(",\"use_dora\":true"), 2, 0.75, 0.5, true, 0},
        {"queries of llama", "llama", CONFIG, "self_attn.q_proj", "blk.1.attn_q.weight",
         MINI_HEADS * MINI_HEAD, MINI_WIDTH, 2, 1.5, 1, false, MINI_HEADS},
        {"keys of llama", "llama", CONFIG, "self_attn.k_proj", "blk.1.attn_k.weight", MINI_HEAD,
         MINI_WIDTH, 2, 1.5, 1, false, 1},
        {"DoRA of llama's queries", "llama", CONFIG ",\"use_dora\":true", "self_attn.q_proj",
         "blk.1.attn_q.weight", MINI_HEADS * MINI_HEAD, MINI_WIDTH, 2, 1.5, 1, true, MINI_HEADS},
        {"queries of qwen3", "qwen3", CONFIG, "self_attn.q_proj", "blk.1.attn_q.weight",
         MINI_HEADS * MINI_HEAD, MINI_WIDTH, 2, 1.5, 1, false, 0},
    };
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        test_fold(&folds[i]);
}

/* A tensor that was trained whole, under each of its names. */
static void test_whole(const char *name, const char *base, uint64_t rows, uint64_t cols)
{
    const struct part part = {name, rows, cols};
    struct bytes p = payload(CONFIG, &part, 1);
    struct hk_file *f = with_record("qwen3", (struct mini_change){.name = "output.weight"}, p),
                   *merged = NULL;
    struct hk_error err = {0};
    if (ok(merge(f, 1, &merged, &err) == HK_OK, "%s is merged %s", name, err.text)) {
        float *got = values_of(merged, base);
        size_t wrong = 0;
        for (uint64_t i = 0; i < size_of(&part); i++)
            wrong += fabs((double)got[i] - value(0, i)) > 0;
        ok(wrong == 0, "%s takes the place of %s", name, base);
        free(got);
    }
    ok(merge(f, 0.5, &merged, &err) == HK_E_UNSUPPORTED && strstr(err.text, base) != NULL,
       "half of it is nothing: %s", err.text);
    hk_close(&merged);
    hk_close(&f);
    free(p.p);
}

/* ---- one tensor as embedding and head ---- */

/* How many values of NAME in the two files differ. */
static size_t differences(const struct hk_file *a, const char *name, const struct hk_file *b,
                          const char *other)
{
    const size_t n = (size_t)hk_tensor_elems(hk_tensor_find(a, name));
    float *x = values_of(a, name), *y = values_of(b, other);
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += fabs((double)x[i] - (double)y[i]) > 0;
    free(x), free(y);
    return found;
}

struct use {
    const char *what, *config;
    struct part parts[2];
    size_t count;
    bool embedding, head; /* which of them changes */
};

#define EMBED "base_model.model.model.embed_tokens"
#define HEAD "base_model.model.lm_head"

static const struct use uses[] = {
    {"a pair of the embedding",
     CONFIG,
     {{EMBED ".lora_embedding_A", 2, MINI_VOCAB}, {EMBED ".lora_embedding_B", MINI_WIDTH, 2}},
     2,
     true,
     false},
    {"a pair of the head",
     CONFIG,
     {{HEAD ".lora_A.weight", 2, MINI_WIDTH}, {HEAD ".lora_B.weight", MINI_VOCAB, 2}},
     2,
     false,
     true},
    {"a whole embedding", CONFIG, {{EMBED ".weight", MINI_VOCAB, MINI_WIDTH}}, 1, true, false},
    {"a whole head", CONFIG, {{HEAD ".weight", MINI_VOCAB, MINI_WIDTH}}, 1, false, true},
    {"trained rows",
     CONFIG ",\"trainable_token_indices\":[3,1]",
     {{EMBED ".token_adapter.trainable_tokens_delta", 2, MINI_WIDTH}},
     1,
     true,
     true},
};

/* HOW the base has its head: not at all, or as a reference. */
static void test_use(const struct use *u, struct mini_change how, const char *base)
{
    struct bytes p = payload(u->config, u->parts, u->count);
    struct hk_file *f = with_record("qwen3", how, p), *merged = NULL;
    struct hk_error err = {0};
    const char *embedding = "token_embd.weight", *head = "output.weight";
    if (ok(merge(f, 1, &merged, &err) == HK_OK, "%s, %s %s", base, u->what, err.text)) {
        const bool own = hk_tensor_find(merged, head) != NULL;
        ok((differences(f, embedding, merged, embedding) > 0) == u->embedding, "the embedding");
        ok((differences(f, embedding, merged, own ? head : embedding) > 0) == u->head, "the head");
    }
    hk_close(&merged);
    hk_close(&f);
    free(p.p);
}

static void test_uses(void)
{
    const struct mini_change none = {.how = MINI_DROP, .name = "output.weight"},
                             shared = {.how = MINI_SHARED, .name = "output.weight"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        test_use(&uses[i], none, "tied");
        test_use(&uses[i], shared, "a reference");
    }
}

/* ---- refused by name ---- */

struct refusal {
    const char *config;
    struct part parts[3];
    size_t count;
    enum hk_status status;
    const char *named;
};

static void test_refused(const struct refusal *r)
{
    struct bytes p = payload(r->config, r->parts, r->count);
    struct hk_file *f = with_record("qwen3", (struct mini_change){0}, p);
    struct hk_adapter *a = NULL;
    struct hk_error err = {0};
    const enum hk_status status = hk_adapter_open(&a, f, 0, &err);
    ok(status == r->status && a == NULL && strstr(err.text, r->named) != NULL &&
           strstr(err.text, "'it'") != NULL,
       "refused: %s", err.text);
    hk_adapter_free(&a);
    hk_close(&f);
    free(p.p);
}

#define V_A                                                                                        \
    {                                                                                              \
        MODULE "self_attn.v_proj.lora_A.weight", 2, MINI_WIDTH                                     \
    }
#define V_B                                                                                        \
    {                                                                                              \
        MODULE "self_attn.v_proj.lora_B.weight", MINI_HEAD, 2                                      \
    }

static const struct refusal refusals[] = {
    {CONFIG, {V_A}, 1, HK_E_FORMAT, "lora_A.weight: its lora_B is missing"},
    {CONFIG, {V_B}, 1, HK_E_FORMAT, "lora_B.weight: its lora_A is missing"},
    {CONFIG,
     {{MODULE "self_attn.v_proj.lora_A.weight", 2, MINI_WIDTH + 1}, V_B},
     2,
     HK_E_FORMAT,
     "lora_A.weight"},
    {CONFIG,
     {V_A, {MODULE "self_attn.v_proj.lora_B.weight", MINI_HEAD + 1, 2}},
     2,
     HK_E_FORMAT,
     "lora_B.weight"},
    {CONFIG,
     {V_A, {MODULE "self_attn.v_proj.lora_B.weight", 0, 2 * MINI_HEAD}},
     2,
     HK_E_FORMAT,
     "lora_B.weight"},
    {CONFIG,
     {V_A, V_B, {MODULE "self_attn.v_proj.lora_A.default.weight", 2, MINI_WIDTH}},
     3,
     HK_E_FORMAT,
     "lora_A.default.weight"},
    {CONFIG,
     {V_A, V_B, {MODULE "self_attn.v_proj.lora_B.default.weight", MINI_HEAD, 2}},
     3,
     HK_E_FORMAT,
     "lora_B.default.weight"},
    {CONFIG,
     {V_A, V_B, {MODULE "self_attn.v_proj.lora_magnitude_vector", 0, MINI_HEAD}},
     3,
     HK_E_FORMAT,
     "magnitude"},
    {CONFIG ",\"use_dora\":true", {V_A, V_B}, 2, HK_E_FORMAT, "no magnitude"},
    {CONFIG ",\"use_dora\":true",
     {V_A, V_B, {MODULE "self_attn.v_proj.lora_magnitude_vector", 0, MINI_HEAD - 1}},
     3,
     HK_E_FORMAT,
     "magnitude_vector"},
    {CONFIG,
     {V_A, V_B, {MODULE "mlp.up_proj.lora_magnitude_vector", 0, MINI_FFN}},
     3,
     HK_E_FORMAT,
     "up_proj"},
    {CONFIG,
     {V_A, V_B, {"base_model.model.model.embed_tokens.lora_embedding_A", 2, MINI_VOCAB}},
     3,
     HK_E_FORMAT,
     "lora_embedding_A: its lora_embedding_B is missing"},
    {CONFIG,
     {V_A, V_B, {MODULE "self_attn.v_proj.lora_B.bias", 0, MINI_HEAD}},
     3,
     HK_E_UNSUPPORTED,
     "lora_B.bias"},
    {CONFIG,
     {{MODULE "self_attn.v_proj.lora_A.other.weight", 2, MINI_WIDTH}},
     1,
     HK_E_UNSUPPORTED,
     "lora_A.other"},
    {CONFIG, {{"model.layers.1.x.weight", 2, 2}}, 1, HK_E_UNSUPPORTED, "layers.1.x"},
    {CONFIG,
     {{"base_model.model.model.layers.2.self_attn.v_proj.lora_A.weight", 2, MINI_WIDTH}},
     1,
     HK_E_UNSUPPORTED,
     "layers.2.self_attn.v_proj"},
    {CONFIG,
     {{"base_model.model.lm_head.weight", MINI_VOCAB + 1, MINI_WIDTH}},
     1,
     HK_E_FORMAT,
     "lm_head.weight"},
    {CONFIG,
     {{"base_model.model.model.norm.weight", 0, MINI_WIDTH + 1}},
     1,
     HK_E_FORMAT,
     "norm.weight"},
    {CONFIG,
     {{"base_model.model.model.norm.original_module.weight", 0, MINI_WIDTH}},
     1,
     HK_E_UNSUPPORTED,
     "original_module"},
    {CONFIG ",\"r\":2", {V_A, V_B}, 2, HK_E_FORMAT, "adapter_config"},
    {CONFIG ",", {V_A, V_B}, 2, HK_E_FORMAT, "adapter_config"},
    {"\"peft_type\":\"LORA\",\"r\":1e9", {V_A, V_B}, 2, HK_E_FORMAT, "key r"},
    {"\"peft_type\":\"LORA\",\"r\":-2", {V_A, V_B}, 2, HK_E_RANGE, "r is no rank"},
    {"\"peft_type\":\"LORA\",\"r\":70000", {V_A, V_B}, 2, HK_E_RANGE, "r is no rank"},
    {"\"peft_type\":\"LORA\"", {V_A, V_B}, 2, HK_E_FORMAT, "lora_A.weight"}, /* r is 8 */
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        test_refused(&refusals[i]);
}

/* ---- hostile payloads ---- */

/* A result of any kind; more memory or time than the payload is worth is for the sanitizer and the
 * clock to find. */
static bool survives(struct bytes p)
{
    struct hk_error err = {0};
    struct hk_file *f = with_record("llama", (struct mini_change){0}, p), *merged = NULL;
    const enum hk_status status = merge(f, 1, &merged, &err);
    hk_close(&merged);
    hk_close(&f);
    return status == HK_OK || err.text[0] != '\0';
}

static void test_hostile(void)
{
    const struct part parts[] = {V_A, V_B};
    static const uint8_t marks[8] = {'0', ':', '{', '}', '[', ']', '"', ','};
    struct bytes p = payload(CONFIG, parts, 2), broken = {malloc(p.n), 0};
    unsigned silent = 0;
    for (broken.n = 0; broken.n < p.n; broken.n++) {
        memcpy(broken.p, p.p, broken.n);
        silent += !survives(broken);
    }
    ok(silent == 0, "cut at each of %zu bytes", p.n);
    const size_t head = (size_t)le64(p.p) + 8;
    uint32_t state = 7;
    broken.n = p.n;
    for (unsigned i = 0; i < 3000; i++) {
        memcpy(broken.p, p.p, p.n);
        for (unsigned k = 0; k <= i % 3; k++) {
            state = state * 1664525u + 1013904223u;
            broken.p[(state >> 8) % head] =
                k == 2 ? (uint8_t)(state >> 24) : marks[state >> 28 & 7];
        }
        silent += !survives(broken);
    }
    ok(silent == 0, "3000 heads with other bytes");
    free(broken.p), free(p.p);
}

int main(void)
{
    test_folds();
    test_whole("base_model.model.lm_head.weight", "output.weight", MINI_VOCAB, MINI_WIDTH);
    test_whole("base_model.model.lm_head.modules_to_save.weight", "output.weight", MINI_VOCAB,
               MINI_WIDTH);
    test_whole("base_model.model.lm_head.modules_to_save.default.weight", "output.weight",
               MINI_VOCAB, MINI_WIDTH);
    test_whole("base_model.model.model.norm.weight", "output_norm.weight", 0, MINI_WIDTH);
    test_whole("base_model.model.model.embed_tokens.weight", "token_embd.weight", MINI_VOCAB,
               MINI_WIDTH);
    test_uses();
    test_refusals();
    test_hostile();
    return tap_done();
}
