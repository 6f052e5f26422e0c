/* Adapters as others keep them, made into the payload of a lora_adapter record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libhkfmt/foreign/hf.h"
#include "libhkfmt/foreign/lora.h"
#include "libhkfmt/foreign/st.h"

enum { MAX_CONFIG = 16 << 20 };

static const char config_key[] = "adapter_config";

enum hk_status hk_lora_write(struct hk_view *v, const json_t *config, struct hk_out *out,
                             struct hk_error *err)
{
    const struct hk_convert_options opt = {.dense = HK_TYPE_F32};
    char *text = json_dumps(config, JSON_COMPACT);
    if (text == NULL)
        return hk_fail_nomem(err);
    hk_kvlist_text(&v->kvs, config_key, text);
    free(text);
    enum hk_status status = hk_view_ready(v, err);
    return status == HK_OK ? hk_convert_to_safetensors(v->file, &opt, out, err) : status;
}

static enum hk_status write_file(struct hk_file *f, const json_t *config, struct hk_out *out,
                                 struct hk_error *err)
{
    struct hk_view *v;
    enum hk_status status = hk_view_new(&v, f, err);
    if (status != HK_OK)
        return status;
    status = hk_lora_write(v, config, out, err);
    hk_view_free(&v);
    return status;
}

/* ---- PEFT ---- */

/* The adapter in DIRECTORY, whose config is CONFIG. */
static enum hk_status from_directory(const char *directory, const json_t *config,
                                     struct hk_out *out, struct hk_error *err)
{
    struct hk_file *f;
    struct hk_error why = {0};
    char *path;
    if (asprintf(&path, "%s/adapter_model.safetensors", directory) < 0)
        return hk_fail_nomem(err);
    enum hk_status status = hk_open(&f, path, &why);
    free(path);
    if (status != HK_OK) {
        hk_fail(err, status, why.offset, "adapter_model.safetensors: %s", why.text);
        return status;
    }
    status = write_file(f, config, out, err);
    hk_close(&f);
    return status;
}

/* What is in DIRECTORY, if it is an adapter. */
static enum hk_status try_directory(const char *directory, struct hk_out *out, bool *known,
                                    struct hk_error *err)
{
    json_t *config = NULL;
    enum hk_status status = hk_hf_json(directory, "adapter_config.json", MAX_CONFIG, &config, err);
    *known = status != HK_OK || config != NULL;
    if (status == HK_OK && config != NULL)
        status = from_directory(directory, config, out, err);
    json_decref(config);
    return status;
}

/* A safetensors file: a payload already, or one that has its config beside it. */
static enum hk_status from_safetensors(const char *path, struct hk_file *f, struct hk_out *out,
                                       bool *known, struct hk_error *err)
{
    const struct hk_bytes all = {f->parts[0].map, (size_t)f->parts[0].size};
    const char *slash = strrchr(path, '/');
    if (hk_kv_find(f, config_key) != NULL) {
        *known = true;
        return hk_out_write(out, all.p, all.n, err);
    }
    json_t *config = NULL;
    char *directory = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    if (directory == NULL)
        return hk_fail_nomem(err);
    enum hk_status status = hk_hf_json(directory, "adapter_config.json", MAX_CONFIG, &config, err);
    free(directory);
    *known = status != HK_OK || config != NULL;
    if (status == HK_OK && config != NULL)
        status = write_file(f, config, out, err);
    json_decref(config);
    return status;
}

/* ---- what PATH is ---- */

static enum hk_status from_file(const char *path, const struct hk_file *base, struct hk_out *out,
                                bool *known, struct hk_error *err)
{
    struct hk_file *f;
    struct hk_error why;
    enum hk_status status = hk_open(&f, path, &why);
    if (status != HK_OK) { /* bytes of some other kind */
        if (status == HK_E_IO || status == HK_E_NOMEM) {
            *err = why;
            return status;
        }
        return HK_OK;
    }
    if (f->format == HK_FORMAT_SAFETENSORS)
        status = from_safetensors(path, f, out, known, err);
    else if (f->format == HK_FORMAT_GGUF)
        status = hk_lora_from_gguf(f, base, out, known, err);
    hk_close(&f);
    return status;
}

enum hk_status hk_adapter_payload(const char *path, const struct hk_file *base, struct hk_out *out,
                                  bool *known, struct hk_error *err)
{
    struct stat st;
    struct hk_error none;
    bool is = false;
    enum hk_status status;
    if (err == NULL)
        err = &none;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = try_directory(path, out, &is, err);
    else
        status = from_file(path, base, out, &is, err);
    if (status == HK_OK)
        *known = is;
    return status;
}
