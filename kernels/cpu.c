/* Which levels this build contains, which of them the processor and the operating system can run,
 * and the choice of one. Asking is cheap; nothing is remembered. */
#include <string.h>

#include "kernels/levels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the operating system saves of a thread's vector registers: bits of XCR0. */
static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

enum {
    STATE_AVX = 0x6,     /* xmm, ymm */
    STATE_AVX512 = 0xe6, /* and masks, zmm */
};

struct cpu {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf7_1_eax;
    uint64_t state;
};

static struct cpu ask_processor(void)
{
    struct cpu c = {0};
    uint32_t a, b, cx, d, subleafs;
    if (__get_cpuid(1, &a, &b, &cx, &d))
        c.leaf1_ecx = cx;
    if (__get_cpuid_count(7, 0, &subleafs, &b, &cx, &d)) {
        c.leaf7_ebx = b;
        c.leaf7_ecx = cx;
        c.leaf7_edx = d;
        if (subleafs >= 1 && __get_cpuid_count(7, 1, &a, &b, &cx, &d))
            c.leaf7_1_eax = a;
    }
    if (c.leaf1_ecx & bit_OSXSAVE)
        c.state = saved_state();
    return c;
}

/* Bits of the features that a level needs; 0 where it is the operating system that lacks. */
static const char *lacks_avx2(const struct cpu *c)
{
    if (!(c->leaf7_ebx & bit_AVX2))
        return "the processor has no AVX2";
    if (!(c->leaf1_ecx & bit_FMA) || !(c->leaf1_ecx & bit_F16C))
        return "the processor has no FMA or F16C";
    if ((c->state & STATE_AVX) != STATE_AVX)
        return "the operating system does not save AVX registers";
    return NULL;
}

static const char *lacks_avx2vnni(const struct cpu *c)
{
    enum { AVX_VNNI = 1 << 4 };
    return c->leaf7_1_eax & AVX_VNNI ? lacks_avx2(c) : "the processor has no AVX-VNNI";
}

static const char *lacks_avx512(const struct cpu *c)
{
    const uint32_t ebx = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    if ((c->leaf7_ebx & ebx) != ebx || !(c->leaf7_ecx & bit_AVX512VNNI))
        return "the processor has no AVX-512 with VNNI";
    if ((c->state & STATE_AVX512) != STATE_AVX512)
        return "the operating system does not save AVX-512 registers";
    return lacks_avx2(c);
}

/* Linux saves tiles only of processes that have asked; threads started later may use them too. */
static bool may_use_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}

static const char *lacks_amx(const struct cpu *c)
{
    /* AMX-BF16, AMX-TILE, AMX-INT8; XTILECFG, XTILEDATA */
    const uint32_t tiles = 1u << 22 | 3u << 24, state = 3u << 17;
    if ((c->leaf7_edx & tiles) != tiles)
        return "the processor has no AMX-INT8 or AMX-BF16";
    if ((c->state & state) != state || !may_use_tiles())
        return "the operating system does not save AMX tiles";
    return lacks_avx512(c);
}

static size_t x86_levels(struct hkk_level level[HKK_MAX_LEVELS])
{
    const struct cpu c = ask_processor();
    const struct hkk_level all[] = {
        {"amx", &hkk_amx, lacks_amx(&c)},
        {"avx512", &hkk_avx512, lacks_avx512(&c)},
        {"avx2vnni", &hkk_avx2vnni, lacks_avx2vnni(&c)},
        {"avx2", &hkk_avx2, lacks_avx2(&c)},
        {"generic", &hkk_generic, NULL},
    };
    memcpy(level, all, sizeof all);
    return sizeof all / sizeof *all;
}

#elif defined(__AARCH64EL__)
#include <sys/auxv.h>

static size_t arm_levels(struct hkk_level level[HKK_MAX_LEVELS])
{
    enum { ASIMDDP = 1 << 20, I8MM = 1 << 13 }; /* of AT_HWCAP and AT_HWCAP2 */
    bool dot = getauxval(AT_HWCAP) & ASIMDDP, matrix = getauxval(AT_HWCAP2) & I8MM;
    const char *no_dot = dot ? NULL : "the processor has no dot product instructions";
    const struct hkk_level all[] = {
        {"i8mm", &hkk_i8mm, matrix ? no_dot : "the processor has no int8 matrix instructions"},
        {"dotprod", &hkk_dotprod, no_dot},
        {"neon", &hkk_neon, NULL},
        {"generic", &hkk_generic, NULL},
    };
    memcpy(level, all, sizeof all);
    return sizeof all / sizeof *all;
}

#endif

size_t hkk_levels(struct hkk_level level[HKK_MAX_LEVELS])
{
#if defined(__x86_64__)
    return x86_levels(level);
#elif defined(__AARCH64EL__)
    return arm_levels(level);
#else
    level[0] = (struct hkk_level){"generic", &hkk_generic, NULL};
    return 1;
#endif
}

/* Levels of other architectures, so that their names are known everywhere. */
static bool is_level_name(const char *name)
{
    static const char *const names[] = {"amx",  "avx512",  "avx2vnni", "avx2",
                                        "i8mm", "dotprod", "neon",     "generic"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

const char *hkk_select(const char *name, const struct hkk_table **out)
{
    struct hkk_level level[HKK_MAX_LEVELS];
    size_t n = hkk_levels(level);
    for (size_t i = 0; i < n; i++) {
        bool runs = level[i].table != NULL && level[i].why_not == NULL;
        if (name == NULL ? !runs : strcmp(name, level[i].name) != 0)
            continue;
        if (level[i].why_not != NULL)
            return level[i].why_not;
        if (level[i].table == NULL)
            return "this build does not contain it";
        *out = level[i].table;
        return NULL;
    }
    return name != NULL && is_level_name(name) ? "it is for another architecture"
                                               : "there is no such level";
}
