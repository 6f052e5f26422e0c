/* Where a text may be cut. */
#ifndef HKE_CUT_H
#define HKE_CUT_H

#include "engine/tokenizer/vocabulary.h"

/* Set T->cuts, T being otherwise complete. */
void hke_find_cuts(struct hke_tokenizer *t);

#endif
