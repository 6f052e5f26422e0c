/* Settings of adapters that come from anywhere: patterns that cost too much, values of another
 * type, a file that is no JSON. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/hkmodel.h"
#include "tests/lib/tap.h"

#define Q "model.layers.1.self_attn.q_proj"

static const struct {
    const char *what, *settings;
    enum hk_status status;
    unsigned rank;
} rows[] = {
    {"nothing", "", HK_OK, 8},
    {"a name", ", \"rank_pattern\": {\"q_proj\": 4}", HK_OK, 4},
    {"another name", ", \"rank_pattern\": {\"k_proj\": 4}", HK_OK, 8},
    {"a pattern", ", \"rank_pattern\": {\"layers.(1|2).*(q|k)_proj\": 4}", HK_OK, 4},
    {"a pattern with a plus", ", \"rank_pattern\": {\".+q_proj\": 4}", HK_OK, 4},
    {"the first of two", ", \"rank_pattern\": {\".*q_proj\": 4, \"q_proj\": 5}", HK_OK, 4},
    {"null patterns", ", \"rank_pattern\": null, \"alpha_pattern\": null", HK_OK, 8},
    {"an escape", ", \"rank_pattern\": {\"\\\\d\": 4}", HK_E_UNSUPPORTED, 0},
    {"pluses that double", ", \"rank_pattern\": {\"(a)++++++++++++++++++++++++++++++++\": 4}",
     HK_E_UNSUPPORTED, 0},
    {"groups that double", ", \"rank_pattern\": {\"(((((a)+)+)+)+)+\": 4}", HK_E_UNSUPPORTED, 0},
    {"no pattern", ", \"rank_pattern\": {\"(\": 4}", HK_E_FORMAT, 0},
    {"a rank that is text", ", \"rank_pattern\": {\"q_proj\": \"4\"}", HK_E_FORMAT, 0},
    {"a rank that is real", ", \"rank_pattern\": {\"q_proj\": 4.5}", HK_E_FORMAT, 0},
    {"a rank of 0", ", \"rank_pattern\": {\"q_proj\": 0}", HK_E_RANGE, 0},
    {"a bad rank of another module", ", \"rank_pattern\": {\"k_proj\": []}", HK_E_FORMAT, 0},
    {"an alpha that is text", ", \"alpha_pattern\": {\"q_proj\": \"4\"}", HK_E_FORMAT, 0},
};

/* Rank of module Q with SETTINGS. */
static enum hk_status rank_with(const char *settings, uint32_t *rank, struct hk_error *err)
{
    struct hk_adapter_config c = {0};
    char *text;
    double scale = 0;
    *rank = 0;
    if (asprintf(&text, "{\"peft_type\": \"LORA\"%s}", settings) < 0)
        abort();
    json_t *json = json_loads(text, 0, NULL);
    free(text);
    if (json == NULL)
        abort();
    enum hk_status st = hk_adapter_config_of(&c, json, err);
    if (st == HK_OK)
        st = hk_adapter_module(&c, Q, rank, &scale, err);
    hk_adapter_config_free(&c);
    return st;
}

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hk_error err = {0};
        uint32_t rank;
        enum hk_status st = rank_with(rows[i].settings, &rank, &err);
        ok(st == rows[i].status && rank == rows[i].rank, "%s: %s, rank %u", rows[i].what,
           hk_status_name(st), rank);
    }
}

/* ---- every setting: values of its type, values of another, values that are not followed ---- */

