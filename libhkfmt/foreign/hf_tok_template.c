/* Chat templates: chat_template.jinja, else those of tokenizer_config.json, else
 * chat_template.json, in the order in which transformers asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/foreign/hf_tok.h"

enum { MOST_NAMED = 64 };

static enum hk_status bad(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "chat_template: %s", what);
}

static enum hk_status put_named(struct hk_tok *t, struct hk_bytes name, struct hk_bytes text,
                                struct hk_bytes *names, uint32_t *n)
{
    if (hk_bytes_are(name, "default")) {
        hk_kvlist_string(t->out, "tokenizer.chat_template", text);
        return HK_OK;
    }
    char key[128];
    if (*n == MOST_NAMED || name.n == 0 || name.n > 64 || memchr(name.p, '\0', name.n) != NULL)
        return bad(t, "too many templates, or a name that is too long");
    for (uint32_t i = 0; i < *n; i++) {
        if (names[i].n == name.n && memcmp(names[i].p, name.p, name.n) == 0)
            return bad(t, "two templates have the same name");
    }
    snprintf(key, sizeof key, "tokenizer.chat_template.%.*s", HK_STR(name));
    hk_kvlist_string(t->out, key, text);
    names[(*n)++] = name;
    return HK_OK;
}

/* A list of objects with name and template, or one object with templates by their names. */
static enum hk_status put_list(struct hk_tok *t, json_t *o)
{
    struct hk_bytes names[MOST_NAMED];
    uint32_t n = 0;
    enum hk_status s = HK_OK;
    size_t i;
    json_t *one;
    json_array_foreach(o, i, one)
    {
        const json_t *name = json_object_get(one, "name"), *text = json_object_get(one, "template");
        if (!json_is_string(name) || !json_is_string(text))
            return bad(t, "an element of the list has no name or no template");
        s = put_named(t, hk_tok_string(name), hk_tok_string(text), names, &n);
        if (s != HK_OK)
            return s;
    }
    if (n > 0)
        hk_kvlist_strings(t->out, "tokenizer.chat_templates", names, n);
    return HK_OK;
}

static enum hk_status put_json(struct hk_tok *t, json_t *o)
{
    if (json_is_string(o)) {
        hk_kvlist_string(t->out, "tokenizer.chat_template", hk_tok_string(o));
        return HK_OK;
    }
    return json_is_array(o) ? put_list(t, o) : bad(t, "neither a string nor a list");
}

static enum hk_status from_json_file(struct hk_tok *t)
{
    json_t *file = NULL;
    enum hk_status s = hk_tok_json(t, "chat_template.json", &file);
    json_t *o = json_object_get(file, "chat_template");
    if (s == HK_OK && file != NULL)
        t->templates = "chat_template.json";
    if (s == HK_OK && file != NULL)
        s = o != NULL ? put_json(t, o) : bad(t, "chat_template.json has none");
    json_decref(file);
    return s;
}

enum hk_status hk_tok_put_templates(struct hk_tok *t)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum hk_status s = hk_hf_read(t->dir, "chat_template.jinja", HK_TOK_FILE, &p, &n, t->err);
    if (s != HK_OK)
        return s;
    json_t *o = json_object_get(t->settings, "chat_template");
    if (p != NULL) {
        t->templates = "chat_template.jinja";
        hk_kvlist_string(t->out, "tokenizer.chat_template", (struct hk_bytes){p, n});
    } else if (o != NULL && !json_is_null(o)) {
        t->templates = "tokenizer_config.json";
        s = put_json(t, o);
    } else {
        s = from_json_file(t);
    }
    free(p);
    return s;
}
