/* The vocabulary in a model file: the one place that spells its keys, kinds and special pieces. */
#include "libhkfmt/model/vocabulary.h"

#include <stdio.h>
#include <string.h>

static const char *const keys[HK_VOCAB_KEYS] = {
    [HK_VOCAB_MODEL] = "tokenizer.ggml.model",
    [HK_VOCAB_TOKENS] = "tokenizer.ggml.tokens",
    [HK_VOCAB_TYPES] = "tokenizer.ggml.token_type",
    [HK_VOCAB_SCORES] = "tokenizer.ggml.scores",
    [HK_VOCAB_MERGES] = "tokenizer.ggml.merges",
    [HK_VOCAB_PRE] = "tokenizer.ggml.pre",
    [HK_VOCAB_SPLITS] = "tokenizer.hk.pre_regex",
    [HK_VOCAB_IGNORE_MERGES] = "tokenizer.ggml.ignore_merges",
    [HK_VOCAB_ADD_SPACE_PREFIX] = "tokenizer.ggml.add_space_prefix",
    [HK_VOCAB_PREFIX_SCHEME] = "tokenizer.hk.space_prefix",
    [HK_VOCAB_NORMALIZER] = "tokenizer.hk.normalizer",
    [HK_VOCAB_ADDED_FLAGS] = "tokenizer.hk.added_flags",
    [HK_VOCAB_ADD_BOS] = "tokenizer.ggml.add_bos_token",
    [HK_VOCAB_ADD_EOS] = "tokenizer.ggml.add_eos_token",
    [HK_VOCAB_BOS] = "tokenizer.ggml.bos_token_id",
    [HK_VOCAB_EOS] = "tokenizer.ggml.eos_token_id",
    [HK_VOCAB_UNK] = "tokenizer.ggml.unknown_token_id",
    [HK_VOCAB_SEP] = "tokenizer.ggml.seperator_token_id", /* sic */
    [HK_VOCAB_PAD] = "tokenizer.ggml.padding_token_id",
    [HK_VOCAB_CLS] = "tokenizer.ggml.cls_token_id",
    [HK_VOCAB_MASK] = "tokenizer.ggml.mask_token_id",
    [HK_VOCAB_EOT] = "tokenizer.ggml.eot_token_id",
    [HK_VOCAB_EOM] = "tokenizer.ggml.eom_token_id",
    [HK_VOCAB_END_IDS] = "tokenizer.hk.eog_ids",
    [HK_VOCAB_CHAT_TEMPLATE] = "tokenizer.chat_template",
    [HK_VOCAB_CHAT_TEMPLATES] = "tokenizer.chat_templates",
    [HK_VOCAB_STORED_JSON] = "hk.hf.tokenizer",
    [HK_VOCAB_STORED_SETTINGS] = "hk.hf.tokenizer_config",
    [HK_VOCAB_STORED_SPECIAL] = "hk.hf.special_tokens_map",
    [HK_VOCAB_STORED_FORM] = "hk.hf.tokenizer_form",
    [HK_VOCAB_STORED_MERGES] = "hk.hf.merges",
};

const char *hk_vocab_key(enum hk_vocab_key key)
{
    return keys[key];
}

const struct hk_kv *hk_vocab_find(const struct hk_file *f, enum hk_vocab_key key)
{
    return hk_kv_find(f, keys[key]);
}

bool hk_vocab_is_template(struct hk_bytes key, struct hk_bytes *name)
{
    const char *prefix = keys[HK_VOCAB_CHAT_TEMPLATE];
    const size_t n = strlen(prefix);
    if (key.n <= n + 1 || memcmp(key.p, prefix, n) != 0 || key.p[n] != '.')
        return false;
    *name = (struct hk_bytes){key.p + n + 1, key.n - n - 1};
    return true;
}

/* ---- kinds ---- */

static const char *const kinds[] = {[HK_VOCAB_SPM] = "llama", [HK_VOCAB_BPE] = "gpt2"};

const char *hk_vocab_kind_name(enum hk_vocab_kind kind)
{
    return kinds[kind];
}

enum hk_vocab_kind hk_vocab_kind(struct hk_bytes name)
{
    if (hk_bytes_are(name, kinds[HK_VOCAB_SPM]))
        return HK_VOCAB_SPM;
    return hk_bytes_are(name, kinds[HK_VOCAB_BPE]) ? HK_VOCAB_BPE : HK_VOCAB_OTHER;
}

/* ---- what a file leaves open ---- */

/* SentencePiece models that name no special ids use its defaults. */
int64_t hk_vocab_default_id(enum hk_vocab_kind kind, enum hk_vocab_key key, uint32_t count)
{
    const int64_t id = key == HK_VOCAB_UNK   ? 0
                       : key == HK_VOCAB_BOS ? 1
                       : key == HK_VOCAB_EOS ? 2
                                             : -1;
    return kind == HK_VOCAB_SPM && id < count ? id : -1;
}

enum hk_token_type hk_vocab_default_type(enum hk_vocab_kind kind, struct hk_bytes piece,
                                         uint32_t id, int64_t bos, int64_t eos, int64_t unk)
{
    if (id == bos || id == eos)
        return HK_TOKEN_CONTROL;
    if (id == unk)
        return HK_TOKEN_UNKNOWN;
    return kind == HK_VOCAB_SPM && hk_vocab_byte(piece) >= 0 ? HK_TOKEN_BYTE : HK_TOKEN_NORMAL;
}

/* ---- pieces ---- */

static int value_of_hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hk_vocab_byte(struct hk_bytes piece)
{
    if (piece.n != 6 || memcmp(piece.p, "<0x", 3) != 0 || piece.p[5] != '>')
        return -1;
    const int high = value_of_hex_digit(piece.p[3]), low = value_of_hex_digit(piece.p[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

void hk_vocab_put_byte(uint8_t byte, char out[HK_VOCAB_BYTE_SIZE])
{
    snprintf(out, HK_VOCAB_BYTE_SIZE, "<0x%02X>", byte);
}

void hk_vocab_put_padding(uint32_t id, char out[HK_VOCAB_PADDING_SIZE])
{
    snprintf(out, HK_VOCAB_PADDING_SIZE, "[PAD%u]", id);
}

bool hk_vocab_is_padding(struct hk_bytes piece, uint32_t id)
{
    char padding[HK_VOCAB_PADDING_SIZE];
    hk_vocab_put_padding(id, padding);
    return hk_bytes_are(piece, padding);
}
