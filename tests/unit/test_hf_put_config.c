/* config.json and generation_config.json of a model that becomes a Hugging Face directory: all that
 * transformers needs, what is stored as it was, and what was changed since. */
#include "tests/lib/mk_hf.h"

/* ---- where nothing is stored ---- */

static void test_new_config(void)
{
    static const struct change changes[] = {
        {INT, "tokenizer.ggml.bos_token_id", 1, NULL},
        {INT, "tokenizer.ggml.eos_token_id", 2, NULL},
        {INT, "tokenizer.ggml.padding_token_id", 3, NULL},
        {0},
    };
    static const struct wanted all[] = {
        {"architectures", "[\"LlamaForCausalLM\"]"},
        {"model_type", "\"llama\""},
        {"hidden_act", "\"silu\""},
        {"hidden_size", "8"},
        {"intermediate_size", "12"},
        {"num_hidden_layers", "2"},
        {"num_attention_heads", "2"},
        {"num_key_value_heads", "1"},
        {"head_dim", "4"},
        {"vocab_size", "16"},
        {"max_position_embeddings", "64"},
        {"rope_theta", "10000.0"},
        {"rope_scaling", "null"},
        {"tie_word_embeddings", "true"},
        {"attention_bias", "false"},
        {"mlp_bias", "false"},
        {"sliding_window", "null"},
        {"use_sliding_window", "false"},
        {"torch_dtype", "\"float32\""},
        {"bos_token_id", "1"},
        {"eos_token_id", "2"},
        {"pad_token_id", "3"},
        {NULL, NULL},
    };
    struct exported e = export(model("llama", changes));
    says(&e, "nothing stored", "config.json", all);
    const struct hk_bytes text = side(&e, "config.json");
    ok(memmem(text.p, text.n, "\"rms_norm_eps\": 1e-05,", 22) != NULL, "epsilon is 1e-05");
    ok(side(&e, "generation_config.json").p == NULL, "no generation_config.json for one end");
    done(&e);
    e = export(model("qwen2", (const struct change[]){{0}}));
    says(&e, "qwen2", "config.json",
         (const struct wanted[]){{"model_type", "\"qwen2\""},
                                 {"architectures", "[\"Qwen2ForCausalLM\"]"},
                                 {"attention_bias", "absent"},
                                 {"bos_token_id", "absent"},
                                 {NULL, NULL}});
    done(&e);
}

