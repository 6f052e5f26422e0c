/* Tensors and metadata of a model that becomes a Hugging Face directory, and what is refused
 * because the directory could not tell it. */
#include <math.h>

#include "tests/lib/mk_hf.h"

/* ---- tensors ---- */

static float value(const struct hk_file *f, const char *name, uint64_t at)
{
    const struct hk_tensor *t = hk_tensor_find(f, name);
    struct hk_decoder *d = NULL;
    float v = NAN;
    if (t != NULL && at < hk_tensor_elems(t) && hk_decoder_new(&d, f, t, NULL) == HK_OK)
        hk_decoder_read(d, at, 1, &v);
    hk_decoder_free(&d);
    return v;
}

/* Whether rows of NAME in F, HEADS heads of them, are those of WAS in FROM, pairs apart. */
static bool are_halves(const struct hk_file *f, const char *name, const struct hk_file *from,
                       const char *was, uint64_t heads)
{
    const struct hk_tensor *t = hk_tensor_find(f, name);
    const uint64_t rows = t == NULL ? 0 : t->shape[0], half = rows / heads / 2;
    const uint64_t cols = t != NULL && t->ndim == 2 ? t->shape[1] : 1;
    bool good = rows > 0;
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t s = 0; s < 2; s++)
            for (uint64_t i = 0; i < half; i++)
                for (uint64_t c = 0; c < cols; c++)
                    good = good && value(f, name, ((2 * h + s) * half + i) * cols + c) ==
                                       value(from, was, (2 * (h * half + i) + s) * cols + c);
    return good;
}

static void test_rows(const char *arch, const char *style, bool reordered)
{
    static const char q[] = "model.layers.1.self_attn.q_proj.",
                      k[] = "model.layers.0.self_attn.k_proj.";
    const struct change changes[] = {{style != NULL ? TEXT : END, "hk.rope_style", 0, style}, {0}};
    struct hk_file *from = model(arch, changes);
    struct exported e = export(model(arch, changes));
    const char *const what = style != NULL ? style : "its own";
    char name[64], bias[64];
    snprintf(name, sizeof name, "%sweight", q);
    ok(e.status == HK_OK && are_halves(e.f, name, from, "blk.1.attn_q.weight", HEADS) == reordered,
       "%s of %s style: q", arch, what);
    snprintf(name, sizeof name, "%sweight", k);
    ok(e.status == HK_OK && are_halves(e.f, name, from, "blk.0.attn_k.weight", KV) == reordered,
       "%s of %s style: k", arch, what);
    snprintf(bias, sizeof bias, "%sbias", q);
    if (e.f != NULL && hk_tensor_find(e.f, bias) != NULL)
        ok(are_halves(e.f, bias, from, "blk.1.attn_q.bias", HEADS) == reordered,
           "%s of %s style: the bias of q", arch, what);
    if (!reordered)
        ok(e.status == HK_OK && value(e.f, name, 9) == value(from, "blk.0.attn_k.weight", 9),
           "%s of %s style: rows stay", arch, what);
    hk_close(&from);
    done(&e);
}

