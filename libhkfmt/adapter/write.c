/* Adapters written as files of their own: the directory that PEFT keeps, and what the forms have in
 * common. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"
#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/base/options.h"
#include "libhkfmt/hf/export.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

/* ---- PEFT: a directory with adapter_config.json and adapter_model.safetensors ---- */

static const char config_key[] = "adapter_config";

struct peft_lora {
    struct hk_view *v;
    struct hk_adapter_config config;
    struct hk_adapter_base base;
    struct hk_side_files side;
    const char **modules; /* of low-rank pairs, in order of the tensors */
    size_t count;
    struct hk_arena arena;
};

/* ---- what is targeted ---- */

static enum hk_status add_module(struct peft_lora *p, const char *module, struct hk_error *err)
{
    struct hk_bytes kept;
    if (!hk_arena_keep(&p->arena, (struct hk_bytes){(const uint8_t *)module, strlen(module) + 1},
                       &kept))
        return hk_fail_nomem(err);
    p->modules[p->count++] = (const char *)kept.p;
    return HK_OK;
}

static enum hk_status list_modules(struct peft_lora *p, struct hk_error *err)
{
    const struct hk_file *f = p->v->file;
    enum hk_status st = HK_OK;
    p->modules = calloc(f->tensor_count + 1, sizeof *p->modules);
    if (p->modules == NULL)
        return hk_fail_nomem(err);
    for (size_t i = 0; st == HK_OK && i < f->tensor_count; i++) {
        char module[256];
        enum hk_adapter_part part;
        if (hk_adapter_name(f->tensors[i].name, module, &part) &&
            (part == HK_ADAPTER_A || part == HK_ADAPTER_EMBEDDING_A))
            st = add_module(p, module, err);
    }
    return st;
}

static const char *last_part_of_name(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot != NULL ? dot + 1 : module;
}

/* PEFT targets every module whose name ends in one of target_modules: the last part of a name where
 * all layers have it, the whole name otherwise. */
static enum hk_status put_target_modules(struct peft_lora *p, struct hk_error *err)
{
    json_t *counts = json_object(), *targets = json_array();
    int failed = counts == NULL || targets == NULL;
    for (size_t i = 0; failed == 0 && i < p->count; i++) {
        const char *last = last_part_of_name(p->modules[i]);
        const json_int_t n = json_integer_value(json_object_get(counts, last)) + 1;
        failed = json_object_set_new(counts, last, json_integer(n));
    }
    for (size_t i = 0; failed == 0 && i < p->count; i++) {
        const char *last = last_part_of_name(p->modules[i]);
        const json_int_t n = json_integer_value(json_object_get(counts, last));
        const bool inner = strstr(p->modules[i], "layers.") != NULL;
        const bool whole = inner && n > 0 && n < p->base.model.layers;
        if (n >= 0)
            failed = json_array_append_new(targets, json_string(whole ? p->modules[i] : last));
        if (failed == 0 && !whole) /* once is enough */
            failed = json_object_set_new(counts, last, json_integer(-1));
    }
    if (failed == 0)
        failed = json_object_set(p->config.json, "target_modules", targets);
    json_decref(counts);
    json_decref(targets);
    return failed == 0 ? HK_OK : hk_fail_nomem(err);
}

/* ---- ranks and alphas ---- */

/* The common rank becomes r, and only modules of others stay in rank_pattern; the same of alpha. */
static enum hk_status put_common_value(struct peft_lora *p, const char *field, const char *pattern,
                                       struct hk_error *err)
{
    json_t *given = json_object_get(p->config.json, pattern), *rest = json_object();
    json_t *first = p->count > 0 ? json_object_get(given, p->modules[0]) : NULL, *value;
    int failed = rest == NULL;
    bool all = first != NULL && json_object_size(given) == p->count;
    for (size_t i = 1; all && i < p->count; i++)
        all = json_object_get(given, p->modules[i]) != NULL;
    const char *key;
    json_object_foreach(given, key, value)
    {
        if (failed == 0 && !(all && json_equal(value, first)))
            failed = json_object_set(rest, key, value);
    }
    if (failed == 0 && all)
        failed = json_object_set(p->config.json, field, first);
    if (failed == 0)
        failed = json_object_set(p->config.json, pattern, rest);
    json_decref(rest);
    return failed == 0 ? HK_OK : hk_fail_nomem(err);
}

/* ---- the config ---- */

/* Settings that PEFT needs, or its tools show, and that other formats do not have. */
static enum hk_status put_config_defaults(json_t *config, struct hk_error *err)
{
    int failed = 0;
    if (json_object_get(config, "task_type") == NULL)
        failed |= json_object_set_new(config, "task_type", json_string("CAUSAL_LM"));
    if (json_object_get(config, "inference_mode") == NULL)
        failed |= json_object_set_new(config, "inference_mode", json_true());
    if (json_object_get(config, "base_model_name_or_path") == NULL)
        failed |= json_object_set_new(config, "base_model_name_or_path", json_null());
    return failed == 0 ? HK_OK : hk_fail_nomem(err);
}

/* A config that PEFT wrote stays as it is. */
static enum hk_status complete_config(struct peft_lora *p, struct hk_error *err)
{
    const json_t *targets = json_object_get(p->config.json, "target_modules");
    if (targets != NULL && !json_is_null(targets))
        return HK_OK;
    enum hk_status st = list_modules(p, err);
    if (st == HK_OK)
        st = put_target_modules(p, err);
    if (st == HK_OK)
        st = put_common_value(p, "r", "rank_pattern", err);
    if (st == HK_OK)
        st = put_common_value(p, "lora_alpha", "alpha_pattern", err);
    return st == HK_OK ? put_config_defaults(p->config.json, err) : st;
}