static const struct {
    const char *key, *good, *wrong, *refused; /* NULL: none */
} settings[] = {
    {"r", "4", "\"4\"", "0"},
    {"r", "65536", "4.0", "65537"},
    {"r", NULL, "null", NULL},
    {"r", NULL, "true", NULL},
    {"lora_alpha", "4", "\"4\"", NULL},
    {"lora_alpha", "4.5", "null", NULL},
    {"lora_alpha", "0", "[4]", NULL},
    {"use_rslora", "true", "1", NULL},
    {"use_rslora", "null", "\"true\"", NULL},
    {"use_dora", "true", "\"yes\"", NULL},
    {"rank_pattern", "{}", "[]", NULL},
    {"rank_pattern", "null", "\"q_proj\"", NULL},
    {"alpha_pattern", "{\"q_proj\": 2.5}", "[4]", NULL},
    {"bias", "\"all\"", "true", "\"some\""},
    {"bias", "\"lora_only\"", "[]", NULL},
    {"bias", "\"none\"", "1", NULL},
    {"trainable_token_indices", "[1, 2]", "\"1\"", NULL},
    {"trainable_token_indices", "{\"embed_tokens\": [1]}", "[1.5]", NULL},
    {"ensure_weight_tying", "false", "0", NULL},
    {"init_lora_weights", "true", "1", "\"pissa\""},
    {"init_lora_weights", "\"gaussian\"", "{}", "\"pissa_niter_4\""},
    {"init_lora_weights", "\"eva\"", "[]", "\"olora\""},
    {"init_lora_weights", "\"orthogonal\"", "0.5", "\"loftq\""},
    {"init_lora_weights", "null", "[1]", "\"corda\""},
    {"init_lora_weights", "false", NULL, "\"lora_ga\""},
    {"init_lora_weights", NULL, NULL, "\"unheard of\""},
    {"target_modules", "\"all-linear\"", "1", NULL},
    {"target_modules", "[\"q_proj\"]", "[1]", NULL},
    {"exclude_modules", "null", "{}", NULL},
    {"modules_to_save", "[\"lm_head\"]", "\"lm_head\"", NULL},
    {"layers_to_transform", "3", "\"3\"", NULL},
    {"layers_to_transform", "[0, 1]", "[\"0\"]", NULL},
    {"layers_pattern", "\"layers\"", "1", NULL},
    {"lora_dropout", "0.1", "\"0.1\"", NULL},
    {"inference_mode", "true", "\"true\"", NULL},
    {"task_type", "\"CAUSAL_LM\"", "1", NULL},
    {"base_model_name_or_path", "\"x\"", "{}", NULL},
    {"revision", "null", "1", NULL},
    {"peft_version", "\"0.21.0\"", "0.21", NULL},
    {"auto_mapping", "{\"a\": \"b\"}", "\"x\"", NULL},
    {"megatron_config", "null", "1", NULL},
    {"megatron_core", "\"megatron.core\"", "1", NULL},
    {"loftq_config", "{}", "[]", NULL},
    {"eva_config", "{\"rho\": 2}", "1", NULL},
    {"corda_config", "null", "1", NULL},
    {"lora_ga_config", "null", "1", NULL},
    {"qalora_group_size", "16", "\"16\"", NULL},
    {"runtime_config", "{\"ephemeral_gpu_offload\": false}", "1", NULL},
    {"fan_in_fan_out", "false", "0", "true"},
    {"lora_bias", "false", "\"no\"", "true"},
    {"alora_invocation_tokens", "null", "\"x\"", "[1]"},
    {"alora_invocation_tokens", "[]", "{}", "[5, 6, 7]"},
    {"layer_replication", "null", NULL, "[[0, 2], [1, 3]]"},
    {"use_qalora", "false", "1", "true"},
    {"target_parameters", "[]", "\"x\"", "[\"x\"]"},
    {"use_bdlora", "null", NULL, "true"},
    {"arrow_config", "null", NULL, "{\"top_k\": 3}"},
    {"kasa_config", "null", NULL, "{\"a\": 1}"},
    {"velora_config", "null", NULL, "{\"a\": 1}"},
    {"monteclora_config", "null", NULL, "{\"a\": 1}"},
    {"never_heard_of", "null", NULL, "true"},
    {"never_heard_of", "false", NULL, "1"},
    {"never_heard_of", "\"\"", NULL, "\"x\""},
    {"never_heard_of", "{}", NULL, "[0]"},
};

static void test_setting(const char *key, const char *value, bool well, bool type)
{
    struct hk_error err = {0};
    char *text;
    uint32_t rank;
    if (value == NULL)
        return;
    if (asprintf(&text, ", \"%s\": %s", key, value) < 0)
        abort();
    const enum hk_status st = rank_with(text, &rank, &err);
    ok(well   ? st == HK_OK
       : type ? st == HK_E_FORMAT && strstr(err.text, "wrong JSON type") != NULL
              : st == HK_E_UNSUPPORTED || st == HK_E_RANGE,
       "%s: %s", text, st == HK_OK ? "taken" : err.text);
    ok(well || strstr(err.text, key) != NULL, "by name");
    free(text);
}

