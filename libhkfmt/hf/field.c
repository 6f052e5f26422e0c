/* Fields of a JSON object, each checked for its type and range, with a message that names it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libhkfmt/hf/hf.h"

enum { MOST = 1 << 30 }; /* no size of a model comes near it, and products of two fit 64 bits */

json_t *hk_hf_field(const json_t *object, const char *name)
{
    json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

void hk_hf_need(struct hk_hf_in *in, const json_t *object, const char *name)
{
    if (in->st == HK_OK && hk_hf_field(object, name) == NULL)
        in->st = hk_fail(in->err, HK_E_MISSING, HK_NO_OFFSET, "%s%s is missing", in->where, name);
}

/* The beginning of V's text. The dumper leaves out what does not fit, and all behind it. */
static void print_json_start(const json_t *v, char out[64])
{
    memset(out, 0, 64);
    size_t n = json_dumpb(v, out, 60, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (n > 60)
        memcpy(out + strlen(out), "...", 4);
}

void hk_hf_refuse(struct hk_hf_in *in, enum hk_status st, const char *name, const json_t *value,
                  const char *why)
{
    char text[64];
    if (in->st != HK_OK)
        return;
    print_json_start(value, text);
    in->st = hk_fail(in->err, st, HK_NO_OFFSET, "%s%s is %s%s%s", in->where, name, text,
                     why != NULL ? ": " : "", why != NULL ? why : "");
}

void hk_hf_number(struct hk_hf_in *in, const json_t *object, const char *name, double *v)
{
    const json_t *field = hk_hf_field(object, name);
    if (in->st != HK_OK || field == NULL)
        return;
    if (json_is_number(field))
        *v = json_number_value(field);
    else
        hk_hf_refuse(in, HK_E_FORMAT, name, field, "no number");
}

void hk_hf_positive(struct hk_hf_in *in, const json_t *object, const char *name, double *v)
{
    double x = 1;
    hk_hf_number(in, object, name, &x);
    const json_t *field = hk_hf_field(object, name);
    if (in->st != HK_OK || field == NULL)
        return;
    /* As f32, which it becomes. */
    if ((float)x > 0 && isfinite((float)x))
        *v = x;
    else
        hk_hf_refuse(in, HK_E_RANGE, name, field, "not a number above 0");
}

void hk_hf_count(struct hk_hf_in *in, const json_t *object, const char *name, uint32_t *v)
{
    double x = 1;
    hk_hf_number(in, object, name, &x);
    const json_t *field = hk_hf_field(object, name);
    if (in->st != HK_OK || field == NULL)
        return;
    if (x >= 1 && x <= MOST && x == (double)(uint32_t)x)
        *v = (uint32_t)x;
    else
        hk_hf_refuse(in, HK_E_RANGE, name, field, "not a whole number from 1");
}

void hk_hf_flag(struct hk_hf_in *in, const json_t *object, const char *name, bool *v)
{
    const json_t *field = hk_hf_field(object, name);
    if (in->st != HK_OK || field == NULL)
        return;
    if (json_is_boolean(field))
        *v = json_is_true(field);
    else
        hk_hf_refuse(in, HK_E_FORMAT, name, field, "neither true nor false");
}

void hk_hf_text(struct hk_hf_in *in, const json_t *object, const char *name, struct hk_bytes *v)
{
    const json_t *field = hk_hf_field(object, name);
    if (in->st != HK_OK || field == NULL)
        return;
    if (json_is_string(field))
        *v =
            (struct hk_bytes){(const uint8_t *)json_string_value(field), json_string_length(field)};
    else
        hk_hf_refuse(in, HK_E_FORMAT, name, field, "no string");
}
