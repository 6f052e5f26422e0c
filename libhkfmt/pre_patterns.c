/* The split patterns that tokenizer.ggml.pre names: one table for the engine, which splits by them,
 * and for directories of Hugging Face, which spell them out. */
#include <string.h>

#include "libhkfmt/pre_patterns.h"

#define APOSTROPHE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define LETTERS_LLAMA3(digits)                                                                     \
    APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                            \
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* GPT-4o cuts a word before a capital, and takes combining marks for letters. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LETTERS_GPT4O                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" APOSTROPHE "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER       \
    "+" LOWER "*" APOSTROPHE                                                                       \
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Patterns as their models' tokenizers publish them; names as llama.cpp writes them into files.
 * "default" is what llama.cpp does where a file names nothing. */
static const struct hk_pre_tokenizer known[] = {
    {"default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", LETTERS_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false},
    {"gpt-2", {LETTERS_GPT2 "|\\s+"}, false},
    {"phi-2", {LETTERS_GPT2 "|\\s+"}, false},
    {"llama-bpe", {LETTERS_LLAMA3("\\p{N}{1,3}")}, true},
    {"llama3", {LETTERS_LLAMA3("\\p{N}{1,3}")}, true},
    {"llama-v3", {LETTERS_LLAMA3("\\p{N}{1,3}")}, true},
    {"qwen2", {LETTERS_LLAMA3("\\p{N}")}, false},
    {"gpt-4o", {LETTERS_GPT4O}, false},
    {"dbrx", {LETTERS_LLAMA3("\\p{N}{1,3}")}, false}, /* cl100k */
    {"deepseek-r1-qwen", {LETTERS_LLAMA3("\\p{N}")}, false},
};
enum { KNOWN = sizeof known / sizeof known[0] };

const struct hk_pre_tokenizer *hk_pre_tokenizer(struct hk_bytes name)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (hk_bytes_are(name, known[i].name))
            return &known[i];
    }
    return NULL;
}

static bool has_patterns(const struct hk_pre_tokenizer *row, const struct hk_bytes *pattern,
                         size_t n)
{
    size_t i = 0;
    while (i < n && i < HK_PRE_PATTERNS && row->pattern[i] != NULL &&
           hk_bytes_are(pattern[i], row->pattern[i]))
        i++;
    return i == n && (i == HK_PRE_PATTERNS || row->pattern[i] == NULL);
}

const struct hk_pre_tokenizer *hk_pre_tokenizer_of(const struct hk_bytes *pattern, size_t n,
                                                   bool whole_words)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (known[i].llama3 == whole_words && has_patterns(&known[i], pattern, n))
            return &known[i];
    }
    return NULL;
}

bool hk_pre_patterns_known(const struct hk_bytes *pattern, size_t n)
{
    return hk_pre_tokenizer_of(pattern, n, false) != NULL ||
           hk_pre_tokenizer_of(pattern, n, true) != NULL;
}

const char *hk_pre_gpt2(void)
{
    return LETTERS_GPT2 "|\\s+";
}