static enum hk_status make_peft(struct peft_lora *p, struct hk_file *payload,
                                const struct hk_file *base, struct hk_error *err)
{
    enum hk_status st = hk_adapter_config_read(&p->config, payload, err);
    if (st == HK_OK)
        st = hk_adapter_base_read(base, &p->base, err);
    if (st == HK_OK)
        st = hk_view_new(&p->v, payload, err);
    if (st == HK_OK)
        st = complete_config(p, err);
    if (st == HK_OK)
        st = hk_side_files_json(&p->side, "adapter_config.json", p->config.json, err);
    if (st != HK_OK)
        return st;
    hk_kvlist_remove(&p->v->kvs, config_key);
    if (hk_kvlist_find(&p->v->kvs, "format") == NULL)
        hk_kvlist_text(&p->v->kvs, "format", "pt"); /* transformers demands it */
    return hk_view_ready(p->v, err);
}

/* The adapter in directory PATH as hk-append would take it. */
static enum hk_status read_adapter_again(const char *path, const struct hk_file *base,
                                         struct hk_error *err)
{
    struct hk_out *out = NULL;
    struct hk_file *payload = NULL;
    struct hk_adapter *a = NULL;
    struct hk_adapter_found found;
    enum hk_status st = hk_out_memory(&out, err);
    if (st == HK_OK)
        st = hk_adapter_payload(path, base, out, &found, err);
    if (st == HK_OK)
        st = hk_out_open(&out, &payload, err);
    hk_out_discard(&out);
    if (st == HK_OK)
        st = hk_adapter_read(&a, payload, base, err);
    hk_adapter_free(&a);
    hk_close(&payload);
    return st;
}

static enum hk_status save_peft(struct hk_file *payload, const struct hk_file *base,
                                const char *path, const struct hk_convert_options *opt,
                                const struct hk_identities *input, struct hk_error *err)
{
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors"};
    const struct hk_dir_kind kind = {
        .what = "PEFT",
        .names = names,
        .name_count = sizeof names / sizeof *names,
        .stem = "adapter_model",
        .read_again = read_adapter_again,
        .base = base,
    };
    struct peft_lora p = {0};
    enum hk_status st = make_peft(&p, payload, base, err);
    if (st == HK_OK)
        st = hk_save_view_dir(&kind, p.v, &p.side, path, opt, input, err);
    hk_side_files_free(&p.side);
    hk_view_free(&p.v);
    hk_adapter_config_free(&p.config);
    hk_arena_free(&p.arena);
    free(p.modules);
    return st;
}

/* ---- either form ---- */

bool hk_is_adapter(const struct hk_file *f)
{
    char module[256];
    enum hk_adapter_part part;
    if (f->format == HK_FORMAT_GGUF)
        return hk_lora_is_gguf(f);
    if (f->format != HK_FORMAT_SAFETENSORS)
        return false;
    if (hk_kv_find(f, "adapter_config") != NULL)
        return true;
    for (size_t i = 0; i < f->tensor_count; i++)
        if (hk_adapter_name(f->tensors[i].name, module, &part))
            return true;
    return false;
}

/* PAYLOAD in PEFT's form, *MADE if that is another file: all of it can be applied to BASE, as what
 * cannot is not to be passed on as if it could. */
static enum hk_status open_applicable(struct hk_file **payload, struct hk_file **made,
                                      const struct hk_file *base, struct hk_error *err)
{
    struct hk_adapter *a;
    enum hk_status st = hk_adapter_in_peft_form(made, *payload, base, err);
    if (st != HK_OK)
        return st;
    if (*made != NULL)
        *payload = *made;
    st = hk_adapter_read(&a, *payload, base, err);
    if (st == HK_OK)
        hk_adapter_free(&a);
    return st;
}

enum hk_status hk_adapter_convert(struct hk_file *payload, const struct hk_file *base,
                                  enum hk_format to, const struct hk_convert_options *given,
                                  struct hk_out *out, struct hk_error *err)
{
    struct hk_file *made = NULL;
    struct hk_convert_options opt;
    enum hk_status st = hk_read_options(&opt, sizeof opt, given, err);
    if (st == HK_OK)
        st = open_applicable(&payload, &made, base, err);
    if (st == HK_OK && to == HK_FORMAT_GGUF)
        st = hk_lora_to_gguf(payload, base, &opt, out, err);
    else if (st == HK_OK && to == HK_FORMAT_SAFETENSORS)
        st = hk_write_safetensors(payload, &opt, out, err);
    else if (st == HK_OK)
        st = hk_fail(err, HK_E_USE, HK_NO_OFFSET, "an adapter is not written as one file of %s",
                     hk_format_name(to));
    hk_close(&made);
    return st;
}

enum hk_status hk_adapter_save(struct hk_file *payload, const struct hk_file *base,
                               const char *path, const struct hk_convert_options *given,
                               struct hk_error *err)
{
    struct hk_identities input = {0};
    struct hk_file *made = NULL;
    struct hk_convert_options opt;
    enum hk_status st = hk_read_options(&opt, sizeof opt, given, err);
    if (st == HK_OK)
        st = open_applicable(&payload, &made, base, err);
    if (st == HK_OK)
        st = hk_identities_of(base, &input, err);
    if (st == HK_OK)
        st = save_peft(payload, base, path, &opt, &input, err);
    hk_identities_free(&input);
    hk_close(&made);
    return st;
}
