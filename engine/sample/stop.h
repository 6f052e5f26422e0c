/* stop.h: text up to the first of several strings, as it comes in pieces.
 *
 * Bytes that may turn out to begin one of the strings are held back; where the pieces are divided
 * makes no difference. The string that ends first counts, of several that end together the longest.
 */
#ifndef HKE_STOP_H
#define HKE_STOP_H

#include "engine/tokenizer/tokenizer.h"
#include "libhkfmt/hkfmt.h"

struct hke_stop; /* belongs to one thread and one text */

/* COUNT strings (0: nothing is ever held back), which are copied. HK_E_USE: one is empty. Memory:
 * nine bytes for each of theirs. */
HK_MUST enum hk_status hke_stop_new(struct hke_stop **out, const struct hk_bytes *string,
                                    size_t count, struct hk_error *err);
/* *S becomes NULL. NULL is allowed. */
void hke_stop_free(struct hke_stop **s);

/* Append to OUT what is certain now that TEXT has come: all before the string where one is found,
 * and nothing from then on. Linear in TEXT for each string. On failure nothing was taken. */
HK_MUST enum hk_status hke_stop_push(struct hke_stop *s, struct hk_bytes text, struct hke_text *out,
                                     struct hk_error *err);
/* Whether a string was found. */
bool hke_stop_found(const struct hke_stop *s);
/* The text ends here: append what is held back. */
HK_MUST enum hk_status hke_stop_end(struct hke_stop *s, struct hke_text *out, struct hk_error *err);

#endif
