/* cores.h: how many threads are worth having on this machine. */
#ifndef HKE_CORES_H
#define HKE_CORES_H

struct hke_cores {
    unsigned logical;  /* processors that run */
    unsigned allowed;  /* of these: this process may use (its affinity) */
    unsigned physical; /* cores that the allowed ones belong to */
    unsigned fast;     /* of these: of the fast kind, or all where none is */
    double quota;      /* processors' worth of time that its groups have; 0: no limit */
    unsigned threads;  /* the default: one a fast core, as far as the quota goes */
};

/* Ask the system, below ROOT ("" for the real one): /proc and /sys there. ALLOWED is the affinity
 * as a list of the kernel's form ("0-3,8"); NULL: that of the calling thread. Nothing fails: what
 * cannot be found out limits nothing, and every number but the quota is at least 1. */
void hke_cores_find(struct hke_cores *out, const char *root, const char *allowed);

/* Threads that can run at the same time: allowed processors, as far as the quota goes. The same of
 * the real system, without looking at every core. */
unsigned hke_cores_usable(void);

#endif
