/* Which weights stay in memory where they do not all fit: plans of made-up sizes, never read. */
#include <sys/mman.h>

#include "engine/cpu/residency.h"
#include "tests/lib/mini_model.h"

static const struct mini_change as_is = {MINI_AS_IS, "", 0, NULL};

enum { STEPS = 41, MIB = 1 << 20 };

/* A step is one matrix of f32; the last one is large, as that of logits is. */
struct made_up {
    struct hk_file *file;
    struct hke_plan plan;
    struct hke_step step[STEPS];
    struct hke_weight weight[STEPS];
    uint64_t total;
    uint8_t *bytes;
};

static uint64_t mib_of_step(size_t i)
{
    return i == STEPS - 1 ? 200 : 5 + i % 3;
}

static void make_up(struct made_up *m)
{
    uint64_t at = 0;
    *m = (struct made_up){.file = mini_model("llama", as_is)};
    for (size_t i = 0; i < STEPS; i++)
        m->total += mib_of_step(i) * MIB;
    m->bytes = mmap(NULL, m->total, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->bytes == MAP_FAILED) {
        printf("Bail out! no address space\n");
        exit(1);
    }
    for (size_t i = 0; i < STEPS; i++) {
        const size_t rows = mib_of_step(i) * 256;
        m->weight[i] = (struct hke_weight){.data = m->bytes + at,
                                           .type = HK_TYPE_F32,
                                           .stack = 1,
                                           .rows = rows,
                                           .cols = 1024,
                                           .tensor_rows = rows};
        m->step[i] = (struct hke_step){.kind = HKE_PRODUCT, .operands = 1};
        m->step[i].operand[0].weight = &m->weight[i];
        at += mib_of_step(i) * MIB;
    }
    m->plan = (struct hke_plan){.file = m->file, .step = m->step, .steps = STEPS};
}

static void unmake(struct made_up *m)
{
    munmap(m->bytes, m->total);
    hk_close(&m->file);
}

/* Bytes kept with MEMORY, after some passes. */
static uint64_t kept_of(const struct made_up *m, uint64_t memory, uint64_t *total)
{
    struct hke_residency *r = NULL;
    struct hk_error err;
    if (hke_residency_new(&r, &m->plan, memory, &err) != HK_OK)
        return UINT64_MAX;
    const uint64_t kept = hke_residency_kept(r, total);
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < STEPS; i++)
            hke_residency_step(r, i);
        hke_residency_pass(r);
    }
    hke_residency_free(&r);
    return kept;
}

static void test_kept(void)
{
    struct made_up m;
    uint64_t total = 0;
    make_up(&m);
    ok(kept_of(&m, m.total, &total) == m.total && total == m.total, "all of it fits: all stays");
    ok(kept_of(&m, UINT64_MAX, &total) == m.total, "any amount of memory");
    ok(kept_of(&m, 1, &total) == 0 && total == m.total, "no memory: nothing stays");
    uint64_t before = 0;
    bool rising = true, bounded = true, used = true;
    for (uint64_t memory = 64 * MIB; memory < m.total; memory += 16 * MIB) {
        const uint64_t kept = kept_of(&m, memory, &total), room = memory - 128 * MIB;
        rising = rising && kept >= before;
        bounded = bounded && (memory < 128 * MIB ? kept == 0 : kept <= room);
        used = used && (memory < 400 * MIB || kept + 8 * MIB > room);
        before = kept;
    }
    ok(rising, "more memory never keeps less");
    ok(bounded, "what is read ahead has room too");
    ok(used, "and the rest of it is used");
    unmake(&m);
}

int main(void)
{
    test_kept();
    return tap_done();
}
