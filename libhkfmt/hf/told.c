/* The config.json that a .hk keeps, read as the importer reads it. */
#include <stdlib.h>

#include "libhkfmt/base/fault.h"
#include "libhkfmt/hf/write.h"
#include "libhkfmt/hk/file.h"

enum hk_status hk_hf_told_json(const struct hk_file *f, const char *key, struct hk_bytes *text,
                               json_t **out, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    if (kv == NULL)
        return HK_OK;
    enum hk_status status = hk_kv_string(kv, text, err);
    return status == HK_OK ? hk_hf_parse(key, *text, out, err) : status;
}

/* The keys as an open file has them, which is how they are looked up. */
static enum hk_status read_keys(struct hk_hf_told *t, struct hk_file *keys, struct hk_error *err)
{
    struct hk_capture capture = {.err = err};
    const struct hk_reporter reporter = {hk_capture_fault, &capture};
    struct hk_kvlist list = {.arena = &keys->arena};
    enum hk_status status = hk_hf_read_config(&t->config, &list, err);
    if (status == HK_OK)
        status = hk_kvlist_take(&list, keys, err);
    if (status == HK_OK)
        status = hk_build_indexes(keys, &reporter, err);
    if (status == HK_OK)
        status = hk_hf_read_model(keys, t->config.family, &t->model, err);
    hk_kvlist_free(&list);
    return status != HK_OK ? status : capture.status;
}

enum hk_status hk_hf_read_told(const struct hk_file *f, struct hk_hf_told *out,
                               struct hk_error *err)
{
    *out = (struct hk_hf_told){0};
    enum hk_status status = hk_hf_told_json(f, "hk.hf.config", &out->text, &out->json, err);
    if (status == HK_OK)
        status = hk_hf_told_json(f, "hk.hf.generation_config", &out->generation_text,
                                 &out->generation, err);
    if (status != HK_OK || out->json == NULL)
        return status;
    struct hk_file *keys = calloc(1, sizeof *keys);
    if (keys == NULL)
        return hk_fail_nomem(err);
    out->config = (struct hk_hf_config){.json = out->json,
                                        .generation = out->generation,
                                        .text = out->text,
                                        .generation_text = out->generation_text};
    status = read_keys(out, keys, err);
    hk_close(&keys);
    return status == HK_OK ? HK_OK : hk_hf_about("hk.hf.config", status, err);
}

void hk_hf_told_free(struct hk_hf_told *t)
{
    json_decref(t->json);
    json_decref(t->generation);
    *t = (struct hk_hf_told){0};
}

enum hk_status hk_hf_family_of(const struct hk_file *f, const struct hk_hf_told *told,
                               const struct hk_hf_family **out, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, "general.architecture");
    if (kv == NULL)
        return hk_fail(err, HK_E_MISSING, HK_NO_OFFSET,
                       "no key general.architecture: this is no model that can be run");
    struct hk_bytes name;
    enum hk_status status = hk_kv_string(kv, &name, err);
    if (status != HK_OK)
        return status;
    const struct hk_hf_family *family = told->config.family;
    if (family == NULL || !hk_bytes_are(name, family->architecture))
        family = hk_hf_family_of_architecture(name);
    if (family == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset,
                       "key general.architecture: models of '%.*s' are not exported", HK_STR(name));
    *out = family;
    return HK_OK;
}
