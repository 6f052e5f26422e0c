/* The split patterns that tokenizer.ggml.pre names: one table for the engine, which splits by them,
 * for directories of Hugging Face, which spell them out, and for GGUF, which has names only. The
 * names, and which split each stands for, are those of llama.cpp (src/llama-vocab.cpp). */
#include <string.h>

#include "libhkfmt/model/pre_patterns.h"

#define APOSTROPHE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LETTERS_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define LETTERS_LLAMA3(digits)                                                                     \
    APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES

/* GPT-4o cuts a word before a capital, and takes combining marks for letters. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LETTERS_CAPITALS(suffix, digits)                                                           \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER  \
    "*" suffix "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define LETTERS_GPT4O LETTERS_CAPITALS(APOSTROPHE "?", "\\p{N}{1,3}")

#define CHINESE_JAPANESE "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define CHINESE_KOREAN "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define LETTERS_DEEPSEEK3                                                                          \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}"    \
    "\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define NO_PUNCTUATION " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

/* Scripts with two cases. */
#define CASED                                                                                      \
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"         \
    "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-"           \
    "\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"         \
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-"        \
    "\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-"          \
    "\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-"         \
    "\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-"          \
    "\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"           \
    "\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"           \
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-"        \
    "\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"        \
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-"         \
    "\U0001e943"

/* tiktoken's class without Chinese characters, put otherwise. */
#define NOT_HAN(class) "(?:(?!\\p{Han})" class ")"
#define LETTERS_KIMI                                                                               \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "*" NOT_HAN(                               \
        LOWER) "+" APOSTROPHE                                                                      \
               "?|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "+" NOT_HAN(                              \
                   LOWER) "*" APOSTROPHE "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES

/* clang-format off */
#define GPT2 {LETTERS_GPT2 "|\\s+"}
#define DIGITS_GPT2 {"\\p{N}", LETTERS_GPT2 "|\\s+"}
#define LLAMA3 {LETTERS_LLAMA3("\\p{N}{1,3}")}
#define QWEN2 {LETTERS_LLAMA3("\\p{N}")}
#define GPT4O {LETTERS_GPT4O}
#define DEEPSEEK3 {"\\p{N}{1,3}", CHINESE_JAPANESE, LETTERS_DEEPSEEK3}
#define BAILING {APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}
#define TINY_AYA {"\\d{1,3}(?=(?:\\d{3})*\\b)", LETTERS_GPT4O}

enum { WHOLE = 1, BOS = 2, OVER = 4, COSTLY = 8 };
#define ROW(name, flags, ...) \
    {name, __VA_ARGS__, ((flags) & WHOLE) != 0, ((flags) & BOS) != 0, ((flags) & OVER) != 0, \
     ((flags) & COSTLY) != 0}

/* Patterns as their models' tokenizers publish them; names, and what else each stands for, as
 * llama.cpp has them (src/llama-vocab.cpp). Those of several names have the one first that is
 * written. "default" is what llama.cpp does where a file names nothing. */
