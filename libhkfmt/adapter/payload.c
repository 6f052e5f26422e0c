/* Adapters as others keep them, made into the payload of a lora_adapter record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libhkfmt/adapter/lora.h"
#include "libhkfmt/hf/hf.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hkmodel.h"
#include "libhkfmt/safetensors/st.h"

enum { MAX_CONFIG = 16 << 20 };

static const char config_key[] = "adapter_config";

enum hk_status hk_lora_write_payload(struct hk_view *v, const json_t *config, struct hk_out *out,
                                     struct hk_error *err)
{
    const struct hk_convert_options opt = {.size = sizeof opt, .dense = HK_TYPE_F32};
    char *text = json_dumps(config, JSON_COMPACT);
    if (text == NULL)
        return hk_fail_nomem(err);
    hk_kvlist_text(&v->kvs, config_key, text);
    free(text);
    enum hk_status status = hk_view_ready(v, err);
    return status == HK_OK ? hk_write_safetensors(v->file, &opt, out, err) : status;
}

static enum hk_status need_adapter_tensors(const struct hk_file *f, struct hk_error *err)
{
    return f->tensor_count > 0
               ? HK_OK
               : hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET, "the adapter has no tensors");
}

static enum hk_status write_tensors_of(struct hk_file *f, const json_t *config, struct hk_out *out,
                                       struct hk_error *err)
{
    struct hk_view *v;
    enum hk_status st = need_adapter_tensors(f, err);
    if (st == HK_OK)
        st = hk_view_new(&v, f, err);
    if (st != HK_OK)
        return st;
    st = hk_lora_write_payload(v, config, out, err);
    hk_view_free(&v);
    return st;
}

static enum hk_status copy_payload(const struct hk_file *f, struct hk_out *out,
                                   struct hk_error *err)
{
    enum hk_status st = need_adapter_tensors(f, err);
    return st == HK_OK ? hk_out_write(out, f->parts[0].map, (size_t)f->parts[0].size, err) : st;
}

/* ---- PEFT ---- */

/* The adapter in DIRECTORY, whose config is CONFIG. */
static enum hk_status write_from_directory(const char *directory, const json_t *config,
                                           struct hk_out *out, struct hk_error *err)
{
    struct hk_file *f;
    struct hk_error why = {0};
    char *path;
    if (asprintf(&path, "%s/adapter_model.safetensors", directory) < 0)
        return hk_fail_nomem(err);
    enum hk_status st = hk_open(&f, path, &why);
    free(path);
    if (st != HK_OK) {
        hk_fail(err, st, why.offset, "adapter_model.safetensors: %s", why.text);
        return st;
    }
    st = write_tensors_of(f, config, out, err);
    hk_close(&f);
    return st;
}

/* What is in DIRECTORY, if it is an adapter. */
static enum hk_status write_if_peft_directory(const char *directory, struct hk_out *out,
                                              bool *known, struct hk_error *err)
{
    json_t *config = NULL;
    enum hk_status st = hk_hf_json(directory, "adapter_config.json", MAX_CONFIG, &config, err);
    *known = st != HK_OK || config != NULL;
    if (st == HK_OK && config != NULL)
        st = write_from_directory(directory, config, out, err);
    json_decref(config);
    return st;
}

/* A safetensors file: a payload already, or one that has its config beside it. */
static enum hk_status write_from_safetensors(const char *path, struct hk_file *f,
                                             struct hk_out *out, struct hk_adapter_found *found,
                                             struct hk_error *err)
{
    const char *slash = strrchr(path, '/');
    if (hk_kv_find(f, config_key) != NULL) {
        found->known = true;
        return copy_payload(f, out, err);
    }
    json_t *config = NULL;
    char *directory = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    if (directory == NULL)
        return hk_fail_nomem(err);
    enum hk_status st = hk_hf_json(directory, "adapter_config.json", MAX_CONFIG, &config, err);
    free(directory);
    found->known = st != HK_OK || config != NULL;
    if (!found->known)
        snprintf(found->note, sizeof found->note, "there is no adapter_config.json beside it");
    if (st == HK_OK && config != NULL)
        st = write_tensors_of(f, config, out, err);
    json_decref(config);
    return st;
}

/* ---- GGUF ---- */

static enum hk_status write_from_gguf(struct hk_file *f, const struct hk_file *base,
                                      struct hk_out *out, struct hk_adapter_found *found,
                                      struct hk_error *err)
{
    struct hk_lora_gguf g;
    struct hk_error why;
    found->known = hk_lora_is_gguf(f);
    if (!found->known) {
        snprintf(found->note, sizeof found->note,
                 "it is a GGUF, but key general.type is not "
                 "'adapter'");
        return HK_OK;
    }
    enum hk_status st = hk_lora_from_gguf(&g, f, base, &why);
    if (st == HK_E_IO || st == HK_E_NOMEM) {
        *err = why;
        return st;
    }
    if (st != HK_OK)
        return copy_payload(f, out, err);
    if (g.alpha_is_zero)
        snprintf(found->note, sizeof found->note,
                 "key adapter.lora.alpha is 0: as in llama.cpp, the scale is 1");
    st = need_adapter_tensors(f, err);
    if (st == HK_OK)
        st = hk_lora_write_payload(g.view, g.config, out, err);
    hk_lora_gguf_free(&g);
    return st;
}

/* ---- what PATH is ---- */

static enum hk_status write_from_file(const char *path, const struct hk_file *base,
                                      struct hk_out *out, struct hk_adapter_found *found,
                                      struct hk_error *err)
{
    struct hk_file *f;
    struct hk_error why;
    enum hk_status st = hk_open(&f, path, &why);
    if (st == HK_E_IO || st == HK_E_NOMEM) {
        *err = why;
        return st;
    }
    if (st != HK_OK) { /* bytes of some other kind */
        snprintf(found->note, sizeof found->note, "%.199s", why.text);
        return HK_OK;
    }
    if (f->format == HK_FORMAT_SAFETENSORS)
        st = write_from_safetensors(path, f, out, found, err);
    else if (f->format == HK_FORMAT_GGUF)
        st = write_from_gguf(f, base, out, found, err);
    else
        snprintf(found->note, sizeof found->note, "it is a model");
    hk_close(&f);
    return st;
}

enum hk_status hk_adapter_payload(const char *path, const struct hk_file *base, struct hk_out *out,
                                  struct hk_adapter_found *found, struct hk_error *err)
{
    struct stat st;
    struct hk_error none;
    struct hk_adapter_found is = {0};
    enum hk_status status;
    if (err == NULL)
        err = &none;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = write_if_peft_directory(path, out, &is.known, err);
    else
        status = write_from_file(path, base, out, &is, err);
    if (status == HK_OK)
        *found = is;
    return status;
}
