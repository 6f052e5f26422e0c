/* The small files of a directory to be written, and JSON as their text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/number.h"
#include "libhkfmt/hf/export.h"

void hk_side_files_free(struct hk_side_files *s)
{
    for (size_t i = 0; i < s->count; i++)
        hk_buf_free(&s->files[i].bytes);
    free(s->files);
    *s = (struct hk_side_files){0};
}

enum hk_status hk_side_files_add(struct hk_side_files *s, const char *name, struct hk_buf *bytes,
                                 struct hk_error *err)
{
    struct hk_side_file *files = NULL;
    if (!bytes->failed)
        files = reallocarray(s->files, s->count + 1, sizeof *files);
    if (files == NULL) {
        hk_buf_free(bytes);
        return hk_fail_nomem(err);
    }
    files[s->count++] = (struct hk_side_file){name, *bytes};
    s->files = files;
    *bytes = (struct hk_buf){0};
    return HK_OK;
}

/* ---- numbers ---- */

static double parse_printed_real(const char *text)
{
    double d = 0;
    hk_parse_json_double(hk_bytes_of(text), &d);
    return d;
}

/* V with DIGITS digits as text, which is terminated. */
static void print_real(struct hk_buf *b, double v, int digits)
{
    b->n = 0;
    hk_put_json_double(b, v, digits);
    hk_buf_put(b, "", 1);
}

double hk_hf_short(double v)
{
    struct hk_buf b = {0};
    double shortest = v;
    const bool single = fabs(v) <= 0x1.fffffep127 && (double)(float)v == v;
    for (int digits = 1; single && digits <= 9; digits++) {
        print_real(&b, v, digits);
        const double d = b.failed ? v : parse_printed_real((const char *)b.p);
        if ((float)d == (float)v) {
            shortest = d;
            break;
        }
    }
    hk_buf_free(&b);
    return shortest;
}

/* Whole numbers up to here are written out, as Python does. */
static const double plain = 1e16;

static void spell_json_real(struct hk_buf *b, double v)
{
    struct hk_buf text = {0};
    const bool whole = fabs(v) < plain && v == trunc(v);
    for (int digits = whole ? 16 : 1; digits <= 17; digits++) {
        print_real(&text, v, digits);
        if (text.failed || parse_printed_real((const char *)text.p) == v)
            break;
    }
    if (text.failed)
        b->failed = true;
    else
        hk_buf_text(b, (const char *)text.p);
    if (whole)
        hk_buf_text(b, ".0");
    hk_buf_free(&text);
}

/* ---- JSON ---- */

static void print_json_line(struct hk_buf *b, size_t depth)
{
    hk_buf_text(b, "\n");
    for (size_t i = 0; i < depth; i++)
        hk_buf_text(b, "  ");
}

static void put_scalar(struct hk_buf *b, const json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY);
    if (text == NULL)
        b->failed = true;
    else
        hk_buf_text(b, text);
    free(text);
}

static void print_json_key(struct hk_buf *b, const char *key, size_t n)
{
    json_t *s = json_stringn_nocheck(key, n);
    put_scalar(b, s);
    json_decref(s);
    hk_buf_text(b, ": ");
}

/* jansson's reader bounds DEPTH. */
static void spell_json_value(struct hk_buf *b, json_t *v, size_t depth)
{
    const bool object = json_is_object(v);
    const size_t count = object ? json_object_size(v) : json_array_size(v);
    if (json_is_real(v)) {
        spell_json_real(b, json_real_value(v));
        return;
    }
    if (count == 0) {
        put_scalar(b, v);
        return;
    }
    void *at = json_object_iter(v);
    hk_buf_text(b, object ? "{" : "[");
    for (size_t i = 0; i < count; i++) {
        hk_buf_text(b, i > 0 ? "," : "");
        print_json_line(b, depth + 1);
        if (object)
            print_json_key(b, json_object_iter_key(at), json_object_iter_key_len(at));
        spell_json_value(b, object ? json_object_iter_value(at) : json_array_get(v, i), depth + 1);
        at = object ? json_object_iter_next(v, at) : NULL;
    }
    print_json_line(b, depth);
    hk_buf_text(b, object ? "}" : "]");
}

enum hk_status hk_side_files_json(struct hk_side_files *s, const char *name, json_t *json,
                                  struct hk_error *err)
{
    struct hk_buf b = {0};
    spell_json_value(&b, json, 0);
    hk_buf_text(&b, "\n");
    return hk_side_files_add(s, name, &b, err);
}
