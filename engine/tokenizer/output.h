/* What encoding a text gives, and how much work it may take. */
#ifndef HKE_OUTPUT_H
#define HKE_OUTPUT_H

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

struct tok_output {
    const struct hke_tokenizer *t;
    struct hke_ids *ids;
    struct hk_error *err;
    /* What vocabularies and patterns may make long is counted, and given up beyond BUDGET. */
    uint64_t work, budget;
};

enum hk_status hke_emit_token(struct tok_output *o, uint32_t id);
/* The tokens of N bytes, or the unknown token. */
enum hk_status hke_emit_bytes(struct tok_output *o, const uint8_t *p, size_t n);
/* HK_E_UNSUPPORTED where O's work is beyond its budget: WHAT of the vocabulary does not suit. */
enum hk_status hke_check_work(const struct tok_output *o, const char *what);

#endif
