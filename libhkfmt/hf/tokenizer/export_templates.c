/* Chat templates to be written: one in chat_template.jinja, several as the list that
 * tokenizer_config.json then has; or where they came from. */
#include <string.h>

#include "libhkfmt/hf/export.h"
#include "libhkfmt/hf/tokenizer/export.h"

static enum hk_status text_of(const struct hk_put_tok *p, const struct hk_kv *kv, json_t **out)
{
    struct hk_bytes text;
    enum hk_status st = hk_kv_string(kv, &text, p->t.err);
    if (st != HK_OK)
        return st;
    *out = hk_put_tok_string(text);
    return *out != NULL ? HK_OK
                        : hk_fail(p->t.err, HK_E_UNSUPPORTED, kv->offset,
                                  "%.*s: text that is not UTF-8", HK_STR(kv->key));
}

static enum hk_status append(const struct hk_put_tok *p, json_t *list, struct hk_bytes name,
                             const struct hk_kv *kv)
{
    json_t *text = NULL;
    enum hk_status st = text_of(p, kv, &text);
    if (st == HK_OK &&
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "name", hk_put_tok_string(name), "template", text)) != 0)
        st = hk_fail_nomem(p->t.err);
    return st;
}

/* All templates as a list; empty if there are none but the default. */
static enum hk_status make_list(const struct hk_put_tok *p, json_t *list)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_CHAT_TEMPLATE);
    struct hk_bytes name = {(const uint8_t *)"default", strlen("default")};
    enum hk_status st = kv != NULL ? append(p, list, name, kv) : HK_OK;
    size_t named = 0;
    for (size_t i = 0; (kv = hk_kv_at(p->f, i)) != NULL && st == HK_OK; i++) {
        if (!hk_vocab_is_template(kv->key, &name))
            continue;
        named++;
        st = append(p, list, name, kv);
    }
    if (named == 0)
        json_array_clear(list);
    return st;
}

static const char *place(const struct hk_put_tok *p)
{
    const char *where = json_string_value(json_object_get(p->form, "template"));
    return where != NULL ? where : "chat_template.jinja";
}

static enum hk_status put_one(struct hk_put_tok *p, const struct hk_kv *kv)
{
    struct hk_bytes text;
    enum hk_status st = hk_kv_string(kv, &text, p->t.err);
    if (st != HK_OK)
        return st;
    if (strcmp(place(p), "chat_template.jinja") == 0) {
        struct hk_buf b = {0};
        hk_buf_put(&b, text.p, text.n);
        return hk_side_files_add(p->out, "chat_template.jinja", &b, p->t.err);
    }
    json_t *v = NULL;
    st = text_of(p, kv, &v);
    if (st != HK_OK)
        return st;
    if (strcmp(place(p), "chat_template.json") != 0)
        return hk_put_tok_set(p->t.settings, "chat_template", v) ? HK_OK : hk_fail_nomem(p->t.err);
    json_t *file = json_pack("{s:o}", "chat_template", v);
    st = file != NULL ? hk_side_files_json(p->out, "chat_template.json", file, p->t.err)
                      : hk_fail_nomem(p->t.err);
    json_decref(file);
    return st;
}

enum hk_status hk_put_tok_templates(struct hk_put_tok *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_CHAT_TEMPLATE);
    json_t *list = json_array();
    if (list == NULL)
        return hk_fail_nomem(p->t.err);
    enum hk_status st = make_list(p, list);
    if (st == HK_OK && json_array_size(list) > 0)
        st = json_object_set(p->t.settings, "chat_template", list) == 0 ? HK_OK
                                                                        : hk_fail_nomem(p->t.err);
    else if (st == HK_OK && kv != NULL)
        st = put_one(p, kv);
    json_decref(list);
    return st;
}
