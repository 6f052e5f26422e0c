/* tool_complete.c: what could come next on a command line, for the completions of the shells.
 *
 * "hk-NAME --complete WORD..." prints what the last word, which may be empty, can become: a line
 * for each, with a tab and what it means behind it, or a line ":files", ":models" or ":directories"
 * where the shell knows better. Names of keys, tensors and records come from the first of the
 * words that is a model. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/tool.h"

struct completion {
    const struct tool *tool;
    char **word; /* the last is the one to complete */
    int count;
    const char *current; /* it, without "--NAME=" */
    const char *before;  /* "--NAME=" for bash and fish, which complete the whole word; or "" */
};

static void offer_word(const struct completion *c, struct hk_bytes text, const char *help)
{
    const size_t n = strlen(c->current);
    uint32_t code;
    if (text.n < n || memcmp(text.p, c->current, n) != 0 || text.n == 0)
        return;
    for (size_t at = 0, size; at < text.n; at += size)
        if ((size = tool_utf8(text.p + at, text.n - at, &code)) == 0 || tool_disturbs(code))
            return; /* cannot be typed, and could be taken for two lines */
    printf("%s%.*s", c->before, (int)text.n, (const char *)text.p);
    printf(*help != '\0' ? "\t%s\n" : "\n", help);
}

/* LIST: words with blanks or bars between them. */
static void offer_list(const struct completion *c, const char *list)
{
    for (size_t n; *list != '\0'; list += n + (list[n] != '\0')) {
        n = strcspn(list, " |");
        offer_word(c, (struct hk_bytes){(const uint8_t *)list, n}, "");
    }
}

/* ---- names in a model ---- */

enum name_kind { KEYS, TENSORS, RECORDS };

static void offer_names_of(const struct completion *c, const struct hk_file *f, enum name_kind kind)
{
    if (kind == KEYS)
        for (size_t i = 0; i < hk_kv_count(f); i++)
            offer_word(c, hk_kv_at(f, i)->key, "");
    if (kind == TENSORS)
        for (size_t i = 0; i < hk_tensor_count(f); i++)
            offer_word(c, hk_tensor_at(f, i)->name, "");
    if (kind == RECORDS)
        for (size_t i = 0; i < hk_record_count(f); i++)
            offer_word(c, hk_record_at(f, i)->name, hk_record_type_name(hk_record_at(f, i)->type));
}

static void offer_names(const struct completion *c, enum name_kind kind)
{
    struct hk_file *f = NULL;
    for (int i = 0; i + 1 < c->count && f == NULL; i++)
        if (access(c->word[i], R_OK) == 0 && hk_open_set(&f, c->word[i], NULL) != HK_OK)
            f = NULL;
    if (f != NULL)
        offer_names_of(c, f, kind);
    hk_close(&f);
}

/* ---- arguments of options, and operands ---- */

static bool is_any_of(const char *word, size_t n, const char *list)
{
    for (size_t k; *list != '\0'; list += k + (list[k] != '\0')) {
        k = strcspn(list, " ");
        if (k == n && memcmp(word, list, n) == 0)
            return true;
    }
    return false;
}

/* By the name of what it is in the table, N bytes of it. */
static void offer_by_name(const struct completion *c, const char *what, size_t n)
{
    if (memchr(what, '|', n) != NULL) {
        char list[128];
        snprintf(list, sizeof list, "%.*s", (int)n, what);
        offer_list(c, list);
    } else if (is_any_of(what, n, "FILE IN A B MODEL")) {
        puts(":models");
    } else if (is_any_of(what, n, "PATH LIST KEY SIGNATURE OUT")) {
        puts(":files");
    } else if (is_any_of(what, n, "DIR")) {
        puts(":directories");
    } else if (is_any_of(what, n, "TENSOR")) {
        offer_names(c, TENSORS);
    } else if (is_any_of(what, n, "NAME NAME[=SCALE] RECORD")) {
        offer_names(c, RECORDS);
    } else if (is_any_of(what, n, "FORMAT FORM")) {
        offer_list(c, "gguf hf hk peft safetensors");
    }
}

