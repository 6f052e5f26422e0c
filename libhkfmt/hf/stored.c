/* The config.json that a .hk keeps, read as the importer reads it. */
#include "libhkfmt/hf/export.h"

enum hk_status hk_hf_stored_json(const struct hk_file *f, const char *key, struct hk_bytes *text,
                                 json_t **out, struct hk_error *err)
{
    const struct hk_kv *kv = hk_kv_find(f, key);
    if (kv == NULL)
        return HK_OK;
    enum hk_status st = hk_kv_string(kv, text, err);
    return st == HK_OK ? hk_hf_parse(key, *text, out, err) : st;
}

static enum hk_status read_stored_config(struct hk_hf_stored *s, struct hk_error *err)
{
    struct hk_arena arena = {0};
    struct hk_kvlist keys = {.arena = &arena}; /* which the parameters are read from */
    s->config = (struct hk_hf_config){.json = s->json,
                                      .generation = s->generation,
                                      .text = s->text,
                                      .generation_text = s->generation_text};
    enum hk_status st = hk_hf_read_config(&s->config, &keys, err);
    if (st == HK_OK && keys.status != HK_OK)
        st = hk_fail_nomem(err);
    hk_kvlist_free(&keys);
    hk_arena_free(&arena);
    return st;
}

enum hk_status hk_hf_stored_read(const struct hk_file *f, struct hk_hf_stored *out,
                                 struct hk_error *err)
{
    const struct hk_key_text key = hk_key_text("", HK_KEY_CONFIG);
    *out = (struct hk_hf_stored){0};
    enum hk_status st = hk_hf_stored_json(f, key.s, &out->text, &out->json, err);
    if (st == HK_OK)
        st = hk_hf_stored_json(f, hk_key_text("", HK_KEY_GENERATION_CONFIG).s,
                               &out->generation_text, &out->generation, err);
    if (st != HK_OK || out->json == NULL)
        return st;
    st = read_stored_config(out, err);
    return st == HK_OK ? HK_OK : hk_hf_about(key.s, st, err);
}

void hk_hf_stored_free(struct hk_hf_stored *s)
{
    json_decref(s->json);
    json_decref(s->generation);
    *s = (struct hk_hf_stored){0};
}
