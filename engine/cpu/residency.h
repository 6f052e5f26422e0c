/* residency.h: which weights stay in memory, and what is read ahead of the steps.
 *
 * Where all weights fit, the first pass finds them read ahead, and then they are there. Where they
 * do not, as many as fit stay, spread evenly over the steps; the rest is read ahead of each pass
 * and forgotten behind it. Left alone, a system forgets what was used longest ago, which is what a
 * pass needs next, and then reads everything each time. */
#ifndef HKE_RESIDENCY_H
#define HKE_RESIDENCY_H

#include "engine/plan/plan.h"

struct hke_residency;

/* Of the plan's weights, which all passes need whole, at most MEMORY bytes stay. */
HK_MUST enum hk_status hke_residency_new(struct hke_residency **out, const struct hke_plan *p,
                                         uint64_t memory, struct hk_error *err);
/* *R becomes NULL. NULL is allowed. */
void hke_residency_free(struct hke_residency **r);
/* Bytes that stay, of how many. */
uint64_t hke_residency_kept(const struct hke_residency *r, uint64_t *total);

/* STEP of a pass is next, and all workers have done with those before it. From one thread. */
void hke_residency_step(struct hke_residency *r, size_t step);
/* The N experts EXPERT are chosen for EXPERTS_UP step STEP and the one behind it. From one thread.
 */
void hke_residency_experts(struct hke_residency *r, const struct hke_step *step,
                           const uint32_t *expert, size_t n);
/* A pass through all steps has ended. */
void hke_residency_pass(struct hke_residency *r);

#endif
