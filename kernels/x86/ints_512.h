/* Sixteen 32-bit lanes as a register of 512 bits: ints_256.h says what the operations are. */
#ifndef HKK_X86_INTS_512_H
#define HKK_X86_INTS_512_H

#include "kernels/tmpl/level.h"
#include "kernels/x86/few.h"

enum { REGS = 2, TOKENS = 6 };

typedef __m512i ints;

ALWAYS ints i_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}

ALWAYS ints i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

ALWAYS ints i_dot_2(ints acc, ints x, ints y)
{
    return _mm512_dpwssd_epi32(acc, x, y);
}

ALWAYS ints i_step(ints sum, ints c, ints q)
{
    return _mm512_dpbusd_epi32(sum, c, q);
}

ALWAYS ints i_scaled(ints acc, ints sum, ints scale)
{
    return _mm512_add_epi32(acc, _mm512_mullo_epi32(sum, scale));
}

ALWAYS vec i_float(ints x)
{
    return _mm512_cvtepi32_ps(x);
}

#endif
