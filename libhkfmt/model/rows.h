/* The two orders of rows that rotary embedding turns together. */
#ifndef HK_ROWS_H
#define HK_ROWS_H

#include <stdint.h>

/* Rows of a matrix of HEADS heads in the other of the two orders for rotary embedding: neighbouring
 * rows 2i, 2i+1 of a head form a pair ("norm"), or rows i and i + head_dim/2 ("neox"). */
enum hk_row_order { HK_ROWS_KEPT, HK_ROWS_TO_HALVES, HK_ROWS_TO_PAIRS };

/* Which of the rows becomes row R of those in ORDER, of heads of LENGTH rows each. */
static inline uint64_t hk_row_source(enum hk_row_order order, uint64_t length, uint64_t r)
{
    if (order == HK_ROWS_KEPT)
        return r;
    const uint64_t half = length / 2, at = r % length;
    return r - at +
           (order == HK_ROWS_TO_HALVES ? at % half * 2 + at / half : at / 2 + at % 2 * half);
}

#endif
