/* Characters beside a place in a text. */
#ifndef HKE_CHARACTERS_H
#define HKE_CHARACTERS_H

#include "libhkfmt/hkfmt.h"

/* Length of the character that ends at P, and its code; 0 where there is none. */
unsigned hke_char_before(const uint8_t *begin, const uint8_t *p, uint32_t *code);
/* Whether a word goes on before FROM or after TO. */
bool hke_is_inside_word(struct hk_bytes text, size_t from, size_t to);
/* AT moved back over white space, but not below MIN; forward. */
size_t hke_skip_spaces_back(struct hk_bytes text, size_t min, size_t at);
size_t hke_skip_spaces(struct hk_bytes text, size_t at);

#endif
