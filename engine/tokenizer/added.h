/* Added tokens: whole strings that are found in a text before it is split. */
#ifndef HKE_ADDED_H
#define HKE_ADDED_H

#include "engine/tokenizer/vocabulary.h"

bool hke_is_added_type(enum hk_token_type type);
/* Set T->flags: which spaces around an added token belong to it, whether it may stand inside a
 * word. */
enum hk_status hke_load_added_flags(struct hke_tokenizer *t, const struct hk_file *f,
                                    struct hk_error *err);
/* Set T->added; of tokens matched in normalised text the texts are normalised. */
enum hk_status hke_index_added(struct hke_tokenizer *t, struct hk_error *err);
/* The longest of the added tokens A at byte AT of TEXT, of control tokens only if SPECIAL; NULL if
 * there is none. Adds to *WORK what the search took. */
const struct tok_added_one *hke_match_added(const struct hke_tokenizer *t,
                                            const struct tok_added *a, struct hk_bytes text,
                                            size_t at, bool special, uint64_t *work);

#endif