static void test_numbers(void)
{
    static const struct {
        double v;
        const char *text;
    } rows[] = {
        {(double)1e-5f, "1e-05"},
        {(double)1e-6f, "1e-06"},
        {500000, "500000.0"},
        {(double)0.1f, "0.1"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {(double)(1.0f / 3), "0.33333334"},
        {5e20, "5e+20"},
        {32, "32.0"},
        {-2.5, "-2.5"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hk_side_files s = {0};
        json_t *array = json_pack("[f]", hk_hf_short(rows[i].v));
        char got[64] = "", want[64];
        mk_need(hk_side_files_json(&s, "x", array, NULL) == HK_OK, "json");
        snprintf(got, sizeof got, "%.*s", (int)s.files[0].bytes.n, s.files[0].bytes.p);
        snprintf(want, sizeof want, "[\n  %s\n]\n", rows[i].text);
        ok(strcmp(got, want) == 0, "%s", rows[i].text);
        json_decref(array);
        hk_side_files_free(&s);
    }
}

static void test_rope(void)
{
#define A "llama.rope."
    static const struct {
        const char *what;
        struct change changes[10];
        struct wanted wanted[8];
    } rows[] = {
        {"linear",
         {{TEXT, A "scaling.type", 0, "linear"}, {REAL, A "scaling.factor", 2.5, NULL}},
         {{"rope_scaling", "{\"factor\":2.5,\"rope_type\":\"linear\"}"}}},
        {"a factor alone",
         {{REAL, A "scale_linear", 4, NULL}},
         {{"rope_scaling", "{\"factor\":4.0,\"rope_type\":\"linear\"}"}}},
        {"none",
         {{TEXT, A "scaling.type", 0, "none"}, {REAL, A "freq_base", 5e5, NULL}},
         {{"rope_scaling", "null"}, {"rope_theta", "500000.0"}}},
        {"dynamic",
         {{TEXT, "hk.rope.scaling.type", 0, "dynamic"}, {REAL, "hk.rope.scaling.factor", 2, NULL}},
         {{"rope_scaling", "{\"factor\":2.0,\"rope_type\":\"dynamic\"}"}}},
        {"llama3",
         {{TEXT, A "scaling.type", 0, "llama3"},
          {REAL, A "scaling.factor", 16, NULL},
          {INT, A "scaling.original_context_length", 32, NULL},
          {REAL, "hk.rope.low_freq_factor", 2, NULL},
          {REAL, "hk.rope.high_freq_factor", 3, NULL}},
         {{"rope_scaling.rope_type", "\"llama3\""},
          {"rope_scaling.factor", "16.0"},
          {"rope_scaling.original_max_position_embeddings", "32"},
          {"rope_scaling.low_freq_factor", "2.0"},
          {"rope_scaling.high_freq_factor", "3.0"}}},
        {"yarn",
         {{TEXT, A "scaling.type", 0, "yarn"},
          {REAL, A "scaling.factor", 4, NULL},
          {REAL, A "scaling.attn_factor", 0.5, NULL},
          {REAL, A "scaling.yarn_beta_fast", 24, NULL},
          {REAL, A "scaling.yarn_ext_factor", 1, NULL}},
         {{"rope_scaling.rope_type", "\"yarn\""},
          {"rope_scaling.factor", "4.0"},
          {"rope_scaling.original_max_position_embeddings", "64"},
          {"rope_scaling.attention_factor", "0.5693147"},
          {"rope_scaling.beta_fast", "24.0"},
          {"rope_scaling.beta_slow", "1.0"}}},
        {"factors of Llama 3.1",
         {{REAL, A "freq_base", 425000, NULL}, {FACTORS, "rope_freqs.weight", 2.4001113, NULL}},
         {{"rope_scaling.rope_type", "\"llama3\""},
          {"rope_scaling.factor", "8.0"},
          {"rope_scaling.original_max_position_embeddings", "8192"},
          {"rope_scaling.low_freq_factor", "1.0"},
          {"rope_scaling.high_freq_factor", "4.0"}}},
        {"factors of Llama 3.2",
         {{REAL, A "freq_base", 1e9, NULL}, {FACTORS, "rope_freqs.weight", 32, NULL}},
         {{"rope_scaling.factor", "32.0"}}},
        {"factors and their keys",
         {{TEXT, A "scaling.type", 0, "llama3"},
          {REAL, A "scaling.factor", 9, NULL},
          {REAL, A "freq_base", 1e9, NULL},
          {FACTORS, "rope_freqs.weight", 9, NULL}},
         {{"rope_scaling.factor", "9.0"}}},
    };
#undef A
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct exported e = export(model("llama", rows[i].changes));
        says(&e, rows[i].what, "config.json", rows[i].wanted);
        ok(e.f == NULL || hk_tensor_find(e.f, "rope_freqs.weight") == NULL, "%s: no tensor",
           rows[i].what);
        done(&e);
    }
}

/* ---- what is stored comes back ---- */

static void test_unchanged(void)
{
    static const char config[] = STORED "}\n", generation[] = "{\"eos_token_id\": 4}";
    static const struct change changes[] = {
        {JSON, "hk.hf.config", 0, config},
        {JSON, "hk.hf.generation_config", 0, generation},
        {TEXT, "hk.rope_style", 0, "neox"},
        {INT, "tokenizer.ggml.bos_token_id", 1, NULL},
        {INT, "tokenizer.ggml.eos_token_id", 5, NULL},
        {IDS, "tokenizer.hk.eog_ids", 0, "2345"},
        {INT, "general.count", 7, NULL},
        {0},
    };
    struct exported e = export(model("llama", changes));
    struct hk_bytes text = side(&e, "config.json");
    ok(e.status == HK_OK, "stored: %s", e.err.text);
    ok(hk_bytes_are(text, config), "config.json comes back byte for byte");
    text = side(&e, "generation_config.json");
    ok(hk_bytes_are(text, generation), "generation_config.json too");
    ok(hk_kv_find(e.f, "hk.hf.config") == NULL && hk_kv_find(e.f, "hk.rope_style") == NULL &&
           hk_kv_find(e.f, "llama.block_count") == NULL &&
           hk_kv_find(e.f, "general.architecture") == NULL,
       "what the files tell is not in __metadata__");
    const struct hk_kv *kv = hk_kv_find(e.f, "general.count");
    int64_t v = 0;
    ok(kv != NULL && hk_kv_int(kv, &v, NULL) == HK_OK && v == 7, "the rest is, with its type");
    kv = hk_kv_find(e.f, "format");
    ok(kv != NULL && hk_bytes_are(kv->value, "pt"), "and the format that transformers asks for");
    ok(e.losses[0] == '\0', "nothing is lost: %s", e.losses);
    done(&e);
}

/* The stored config with MORE fields, and one key changed. */
static void test_edit(const char *what, const char *more, struct change change,
                      const struct wanted *wanted)
{
    char config[2048];
    snprintf(config, sizeof config, "%s%s}", STORED, more);
    const struct change changes[] = {
        {JSON, "hk.hf.config", 0, config}, {IDS, "tokenizer.hk.eog_ids", 0, "23"}, change, {0}};
    struct exported e = export(model("llama", changes));
    says(&e, what, "config.json", wanted);
    done(&e);
}

static void test_edits(void)
{
    static const char nested[] =
        ",\"rope_parameters\":{\"rope_theta\":10000,\"rope_type\":\"default\"}";
    static const struct {
        const char *what, *more;
        struct change change;
        struct wanted wanted[4];
    } rows[] = {
        {"context",
         "",
         {INT, "llama.context_length", 32, NULL},
         {{"max_position_embeddings", "32"}, {"own", "[100000.0]"}, {"hidden_size", "8.0"}}},
        {"epsilon",
         "",
         {REAL, "llama.attention.layer_norm_rms_epsilon", 0.25, NULL},
         {{"rms_norm_eps", "0.25"}}},
        {"base",
         "",
         {REAL, "llama.rope.freq_base", 1e6, NULL},
         {{"rope_theta", "1000000.0"}, {"rope_scaling", "null"}, {"rope_parameters", "absent"}}},
        {"base of version 5",
         nested,
         {REAL, "llama.rope.freq_base", 1e6, NULL},
         {{"rope_parameters", "{\"rope_theta\":1000000.0,\"rope_type\":\"default\"}"},
          {"rope_theta", "absent"},
          {"rope_scaling", "absent"}}},
        {"scaling of version 5",
         nested,
         {REAL, "llama.rope.scaling.factor", 2, NULL},
         {{"rope_parameters", "{\"factor\":2.0,\"rope_theta\":10000.0,\"rope_type\":\"linear\"}"},
          {"rope_scaling", "absent"}}},
        {"scaling taken away",
         ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
         {TEXT, "llama.rope.scaling.type", 0, "none"},
         {{"rope_scaling", "null"}}},
        {"scaling kept",
         ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}",
         {REAL, "llama.rope.scaling.factor", 2, NULL},
         {{"rope_scaling", "{\"factor\":2,\"type\":\"linear\"}"}}},
        {"bos", "", {INT, "tokenizer.ggml.bos_token_id", 9, NULL}, {{"bos_token_id", "9"}}},
        {"an original context beside it",
         ",\"original_max_position_embeddings\":16,\"rope_scaling\":{\"rope_type\":\"yarn\","
         "\"factor\":4,\"attention_factor\":1}",
         {REAL, "llama.rope.scaling.factor", 2, NULL},
         {{"original_max_position_embeddings", "absent"},
          {"rope_scaling", "{\"factor\":2.0,\"rope_type\":\"linear\"}"}}},
        {"pad, which was none",
         "",
         {INT, "tokenizer.ggml.padding_token_id", 9, NULL},
         {{"pad_token_id", "absent"}}},
        {"an end less", "", {IDS, "tokenizer.hk.eog_ids", 0, "3"}, {{"eos_token_id", "3"}}},
        {"an end more", "", {IDS, "tokenizer.hk.eog_ids", 0, "324"}, {{"eos_token_id", "[3,2,4]"}}},
        {"another embedding", "", {ROWS, "token_embd.weight", 18, NULL}, {{"vocab_size", "18"}}},
        {"a head of its own", "", {OUTPUT, "", 3, NULL}, {{"tie_word_embeddings", "false"}}},
        {"another type",
         "",
         {TYPE, "token_embd.weight", HK_TYPE_BF16, NULL},
         {{"dtype", "\"float32\""}, {"torch_dtype", "absent"}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        test_edit(rows[i].what, rows[i].more, rows[i].change, rows[i].wanted);
}

static void test_ends(void)
{
    const struct change changes[] = {{INT, "tokenizer.ggml.bos_token_id", 1, NULL},
                                     {INT, "tokenizer.ggml.eos_token_id", 2, NULL},
                                     {INT, "tokenizer.ggml.eot_token_id", 5, NULL},
                                     {IDS, "tokenizer.hk.eog_ids", 0, "27"},
                                     {0}};
    struct exported e = export(model("llama", changes));
    says(&e, "several ends", "config.json",
         (const struct wanted[]){{"eos_token_id", "[2,5,7]"}, {NULL, NULL}});
    says(&e, "several ends", "generation_config.json",
         (const struct wanted[]){{"eos_token_id", "[2,5,7]"}, {"bos_token_id", "1"}, {NULL, NULL}});
    done(&e);
    /* Where the tokenizer's files name a token, config.json may have another. */
    const struct change named[] = {{JSON, "hk.hf.config", 0, STORED "}"},
                                   {JSON, "hk.hf.tokenizer_config", 0, "{\"bos_token\":\"<s>\"}"},
                                   {INT, "tokenizer.ggml.bos_token_id", 9, NULL},
                                   {IDS, "tokenizer.hk.eog_ids", 0, "23"},
                                   {0}};
    e = export(model("llama", named));
    ok(hk_bytes_are(side(&e, "config.json"), STORED "}"), "a bos that the tokenizer names");
    done(&e);
    const struct change other[] = {{JSON, "hk.hf.config", 0, STORED "}"}, {0}};
    e = export(model("qwen2", other));
    says(&e, "another architecture", "config.json",
         (const struct wanted[]){{"model_type", "\"qwen2\""},
                                 {"architectures", "[\"Qwen2ForCausalLM\"]"},
                                 {NULL, NULL}});
    done(&e);
}

int main(void)
{
    test_numbers();
    test_new_config();
    test_rope();
    test_unchanged();
    test_edits();
    test_ends();
    return tap_done();
}
