/* Chat templates: chat_template.jinja and additional_chat_templates/NAME.jinja, else those of
 * tokenizer_config.json, else chat_template.json, in the order in which transformers asks.. On the
 * way back one is written to chat_template.jinja, several as the list that tokenizer_config.json
 * then has; or where they came from. */
#include "libhkfmt/hf/tokenizer/templates.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/hf/export.h"
#include "libhkfmt/hkmodel.h"

enum { MAX_NAMED = 64, MAX_NAME = 64 };

static enum hk_status refuse_template(const struct hk_tok *t, const char *what)
{
    return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "chat_template: %s", what);
}

static enum hk_status put_named_template(struct hk_tok *t, struct hk_bytes name,
                                         struct hk_bytes text, struct hk_bytes *names, uint32_t *n)
{
    if (hk_bytes_are(name, "default")) {
        hk_kvlist_string(t->out, hk_vocab_key(HK_VOCAB_CHAT_TEMPLATE), text);
        return HK_OK;
    }
    char key[128];
    if (*n == MAX_NAMED || name.n == 0 || name.n > MAX_NAME || memchr(name.p, '\0', name.n) != NULL)
        return refuse_template(t, "too many templates, or a name that is too long");
    for (uint32_t i = 0; i < *n; i++) {
        if (names[i].n == name.n && memcmp(names[i].p, name.p, name.n) == 0)
            return refuse_template(t, "two templates have the same name");
    }
    snprintf(key, sizeof key, "%s.%.*s", hk_vocab_key(HK_VOCAB_CHAT_TEMPLATE), HK_STR(name));
    hk_kvlist_string(t->out, key, text);
    names[(*n)++] = name;
    return HK_OK;
}

/* A list of objects with name and template, or one object with templates by their names. */
static enum hk_status put_template_list(struct hk_tok *t, json_t *o)
{
    struct hk_bytes names[MAX_NAMED];
    uint32_t n = 0;
    enum hk_status st = HK_OK;
    size_t i;
    json_t *one;
    json_array_foreach(o, i, one)
    {
        const json_t *name = json_object_get(one, "name"), *text = json_object_get(one, "template");
        if (!json_is_string(name) || !json_is_string(text))
            return refuse_template(t, "an element of the list has no name or no template");
        st = put_named_template(t, hk_json_string_bytes(name), hk_json_string_bytes(text), names,
                                &n);
        if (st != HK_OK)
            return st;
    }
    if (n > 0)
        hk_kvlist_strings(t->out, hk_vocab_key(HK_VOCAB_CHAT_TEMPLATES), names, n);
    return HK_OK;
}

static enum hk_status put_json_templates(struct hk_tok *t, json_t *o)
{
    if (json_is_string(o)) {
        hk_kvlist_string(t->out, hk_vocab_key(HK_VOCAB_CHAT_TEMPLATE), hk_json_string_bytes(o));
        return HK_OK;
    }
    return json_is_array(o) ? put_template_list(t, o)
                            : refuse_template(t, "neither a string nor a list");
}

static enum hk_status put_json_file_templates(struct hk_tok *t)
{
    json_t *file = NULL;
    enum hk_status st = hk_tok_read_json(t->dir, "chat_template.json", &file, t->err);
    json_t *o = json_object_get(file, "chat_template");
    if (st == HK_OK && file != NULL)
        t->templates = "chat_template.json";
    if (st == HK_OK && file != NULL)
        st = o != NULL ? put_json_templates(t, o)
                       : refuse_template(t, "chat_template.json has none");
    json_decref(file);
    return st;
}

/* ---- files ---- */

static const char more[] = "additional_chat_templates", jinja[] = ".jinja";

/* DIR/NAME as template KEY, if it is there. transformers reads no other bytes than UTF-8. */
static enum hk_status put_template_file(struct hk_tok *t, const char *name, const char *key,
                                        bool *there)
{
    uint8_t *p = NULL;
    size_t n = 0;
    enum hk_status st = hk_hf_read(t->dir, name, HK_TOK_FILE, &p, &n, t->err);
    const struct hk_bytes text = {p, n};
    *there = p != NULL;
    if (st == HK_OK && p != NULL && !hk_utf8_valid(text))
        st = hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET, "%s: text that is not UTF-8", name);
    if (st == HK_OK && p != NULL)
        hk_kvlist_string(t->out, key, text);
    free(p);
    return st;
}

static int is_template_file(const struct dirent *e)
{
    const size_t n = strlen(e->d_name), k = sizeof jinja - 1;
    return n > k && strcmp(e->d_name + n - k, jinja) == 0;
}

static enum hk_status put_additional_file(struct hk_tok *t, const char *file, struct hk_bytes name)
{
    char key[128];
    char *path = NULL;
    bool there;
    const bool usual = hk_bytes_are(name, "default");
    if (name.n > MAX_NAME || !hk_utf8_valid(name))
        return hk_fail(t->err, HK_E_FORMAT, HK_NO_OFFSET,
                       "%s/%s: a name that is too long or not UTF-8", more, file);
    if (usual && hk_kvlist_find(t->out, hk_vocab_key(HK_VOCAB_CHAT_TEMPLATE)) != NULL)
        return refuse_template(t, "two templates have the same name");
    snprintf(key, sizeof key, "%s%s%.*s", hk_vocab_key(HK_VOCAB_CHAT_TEMPLATE), usual ? "" : ".",
             usual ? 0 : (int)name.n, (const char *)name.p);
    if (asprintf(&path, "%s/%s", more, file) < 0)
        return hk_fail_nomem(t->err);
    enum hk_status st = put_template_file(t, path, key, &there);
    free(path);
    return st;
}

