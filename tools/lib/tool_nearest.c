/* tool_nearest.c: the name that a mistyped word was to be. */
#include <string.h>

#include "tools/lib/tool.h"

enum { LONGEST = 128, FAR = LONGEST + 1 };

static uint8_t lower_case(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

static unsigned least_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Letters to insert, delete, replace or swap with their neighbour to make A of B, neither longer
 * than LONGEST; big and small ones are the same. */
static unsigned edit_distance(struct hk_bytes a, struct hk_bytes b)
{
    unsigned rows[3][LONGEST + 1], *two = rows[0], *one = rows[1], *row = rows[2];
    for (unsigned k = 0; k <= b.n; k++)
        row[k] = k;
    for (unsigned i = 1; i <= a.n; i++) {
        unsigned *oldest = two;
        two = one;
        one = row;
        row = oldest;
        row[0] = i;
        for (unsigned k = 1; k <= b.n; k++) {
            const uint8_t x = lower_case(a.p[i - 1]), y = lower_case(b.p[k - 1]);
            row[k] = least_of(least_of(one[k], row[k - 1]) + 1, one[k - 1] + (x != y));
            if (i > 1 && k > 1 && x == lower_case(b.p[k - 2]) && lower_case(a.p[i - 2]) == y)
                row[k] = least_of(row[k], two[k - 2] + 1);
        }
    }
    return row[b.n];
}

/* A mistake in every third letter, but less than half of them, is still one of typing. */
static unsigned typing_mistakes(size_t letters)
{
    return letters < 2 ? 0 : letters < 6 ? 1 : letters < 9 ? 2 : 3;
}

/* Whether PART is what NAME begins with, or its last word: "temp" of "temperature", "tokens" of
 * "max-tokens", "name" of "general.name". */
static bool is_part_of_name(struct hk_bytes part, struct hk_bytes name)
{
    enum { TELLING = 3 };
    if (part.n < TELLING || part.n > name.n)
        return false;
    const size_t before = name.n - part.n;
    return memcmp(name.p, part.p, part.n) == 0 ||
           (before > 0 && strchr("-._/", name.p[before - 1]) != NULL &&
            name.p[before - 1] != '\0' && memcmp(name.p + before, part.p, part.n) == 0);
}

void tool_nearest_begin(struct tool_nearest *s, struct hk_bytes word)
{
    *s = (struct tool_nearest){.word = word, .distance = FAR};
}

void tool_nearest_try(struct tool_nearest *s, struct hk_bytes name)
{
    const size_t difference = name.n > s->word.n ? name.n - s->word.n : s->word.n - name.n;
    const unsigned most = typing_mistakes(s->word.n);
    if (is_part_of_name(s->word, name) || is_part_of_name(name, s->word)) {
        s->whole = name;
        s->whole_count++;
    }
    if (name.n > LONGEST || s->word.n > LONGEST || difference > most)
        return;
    const unsigned distance = edit_distance(s->word, name);
    if (distance <= most && distance < s->distance) {
        s->distance = distance;
        s->best = name;
    }
}

const char *tool_nearest_hint(struct tool_nearest *s, const char *before)
{
    const struct hk_bytes name = s->distance < FAR     ? s->best
                                 : s->whole_count == 1 ? s->whole
                                                       : (struct hk_bytes){0};
    s->hint[0] = '\0';
    if (name.n > 0 && name.n <= LONGEST)
        snprintf(s->hint, sizeof s->hint, ": did you mean %s%.*s?", before, HK_STR(name));
    return s->hint;
}