static void test_heads(void)
{
    static const struct {
        double output;
        const char *config;
        bool tied;
    } rows[] = {
        {0, NULL, true}, {1, NULL, false}, /* equal by chance, or untied one day: it stays as it was
                                            */
        {2, NULL, true}, {3, NULL, false}, {1, STORED "}", true}, {3, STORED "}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct change config = {JSON, "hk.hf.config", 0, rows[i].config};
        const struct change changes[] = {
            rows[i].output > 0 ? (struct change){OUTPUT, "", rows[i].output, NULL}
                               : (struct change){INT, "general.none", 0, NULL},
            rows[i].config != NULL ? config : (struct change){0},
            {0},
        };
        struct exported e = export(model("llama", changes));
        char got[256];
        const char *tied = field(&e, "config.json", "tie_word_embeddings", got);
        ok(e.status == HK_OK && strcmp(tied, rows[i].tied ? "true" : "false") == 0 &&
               (hk_tensor_find(e.f, "lm_head.weight") == NULL) == rows[i].tied,
           "head %g, %s: tied %s %s", rows[i].output, rows[i].config != NULL ? "stored" : "new",
           tied, e.err.text);
        done(&e);
    }
}

static void test_types(void)
{
    char path[4096];
    const char *dir = getenv("HK_SHARED");
    snprintf(path, sizeof path, "%s/fixtures/models/stories260K-q8_0.gguf", dir == NULL ? "" : dir);
    struct hk_file *f = NULL, *again = NULL;
    struct exported e;
    if (dir == NULL || hk_open(&f, path, NULL) != HK_OK || hk_open(&again, path, NULL) != HK_OK) {
        tap_skip("quantised tensors", "SKIPPED: no shared fixtures (set HK_SHARED)");
        return;
    }
    e = export_as(f, HK_TYPE_BF16);
    size_t wrong = 0, lines = 0;
    for (uint64_t i = 0; e.status == HK_OK && i < 64 * 64; i++) {
        uint32_t want, got;
        float v = value(again, "blk.2.attn_v.weight", i % (32 * 64));
        memcpy(&want, &v, sizeof want);
        v = value(e.f, "model.layers.2.self_attn.v_proj.weight", i % (32 * 64));
        memcpy(&got, &v, sizeof got);
        want += 0x7fff + (want >> 16 & 1);
        wrong += got != (want & 0xffff0000);
    }
    for (const char *s = e.losses; (s = strchr(s, '\n')) != NULL; s++)
        lines++;
    ok(e.status == HK_OK && wrong == 0, "q8_0 is rounded to bf16: %zu wrong %s", wrong, e.err.text);
    ok(lines == 3 && strstr(e.losses, "q8_0") != NULL &&
           strstr(e.losses, "general.file_type") != NULL,
       "told in few lines: %s", e.losses);
    hk_close(&again);
    done(&e);
}

static void test_losses(void)
{
    const struct change changes[] = {
        {INT, "general.file_type", 0, NULL},
        {INT, "llama.attention.sliding_window", 0, NULL},
        {INT, "llama.attention.key_length", 4, NULL},
        {REAL, "llama.no_scale", 2, NULL},
        {TEXT, "format", 0, "mine"},
        {0},
    };
    struct exported e = export(model("llama", changes));
    ok(e.status == HK_OK && strstr(e.losses, "llama.no_scale") != NULL &&
           strstr(e.losses, "key format") != NULL && strstr(e.losses, "window") == NULL,
       "a key that no field is for: %s", e.losses);
    ok(e.f != NULL && hk_kv_find(e.f, "llama.no_scale") != NULL &&
           hk_kv_find(e.f, "llama.attention.key_length") != NULL &&
           hk_kv_find(e.f, "llama.attention.sliding_window") == NULL &&
           hk_kv_find(e.f, "general.file_type") != NULL &&
           hk_bytes_are(hk_kv_find(e.f, "format")->value, "pt"),
       "what no file tells stays in __metadata__");
    done(&e);
}

/* What a file leaves open has the defaults that it runs with. */
static void test_defaults(void)
{
    const struct change changes[] = {{DROP, "llama.context_length", 0, NULL},
                                     {DROP, "llama.attention.layer_norm_rms_epsilon", 0, NULL},
                                     {0}};
    struct exported e = export(model("llama", changes));
    char context[256], epsilon[256];
    ok(e.status == HK_OK &&
           strcmp(field(&e, "config.json", "max_position_embeddings", context), "2048") == 0 &&
           strcmp(field(&e, "config.json", "rms_norm_eps", epsilon), "1e-5") == 0,
       "defaults are written out: %s %s %s", context, epsilon, e.err.text);
    done(&e);
}

/* ---- what is refused ---- */

static void test_refused(void)
{
#define R "llama.rope."
    static const struct {
        const char *arch;
        struct change changes[5];
        const char *text;
    } rows[] = {
        {"llama", {{DROP, "general.architecture", 0, NULL}}, "no key general.architecture"},
        {"rwkv7", {{0}}, "'rwkv7'"},
        {"llama", {{DROP, "llama.block_count", 0, NULL}}, "llama.block_count"},
        {"llama", {{DROP, "llama.embedding_length", 0, NULL}}, "llama.embedding_length"},
        {"llama", {{DROP, "llama.feed_forward_length", 0, NULL}}, "llama.feed_forward_length"},
        {"llama", {{DROP, "llama.attention.head_count", 0, NULL}}, "llama.attention.head_count"},
        {"llama", {{REAL, "llama.attention.layer_norm_rms_epsilon", 0, NULL}}, "above 0"},
        {"llama", {{INT, "llama.block_count", -1, NULL}}, "is -1, not 1 to"},
        {"llama", {{TEXT, "llama.block_count", 0, "2"}}, "llama.block_count"},
        {"llama", {{INT, "llama.attention.head_count_kv", 3, NULL}}, "cannot share 3"},
        {"llama", {{INT, "llama.attention.value_length", 6, NULL}}, "one head_dim"},
        {"llama", {{INT, R "dimension_count", 3, NULL}}, "not even"},
        {"llama", {{INT, R "dimension_count", 2, NULL}}, "rotated in part"},
        {"llama", {{TEXT, "hk.rope_style", 0, "glm"}}, "'glm'"},
        {"llama",
         {{INT, "llama.attention.sliding_window", 32, NULL}},
         "sliding_window is 32: config.json has no field for it"},
        {"llama", {{REAL, "llama.logit_scale", 2, NULL}}, "logit_scale is 2: config.json has no"},
        {"llama", {{REAL, "llama.attention.scale", 2, NULL}}, "attention.scale is 2: config"},
        {"mistral",
         {{INT, "mistral.attention.sliding_window_pattern", 3, NULL},
          {INT, "mistral.attention.sliding_window", 32, NULL}},
         "window_pattern is 3"},
        {"qwen2", {{INT, "qwen2.expert_count", 8, NULL}}, "qwen2.expert_count"},
        {"llama", {{FLAG, "llama.attention.causal", 0, NULL}}, "llama.attention.causal"},
        {"llama", {{TEXT, R "scaling.type", 0, "longrope"}}, "'longrope'"},
        {"llama", {{REAL, R "scaling.yarn_log_multiplier", 0.1, NULL}}, "yarn_log_multiplier"},
        {"llama", {{REAL, R "scaling.attn_factor", 2, NULL}}, "attn_factor"},
        {"llama", {{REAL, R "scaling.yarn_attn_factor", 2, NULL}}, "yarn_attn_factor"},
        {"llama", {{REAL, R "scaling.yarn_ext_factor", 0.5, NULL}}, "yarn_ext_factor"},
        {"llama",
         {{TEXT, R "scaling.type", 0, "llama3"}, {REAL, "hk.rope.low_freq_factor", 4, NULL}},
         "not above the low one"},
        {"llama",
         {{REAL, R "freq_base", 1e9, NULL}, {FACTORS, "rope_freqs.weight", 8.001, NULL}},
         "than a published llama3 scaling"},
        {"llama",
         {{TEXT, R "scaling.type", 0, "llama3"},
          {REAL, R "scaling.factor", 8, NULL},
          {REAL, R "freq_base", 1e9, NULL},
          {FACTORS, "rope_freqs.weight", 32, NULL}},
         "keys of llama3 scaling give"},
        {"llama",
         {{REAL, R "scaling.factor", 2, NULL}, {FACTORS, "rope_freqs.weight", 1, NULL}},
         "the scaling that the keys name"},
        {"llama", {{VECTOR, "rope_freqs.weight", 3, NULL}}, "3 factors for 2 pairs"},
        {"llama", {{VECTOR, "rope_factors_long.weight", 2, NULL}}, "rope_factors_long.weight"},
        {"llama", {{VECTOR, "blk.0.attn_q.bias", 8, NULL}}, "blk.0.attn_q.bias"},
        {"llama", {{VECTOR, "blk.2.ffn_norm.weight", 8, NULL}}, "blk.2.ffn_norm.weight"},
        {"llama", {{DROP, "token_embd.weight", 0, NULL}}, "token_embd.weight"},
        {"qwen2", {{DROP, "blk.1.attn_k.bias", 0, NULL}}, "no tensor blk.1.attn_k.bias"},
        {"qwen3", {{DROP, "blk.1.attn_k_norm.weight", 0, NULL}}, "blk.1.attn_k_norm.weight"},
        {"llama", {{ROWS, "blk.1.attn_k.weight", 8, NULL}}, "4 x 8"},
        {"llama", {{ROWS, "output_norm.weight", 1, NULL}}, "output_norm.weight"},
        {"llama", {{INT, "llama.block_count", 1 << 20, NULL}}, "but the file has 20 tensors"},
        {"llama", {{JSON, "hk.hf.config", 0, "[1]"}}, "hk.hf.config"},
        {"llama", {{JSON, "hk.hf.config", 0, "{"}}, "hk.hf.config"},
        {"llama", {{JSON, "hk.hf.config", 0, "{}"}}, "hk.hf.config"},
        {"llama", {{JSON, "hk.hf.generation_config", 0, "7"}}, "hk.hf.generation_config"},
        {"llama", {{INT, "hk.hf.config", 1, NULL}}, "hk.hf.config"},
        {"llama", {{TEXT, "tokenizer.hk.eog_ids", 0, "x"}}, "tokenizer.hk.eog_ids"},
        {"llama", {{TEXT, "tokenizer.ggml.eos_token_id", 0, "x"}}, "tokenizer.ggml.eos_token_id"},
    };
#undef R
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct exported e = export(model(rows[i].arch, rows[i].changes));
        ok(e.status != HK_OK && e.status != HK_E_NOMEM && strstr(e.err.text, rows[i].text) != NULL,
           "refused: %s", e.status != HK_OK ? e.err.text : rows[i].text);
        done(&e);
    }
}

int main(void)
{
    test_rows("llama", NULL, true);
    test_rows("llama", "norm", true);
    test_rows("llama", "neox", false);
    test_rows("qwen2", NULL, false);
    test_rows("qwen2", "norm", true);
    test_rows("qwen3", "neox", false);
    test_heads();
    test_types();
    test_losses();
    test_defaults();
    test_refused();
    return tap_done();
}