/* The COUNT files, in order of their names; frees them. */
static enum hk_status put_additional_files(struct hk_tok *t, struct dirent **files, size_t count)
{
    struct hk_bytes names[MAX_NAMED];
    uint32_t n = 0;
    enum hk_status st = count <= MAX_NAMED ? HK_OK : refuse_template(t, "too many templates");
    for (size_t i = 0; i < count && st == HK_OK; i++) {
        const char *file = files[i]->d_name;
        const struct hk_bytes name = {(const uint8_t *)file, strlen(file) - (sizeof jinja - 1)};
        st = put_additional_file(t, file, name);
        if (!hk_bytes_are(name, "default"))
            names[n++] = name;
    }
    if (st == HK_OK && n > 0)
        hk_kvlist_strings(t->out, hk_vocab_key(HK_VOCAB_CHAT_TEMPLATES), names, n);
    for (size_t i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return st;
}

static enum hk_status put_additional_folder(struct hk_tok *t, bool *there)
{
    struct dirent **files = NULL;
    char *path = hk_hf_path(t->dir, more);
    if (path == NULL)
        return hk_fail_nomem(t->err);
    const int count = scandir(path, &files, is_template_file, alphasort);
    const int sys = errno;
    free(path);
    *there = count > 0;
    if (count < 0)
        return sys == ENOENT ? HK_OK
                             : hk_hf_about(more, hk_fail_sys(t->err, sys, "cannot read"), t->err);
    return put_additional_files(t, files, (size_t)count);
}

enum hk_status hk_tok_put_templates(struct hk_tok *t)
{
    bool one = false, several = false;
    enum hk_status st =
        put_template_file(t, "chat_template.jinja", hk_vocab_key(HK_VOCAB_CHAT_TEMPLATE), &one);
    if (st == HK_OK)
        st = put_additional_folder(t, &several);
    if (st != HK_OK)
        return st;
    json_t *o = json_object_get(t->settings, "chat_template");
    if (one || several) {
        t->templates = "chat_template.jinja";
    } else if (o != NULL && !json_is_null(o)) {
        t->templates = "tokenizer_config.json";
        st = put_json_templates(t, o);
    } else {
        st = put_json_file_templates(t);
    }
    return st;
}

/* ---- export ---- */

static enum hk_status read_template_text(const struct hk_tok_export *p, const struct hk_kv *kv,
                                         json_t **out)
{
    struct hk_bytes text;
    enum hk_status st = hk_kv_string(kv, &text, p->t.err);
    if (st != HK_OK)
        return st;
    *out = hk_json_new_string(text);
    return *out != NULL ? HK_OK
                        : hk_fail(p->t.err, HK_E_UNSUPPORTED, kv->offset,
                                  "%.*s: text that is not UTF-8", HK_STR(kv->key));
}

static enum hk_status append_template(const struct hk_tok_export *p, json_t *list,
                                      struct hk_bytes name, const struct hk_kv *kv)
{
    json_t *text = NULL;
    enum hk_status st = read_template_text(p, kv, &text);
    if (st == HK_OK &&
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "name", hk_json_new_string(name), "template", text)) != 0)
        st = hk_fail_nomem(p->t.err);
    return st;
}

/* All templates as a list; empty if there are none but the default. */
static enum hk_status list_templates(const struct hk_tok_export *p, json_t *list)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_CHAT_TEMPLATE);
    struct hk_bytes name = {(const uint8_t *)"default", strlen("default")};
    enum hk_status st = kv != NULL ? append_template(p, list, name, kv) : HK_OK;
    size_t named = 0;
    for (size_t i = 0; (kv = hk_kv_at(p->f, i)) != NULL && st == HK_OK; i++) {
        if (!hk_vocab_is_template(kv->key, &name))
            continue;
        named++;
        st = append_template(p, list, name, kv);
    }
    if (named == 0)
        json_array_clear(list);
    return st;
}

static const char *find_template_place(const struct hk_tok_export *p)
{
    const char *where = json_string_value(json_object_get(p->form, "template"));
    return where != NULL ? where : "chat_template.jinja";
}

static enum hk_status export_one_template(struct hk_tok_export *p, const struct hk_kv *kv)
{
    struct hk_bytes text;
    enum hk_status st = hk_kv_string(kv, &text, p->t.err);
    if (st != HK_OK)
        return st;
    if (strcmp(find_template_place(p), "chat_template.jinja") == 0) {
        struct hk_buf b = {0};
        hk_buf_put(&b, text.p, text.n);
        return hk_side_files_add(p->out, "chat_template.jinja", &b, p->t.err);
    }
    json_t *v = NULL;
    st = read_template_text(p, kv, &v);
    if (st != HK_OK)
        return st;
    if (strcmp(find_template_place(p), "chat_template.json") != 0)
        return hk_json_set_new(p->t.settings, "chat_template", v) ? HK_OK : hk_fail_nomem(p->t.err);
    json_t *file = json_pack("{s:o}", "chat_template", v);
    st = file != NULL ? hk_side_files_json(p->out, "chat_template.json", file, p->t.err)
                      : hk_fail_nomem(p->t.err);
    json_decref(file);
    return st;
}

enum hk_status hk_tok_export_templates(struct hk_tok_export *p)
{
    const struct hk_kv *kv = hk_vocab_find(p->f, HK_VOCAB_CHAT_TEMPLATE);
    json_t *list = json_array();
    if (list == NULL)
        return hk_fail_nomem(p->t.err);
    enum hk_status st = list_templates(p, list);
    if (st == HK_OK && json_array_size(list) > 0)
        st = json_object_set(p->t.settings, "chat_template", list) == 0 ? HK_OK
                                                                        : hk_fail_nomem(p->t.err);
    else if (st == HK_OK && kv != NULL)
        st = export_one_template(p, kv);
    json_decref(list);
    return st;
}
