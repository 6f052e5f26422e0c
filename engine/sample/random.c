/* xoshiro256** and SplitMix64: integers only, so the same on every host. */
#include "engine/sample/random.h"

static uint64_t next_split_mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void hke_random_seed(struct hke_random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->state[i] = next_split_mix(&seed);
}

static uint64_t rotate_left(uint64_t v, int left)
{
    return v << left | v >> (64 - left);
}

uint64_t hke_random_next(struct hke_random *r)
{
    uint64_t *s = r->state, result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double hke_random_unit(struct hke_random *r)
{
    return (double)(hke_random_next(r) >> 11) * 0x1p-53;
}