static void test_settings(void)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        test_setting(settings[i].key, settings[i].good, true, false);
        test_setting(settings[i].key, settings[i].wrong, false, true);
        test_setting(settings[i].key, settings[i].refused, false, false);
    }
}

/* ---- patterns that cost ---- */

/* A group in a group in a group. */
static void test_deep(void)
{
    enum { DEPTH = 200000 };
    char *key = malloc(2 * DEPTH + 2);
    struct hk_error err = {0};
    struct hk_adapter_patterns p;
    if (key == NULL)
        abort();
    memset(key, '(', DEPTH);
    memset(key + DEPTH, ')', DEPTH + 1);
    key[DEPTH] = 'a';
    key[2 * DEPTH + 1] = '\0';
    json_t *object = json_pack("{s:i}", key, 4);
    ok(hk_adapter_patterns_compile(&p, object, &err) == HK_E_UNSUPPORTED, "groups in groups: %s",
       err.text);
    hk_adapter_patterns_free(&p);
    json_decref(object);
    free(key);
}

/* Many patterns that only just fit, then one too many. */
static void test_many(void)
{
    struct hk_error err = {0};
    struct hk_adapter_patterns p;
    json_t *object = json_object();
    for (int i = 0; i < 40; i++) {
        char key[128];
        snprintf(key, sizeof key, "%0*d(.*.*.*.*.*.*.*.*.*.*x)+(.*y)+|%d", 60, i, i);
        json_object_set_new(object, key, json_integer(4));
    }
    ok(hk_adapter_patterns_compile(&p, object, &err) == HK_OK, "40 patterns %s", err.text);
    size_t found = 0;
    for (int i = 0; i < 1000; i++)
        found += hk_adapter_patterns_find(&p, Q) != NULL;
    ok(found == 0, "are compiled once and tried 1000 times");
    hk_adapter_patterns_free(&p);
    for (int i = 40; i < 80; i++) {
        char key[128];
        snprintf(key, sizeof key, "%0*d.*x", 60, i);
        json_object_set_new(object, key, json_integer(4));
    }
    ok(hk_adapter_patterns_compile(&p, object, &err) == HK_E_UNSUPPORTED, "80 are too many: %s",
       err.text);
    hk_adapter_patterns_free(&p);
    json_decref(object);
}

/* Names cost little each, but every module is compared with all. */
static void test_names(void)
{
    enum { MOST = 4096 };
    struct hk_error err = {0};
    struct hk_adapter_patterns p;
    json_t *object = json_object();
    for (int i = 0; i <= MOST; i++) {
        char key[64];
        if (i == MOST) {
            ok(hk_adapter_patterns_compile(&p, object, &err) == HK_OK, "%d names %s", i, err.text);
            hk_adapter_patterns_free(&p);
        }
        snprintf(key, sizeof key, "model.layers.%d.self_attn.q_proj", i);
        json_object_set_new(object, key, json_integer(4));
    }
    ok(hk_adapter_patterns_compile(&p, object, &err) == HK_E_UNSUPPORTED, "one more: %s", err.text);
    hk_adapter_patterns_free(&p);
    json_decref(object);
}

static void test_no_json(void)
{
    char directory[] = "/tmp/hk-test-adapter-XXXXXX", path[64];
    struct hk_error err = {0};
    struct hk_out *out;
    struct hk_adapter_found found = {0};
    int memory = memfd_create("out", MFD_CLOEXEC);
    if (mkdtemp(directory) == NULL || hk_out_fd(&out, memory, &err) != HK_OK)
        abort();
    snprintf(path, sizeof path, "%s/adapter_config.json", directory);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ok(write(fd, "{broken", 7) == 7, "a config");
    close(fd);
    ok(hk_adapter_payload(directory, NULL, out, &found, &err) == HK_E_FORMAT && !found.known,
       "that is no JSON: %s", err.text);
    hk_out_discard(&out);
    close(memory);
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    test_rows();
    test_settings();
    test_deep();
    test_many();
    test_names();
    test_no_json();
    return tap_done();
}