static void offer_argument(const struct completion *c, const struct tool_option *o)
{
    if (strcmp(o->name, "activations") == 0)
        offer_list(c, "f32 q8");
    else if (strcmp(o->name, "type") == 0)
        offer_list(c, strcmp(c->tool->name, "hk-meta") == 0 ? "bool bytes float int json string"
                                                            : "bf16 f16 f32");
    else if (strcmp(o->name, "name") != 0) /* of what is new */
        offer_by_name(c, o->argument, strlen(o->argument));
}

/* Operand NUMBER, from 0, by the line of the help: options in it and a second form are left out;
 * what ends in dots goes on. */
static void offer_operand(const struct completion *c, int number)
{
    const char *word = c->tool->operands;
    for (size_t n; *word != '\0'; word += n + (word[n] != '\0')) {
        n = strcspn(word, " ");
        if (n == 1 && *word == '|' && number >= 0)
            continue;
        if (n > 1 && word[0] == '-') {
            n += 1 + strcspn(word + n + 1, " ");
            continue;
        }
        const char *name = word + (*word == '[');
        const size_t length = strcspn(name, " ].");
        const bool goes_on = n > 3 && memcmp(word + n - 3, "...", 3) == 0;
        if (length > 0 && (number-- == 0 || goes_on)) {
            if (is_any_of(name, length, "ARGUMENT"))
                offer_names(c, KEYS);
            else
                offer_by_name(c, name, length);
            return;
        }
    }
}

/* ---- the words before ---- */

/* The option that WORD is, where it takes an argument that is not in WORD itself. */
static const struct tool_option *option_of_word(const struct tool *t, const char *word)
{
    const struct tool_option *o;
    for (size_t i = 0; (o = tool_option_at(t, i)) != NULL; i++) {
        if (o->argument == NULL)
            continue;
        if (word[0] == '-' && word[1] == '-' && strcmp(word + 2, o->name) == 0)
            return o;
        if (word[0] == '-' && o->letter != 0 && word[1] == o->letter && word[2] == '\0')
            return o;
    }
    return NULL;
}

static void offer_options(const struct completion *c)
{
    const struct tool_option *o;
    char word[64];
    for (size_t i = 0; (o = tool_option_at(c->tool, i)) != NULL; i++) {
        snprintf(word, sizeof word, "--%s", o->name);
        offer_word(c, hk_bytes_of(word), o->help);
        snprintf(word, sizeof word, "-%c", o->letter);
        if (o->letter != 0)
            offer_word(c, hk_bytes_of(word), o->help);
    }
}

/* The current word is "--NAME=VALUE". */
static bool offer_joined(struct completion *c)
{
    char name[64], before[72];
    const char *equals = strchr(c->current, '=');
    if (equals == NULL || (size_t)(equals - c->current) + 2 > sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(equals - c->current), c->current);
    snprintf(before, sizeof before, "%s=", name);
    const struct tool_option *o = option_of_word(c->tool, name);
    c->before = before;
    c->current = equals + 1;
    if (o != NULL)
        offer_argument(c, o);
    return true;
}

_Noreturn void tool_complete(const struct tool *t, char **words, int count)
{
    static char nothing[] = "";
    struct completion c = {
        .tool = t, .word = words, .count = count, .current = nothing, .before = ""};
    const struct tool_option *pending = NULL;
    int operands = 0;
    bool ended = false;
    for (int i = 0; i + 1 < count; i++) {
        if (pending != NULL)
            pending = NULL;
        else if (!ended && strcmp(words[i], "--") == 0)
            ended = true;
        else if (!ended && words[i][0] == '-' && words[i][1] != '\0')
            pending = option_of_word(t, words[i]);
        else
            operands++;
    }
    if (count > 0)
        c.current = words[count - 1];
    if (pending != NULL)
        offer_argument(&c, pending);
    else if (ended || c.current[0] != '-')
        offer_operand(&c, operands);
    else if (!offer_joined(&c))
        offer_options(&c);
    exit(tool_end(TOOL_OK));
}
