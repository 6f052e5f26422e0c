/* The keys of rank_pattern and alpha_pattern: Python patterns that the end of a module's name has
 * to match. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/adapter/adapter.h"

struct hk_adapter_pattern {
    const char *key; /* the object's */
    json_t *value;
    bool compiled; /* else KEY is a name, in which only the dot stands for other characters */
    regex_t regex;
};

/* Most keys are names: a dot matches a dot too. */
static bool is_name(const char *key)
{
    return key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] ==
           '\0';
}

/* Whether NAME is KEY, or ends in a dot and KEY, with any character for each dot of KEY. */
static bool ends_as(const char *name, const char *key)
{
    const size_t n = strlen(name), k = strlen(key);
    if (n < k || (n > k && name[n - k - 1] != '.'))
        return false;
    for (size_t i = 0; i < k; i++)
        if (key[i] != '.' && key[i] != name[n - k + i])
            return false;
    return true;
}

/* regcomp() calls itself for each group and doubles a group that a plus stands behind. */
static bool is_bounded(const char *key)
{
    enum { MAX_LENGTH = 256, MAX_GROUPS = 32, MAX_REPEATED_GROUPS = 2 };
    size_t n = 0, groups = 0, repeated = 0;
    for (; n <= MAX_LENGTH && key[n] != '\0'; n++) {
        groups += key[n] == '(';
        repeated += key[n] == '+' && n > 0 && (key[n - 1] == ')' || key[n - 1] == '+');
    }
    return n <= MAX_LENGTH && groups <= MAX_GROUPS && repeated <= MAX_REPEATED_GROUPS;
}

/* What POSIX reads otherwise than Python is refused, and what would take it without bounds. */
static enum hk_status compile(struct hk_adapter_pattern *p, size_t *total, struct hk_error *err)
{
    enum { MAX_TOTAL = 4096 }; /* characters of all together */
    char *text;
    if (is_name(p->key))
        return HK_OK;
    if (strpbrk(p->key, "\\[{") != NULL || strstr(p->key, "(?") != NULL || !is_bounded(p->key))
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config.json: pattern '%.60s' is not supported", p->key);
    *total += strlen(p->key);
    if (*total > MAX_TOTAL)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "adapter_config.json: the patterns have more than %d characters", MAX_TOTAL);
    if (asprintf(&text, "^(.*\\.)?(%s)$", p->key) < 0)
        return hk_fail_nomem(err);
    const int result = regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB);
    free(text);
    p->compiled = result == 0;
    if (result == REG_ESPACE)
        return hk_fail_nomem(err);
    return p->compiled ? HK_OK
                       : hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                                 "adapter_config.json: '%.60s' is no pattern", p->key);
}

enum hk_status hk_adapter_patterns_compile(struct hk_adapter_patterns *p, json_t *object,
                                           struct hk_error *err)
{
    enum { MAX_KEYS = 4096 }; /* each module is compared with all of them */
    const char *key;
    json_t *value;
    size_t total = 0;
    enum hk_status st = HK_OK;
    *p = (struct hk_adapter_patterns){
        .list = calloc(json_object_size(object) + 1, sizeof *p->list),
        .object = json_incref(object),
    };
    if (p->list == NULL)
        return hk_fail_nomem(err);
    if (json_object_size(object) > MAX_KEYS)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "the adapter has more than %d ranks or alphas of their own", MAX_KEYS);
    json_object_foreach(object, key, value)
    {
        struct hk_adapter_pattern *one = &p->list[p->count++];
        *one = (struct hk_adapter_pattern){.key = key, .value = value};
        st = compile(one, &total, err);
        if (st != HK_OK)
            break;
    }
    return st;
}

void hk_adapter_patterns_free(struct hk_adapter_patterns *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].compiled)
            regfree(&p->list[i].regex);
    free(p->list);
    json_decref(p->object);
    *p = (struct hk_adapter_patterns){0};
}

json_t *hk_adapter_patterns_find(const struct hk_adapter_patterns *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct hk_adapter_pattern *one = &p->list[i];
        if (one->compiled ? regexec(&one->regex, name, 0, NULL, 0) == 0 : ends_as(name, one->key))
            return one->value;
    }
    return NULL;
}
