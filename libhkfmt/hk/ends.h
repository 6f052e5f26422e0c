/* Where each part of a .hk ends: what every change in place goes by, and hk_verify() too. */
#ifndef HK_ENDS_H
#define HK_ENDS_H

#include "libhkfmt/base/source.h"

enum hk_tail_kind { /* what follows all that counts, up to the end of the file */
                    HK_TAIL_NONE,
                    HK_TAIL_PADDING, /* up to 7 zeros, which end at a multiple of 8 */
                    HK_TAIL_ZEROS,   /* as few as an edit leaves that was broken off */
                    HK_TAIL_EDIT,    /* what an edit left that was broken off, by its mark */
                    HK_TAIL_STRAY, /* bytes that belong to nothing: perhaps an interrupted append */
};

/* Metadata and table are the movable head. Records exist where appendix_offset leads to at least
 * one; an offset without one is stale and says nothing. Where no tensor has a byte, header field
 * tensor_data_offset says no more than how far the head was padded. */
struct hk_ends {
    uint64_t size;          /* of the file */
    uint64_t room_end;      /* the head may lie from 128 to here; UINT64_MAX: nothing limits it */
    uint64_t bare;          /* the end without records, as a rollback of all leaves the file */
    uint64_t records;       /* where the records begin, 0 where there are none */
    uint64_t records_end;   /* and end, with the padding that is there */
    uint64_t base;          /* end of what never moves: header, payloads, records */
    uint64_t live;          /* end of all that counts */
    enum hk_tail_kind tail; /* what is behind LIVE */
    bool head_behind;       /* a part of the head lies behind the records */
    bool payload_behind;    /* a payload does */
    bool staged;            /* the head lies where an edit that was broken off staged it */
};

struct hk_file;

/* From F, whose header, table and records are there. */
struct hk_ends hk_ends_of(const struct hk_file *f, const struct hk_source *src);

/* HK_E_FORMAT where records cannot grow or be cut: the file has some, and something lies behind
 * them, or their offset is no place for any. */
enum hk_status hk_ends_check(const struct hk_file *f, struct hk_error *err);

/* Where in the file of F, of which records and ends are known, another model follows; 0 where none
 * does. */
uint64_t hk_next_in_hk(const struct hk_file *f, const struct hk_source *src);

/* ---- staging ----
 *
 * What an edit writes behind the last section or record begins with a head of the size of a
 * record's. It claims a payload that no file can hold, so that a reader of records stops there, has
 * a mark by which an edit that was broken off is known for what it is, and says where what stays
 * ends: metadata that once lay there must not be taken for records. */

enum { HK_STAGING_SIZE = 80 };

/* SETTLED: what follows the head is where it is to stay. */
void hk_staging_head(uint8_t p[HK_STAGING_SIZE], uint64_t base, bool settled);
/* Whether the N bytes at P begin with such a head, or are the beginning of one. */
bool hk_is_staging(const uint8_t *p, uint64_t n);
/* Where all that belongs to the edit begins whose head stands directly before OFFSET; OFFSET where
 * there is none. */
uint64_t hk_staging_start(const struct hk_source *src, uint64_t offset);
/* Whether the head of an edit that has not settled stands directly before OFFSET. */
bool hk_staged_before(const struct hk_source *src, uint64_t offset);

#endif
