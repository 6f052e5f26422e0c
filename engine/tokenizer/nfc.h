/* Unicode normalisation form C. */
#ifndef HKE_NFC_H
#define HKE_NFC_H

#include "libhkfmt/hkfmt.h"

struct tok_nfc { /* start with {0}, use again, free with hke_nfc_free() */
    uint8_t *text;
    size_t n, capacity;
    int32_t *code;
    size_t codes, code_room;
    uint64_t *key;
    size_t key_room;
};
/* *OUT becomes TEXT in normalisation form C: TEXT itself, or bytes of X that live until its next
 * use. False: out of memory. */
bool hke_normalise(struct tok_nfc *x, struct hk_bytes text, struct hk_bytes *out);
void hke_nfc_free(struct tok_nfc *x);
/* Whether a character is never changed by it, nor combined with one before it. (Some such are not
 * known here.) */
bool hke_is_stable_char(uint32_t code);

#endif