static const struct hk_pre_tokenizer known[] = {
    ROW("default", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", LETTERS_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}),
    ROW("gpt-2", 0, GPT2),
    ROW("phi-2", 0, GPT2),
    ROW("mpt", 0, GPT2),
    ROW("olmo", 0, GPT2),
    ROW("jais", 0, GPT2),
    ROW("exaone4", 0, GPT2),
    ROW("trillion", 0, GPT2),
    ROW("granite-docling", 0, GPT2),
    ROW("gigachat", 0, GPT2),
    ROW("jina-es", 0, GPT2),
    ROW("jina-de", 0, GPT2),
    ROW("jina-v2-es", 0, GPT2),
    ROW("jina-v2-de", 0, GPT2),
    ROW("a.x-4.0", 0, GPT2),
    ROW("mellum", 0, GPT2),
    ROW("modern-bert", 0, GPT2),
    ROW("llama-bpe", WHOLE | BOS, LLAMA3),
    ROW("llama3", WHOLE | BOS, LLAMA3),
    ROW("llama-v3", WHOLE | BOS, LLAMA3),
    ROW("falcon3", WHOLE | BOS, LLAMA3),
    ROW("falcon-h1", WHOLE | BOS, LLAMA3),
    ROW("pixtral", WHOLE | BOS, LLAMA3),
    ROW("midm-2.0", WHOLE | BOS, LLAMA3),
    ROW("lfm2", WHOLE | BOS, LLAMA3),
    ROW("jina-v5-nano", WHOLE | BOS, LLAMA3),
    ROW("dbrx", 0, LLAMA3),
    ROW("smaug-bpe", 0, LLAMA3),
    ROW("glm4", 0, LLAMA3),
    ROW("chatglm-bpe", 0, LLAMA3),
    ROW("qwen2", 0, QWEN2),
    ROW("deepseek-r1-qwen", 0, QWEN2),
    ROW("stablelm2", 0, QWEN2),
    ROW("megrez", 0, QWEN2),
    ROW("hunyuan", 0, QWEN2),
    ROW("solar-open", 0, QWEN2),
    ROW("grok-2", 0, QWEN2),
    ROW("kormo", 0, QWEN2),
    ROW("f2llmv2", 0, QWEN2),
    ROW("gpt-4o", 0, GPT4O),
    ROW("llama4", 0, GPT4O),
    ROW("kanana2", 0, GPT4O),
    ROW("minimax-m2", 0, GPT4O),
    ROW("talkie", 0, GPT4O),
    ROW("granite-embed-multi-97m", WHOLE, GPT4O),
    ROW("deepseek-v3", 0, DEEPSEEK3),
    ROW("hunyuan-dense", 0, DEEPSEEK3),
    ROW("joyai-llm", 0, DEEPSEEK3),
    ROW("deepseek-llm", 0, {"[\\r\\n]", "\\s?[" CASED "]+",
                            "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                            "\\s+$", CHINESE_KOREAN, "\\p{N}+"}),
    ROW("deepseek-coder", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CHINESE_KOREAN, "\\p{N}"}),
    ROW("smollm", 0, DIGITS_GPT2),
    ROW("command-r", 0, DIGITS_GPT2),
    ROW("starcoder", 0, DIGITS_GPT2),
    ROW("refact", 0, DIGITS_GPT2),
    ROW("codeshell", 0, DIGITS_GPT2),
    ROW("exaone", 0, DIGITS_GPT2),
    ROW("minerva-7b", 0, DIGITS_GPT2),
    ROW("mellum2", 0, DIGITS_GPT2),
    ROW("qwen35", 0, {APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                      "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES}),
    ROW("tekken", WHOLE | BOS, {LETTERS_CAPITALS("", "\\p{N}")}),
    ROW("falcon", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", LETTERS_GPT2 "|\\s+", "[0-9][0-9][0-9]"}),
    ROW("poro-chat", 0, {NO_PUNCTUATION}),
    ROW("bloom", 0, {NO_PUNCTUATION}),
    ROW("gpt3-finnish", 0, {NO_PUNCTUATION}),
    ROW("viking", 0, {NO_PUNCTUATION, "\\p{N}"}),
    ROW("chameleon", BOS, {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                           "([\\t\\n]|    |  )", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
                           LETTERS_GPT2 "|\\s+"}),
    ROW("jais-2", 0, {APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                      "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                      "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)"
                      "|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
                      "|\\s{1,2}(?!\\S)|\\s{1}"}),
    ROW("youtu", WHOLE, {"[\uac00-\ud7a3\u3131-\u318e]+"
                         "|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
                         "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" CHINESE_JAPANESE,
                         LETTERS_CAPITALS(APOSTROPHE "?", "\\p{N}")}),
    ROW("minicpm5", WHOLE, {"\\p{N}{1,3}", LETTERS_LLAMA3("\\p{N}+")}),
    ROW("seed-coder", 0, {APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                          "| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES}),
    ROW("bailingmoe", 0, BAILING),
    ROW("bailingmoe2", 0, BAILING),
    ROW("llada-moe", 0, BAILING),
    ROW("exaone-moe", OVER, {APOSTROPHE "|[^\\r\\n\\p{L}\\p{N}]?"
                             "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+"
                             "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?"
                             "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}),
    ROW("tiny_aya", COSTLY, TINY_AYA),
    ROW("cohere2moe", COSTLY, TINY_AYA),
    ROW("kimi-k2", 0, {LETTERS_KIMI}),
};
/* clang-format on */
enum { KNOWN = sizeof known / sizeof known[0] };

const struct hk_pre_tokenizer *hk_pre_tokenizer(struct hk_bytes name)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (hk_bytes_are(name, known[i].name))
            return &known[i];
    }
    return NULL;
}

enum hk_status hk_pre_tokenizer_of_file(const struct hk_pre_tokenizer **out,
                                        const struct hk_file *f, struct hk_error *err)
{
    const struct hk_kv *kv = hk_vocab_find(f, HK_VOCAB_PRE);
    struct hk_bytes name = {(const uint8_t *)known[0].name, strlen(known[0].name)};
    const enum hk_status st = kv != NULL ? hk_kv_string(kv, &name, err) : HK_OK;
    if (st != HK_OK)
        return st;
    const struct hk_pre_tokenizer *row = hk_pre_tokenizer(name);
    if (row == NULL)
        return hk_fail(err, HK_E_UNSUPPORTED, kv->offset, "%s: unknown pre-tokenizer \"%.*s\"",
                       hk_vocab_key(HK_VOCAB_PRE), HK_STR(name));
    *out = row;
    return HK_OK;
}

/* ---- from patterns to a name ---- */

/* The same put otherwise. What is possessive in a pattern of ours gives nothing back anyway: what
 * follows it cannot match what it took. */
static const struct {
    const char *theirs, *ours;
} spellings[] = {
    {"\r", "\\r"},
    {"\n", "\\n"},
    {"\t", "\\t"},
    {"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])", APOSTROPHE},
    {"'(?i:[sdmt]|ll|ve|re)", APOSTROPHE},
    {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])", APOSTROPHE},
    {"\\p{N}{1}", "\\p{N}"},
    {"]?+", "]?"},
    {"]++", "]+"},
};

static bool begins_with(const char *p, const char *end, const char *with)
{
    const size_t n = strlen(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

/* Whether PATTERN is OURS, perhaps in other spellings. */
static bool same_pattern(struct hk_bytes pattern, const char *ours)
{
    const char *p = (const char *)pattern.p, *end = p + pattern.n;
    const char *q = ours, *q_end = ours + strlen(ours);
    while (p < end) {
        size_t i = 0;
        const size_t count = sizeof spellings / sizeof spellings[0];
        while (i < count && !(begins_with(p, end, spellings[i].theirs) &&
                              begins_with(q, q_end, spellings[i].ours)))
            i++;
        if (i == count && (q == q_end || *p != *q))
            return false;
        p += i < count ? strlen(spellings[i].theirs) : 1;
        q += i < count ? strlen(spellings[i].ours) : 1;
    }
    return q == q_end;
}

static bool has_patterns(const struct hk_pre_tokenizer *row, const struct hk_bytes *pattern,
                         size_t n)
{
    size_t i = 0;
    while (i < n && i < HK_PRE_PATTERNS && row->pattern[i] != NULL &&
           same_pattern(pattern[i], row->pattern[i]))
        i++;
    return i == n && (i == HK_PRE_PATTERNS || row->pattern[i] == NULL);
}

const struct hk_pre_tokenizer *hk_pre_tokenizer_of(const struct hk_bytes *pattern, size_t n)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (has_patterns(&known[i], pattern, n))
            return &known[i];
    }
    return NULL;
}

const struct hk_pre_tokenizer *hk_pre_tokenizer_for(const struct hk_bytes *pattern, size_t n,
                                                    bool whole_words)
{
    const struct hk_pre_tokenizer *other = NULL;
    for (size_t i = 0; i < KNOWN; i++) {
        if (!has_patterns(&known[i], pattern, n))
            continue;
        if (known[i].whole_words == whole_words)
            return &known[i];
        other = other != NULL ? other : &known[i];
    }
    return other;
}

bool hk_pre_same(const struct hk_pre_tokenizer *a, const struct hk_pre_tokenizer *b)
{
    bool same = true;
    for (size_t i = 0; i < HK_PRE_PATTERNS && same; i++)
        same = a->pattern[i] == b->pattern[i] || (a->pattern[i] != NULL && b->pattern[i] != NULL &&
                                                  strcmp(a->pattern[i], b->pattern[i]) == 0);
    return same;
}

bool hk_pre_covers(struct hk_bytes pattern)
{
    static const char end[] = "|\\s+";
    const size_t n = sizeof end - 1;
    const struct hk_pre_tokenizer *row = hk_pre_tokenizer_of(&pattern, 1);
    if (row == NULL)
        return false;
    const size_t length = strlen(row->pattern[0]);
    return length > n && strcmp(row->pattern[0] + length - n, end) == 0;
}

const char *hk_pre_gpt2(void)
{
    return LETTERS_GPT2 "|\\s+";
}
