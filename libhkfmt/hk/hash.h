/* Digests of many ranges of bytes, perhaps in parallel. */
#ifndef HK_HASH_H
#define HK_HASH_H

#include <stdatomic.h>

#include "libhkfmt/hkfmt.h"

struct hk_hash_task {
    struct hk_bytes bytes;
    const struct hk_part *part; /* whose pages are given back once they are read */
    uint8_t *digest;            /* where it goes */
    bool failed;
};

struct hk_hashing {
    struct hk_hash_task *tasks;
    size_t count;
    uint64_t all; /* bytes of all tasks */
    void (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
    atomic_uint_fast64_t done; /* bytes so far */
    atomic_flag reporting;     /* one reports at a time, the others go on */
};

/* Hash what the tasks say; LOOP may be NULL. */
enum hk_status hk_hash_tasks(struct hk_hashing *h, const struct hk_loop *loop,
                             struct hk_error *err);

#endif
