/* Decoders: the engine has one way back from ids for each kind, and so must the file. */
#include <string.h>

#include "libhkfmt/hf/tokenizer/tokens.h"

static bool is_text(const json_t *o, const char *text)
{
    return json_is_string(o) && hk_bytes_are(hk_tok_string(o), text);
}

/* U+2581 becomes a blank. */
static bool is_replace(const json_t *o)
{
    return hk_tok_is(o, "Replace") &&
           is_text(json_object_get(json_object_get(o, "pattern"), "String"), HK_VOCAB_SPACE) &&
           is_text(json_object_get(o, "content"), " ");
}

/* One blank goes at the start of the text. */
static bool is_strip(const json_t *o)
{
    return hk_tok_is(o, "Strip") && is_text(json_object_get(o, "content"), " ") &&
           json_integer_value(json_object_get(o, "start")) == 1 &&
           json_integer_value(json_object_get(o, "stop")) == 0;
}

static bool decodes_pieces(const json_t *list, bool prefix)
{
    return json_array_size(list) == 3 + (size_t)prefix && is_replace(json_array_get(list, 0)) &&
           hk_tok_is(json_array_get(list, 1), "ByteFallback") &&
           hk_tok_is(json_array_get(list, 2), "Fuse") &&
           (!prefix || is_strip(json_array_get(list, 3)));
}

enum hk_status hk_tok_check_decoder(const struct hk_tok *t)
{
    const json_t *o = json_object_get(t->json, "decoder");
    const json_t *list = hk_tok_is(o, "Sequence") ? json_object_get(o, "decoders") : NULL;
    if (t->spm && decodes_pieces(list, t->space_prefix))
        return HK_OK;
    if (json_array_size(list) == 1)
        o = json_array_get(list, 0);
    if (!t->spm && hk_tok_is(o, "ByteLevel"))
        return HK_OK;
    return hk_fail(t->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                   "tokenizer.json: a decoder %s that does not fit the %s", hk_tok_text(o, "type"),
                   t->spm ? "normalizer" : "pre-tokenizer");
}
