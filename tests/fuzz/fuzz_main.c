/* Drives a fuzz target without libFuzzer: every FILE as it is, then -runs=N mutations of them.
 *
 *   fuzz_NAME [-runs=N] [-seed=N] [-save=PATH] FILE...
 *
 * Run N depends on the seed and N alone; -save keeps each input in PATH before it is tried, so that
 * the last one is there after a crash. An input that takes more than 5 seconds of processor time
 * ends in a signal, one that makes the process larger than 2 GiB in an abort. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SECONDS = 5, MAX_KIB = 2 << 20 }; /* of an input; of the process */

struct input {
    uint8_t *p;
    size_t n;
};

static uint64_t state;

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static struct input load(const char *path)
{
    enum { MOST = 1 << 20 };
    struct input in = {malloc(MOST), 0};
    FILE *file = fopen(path, "rb");
    if (in.p == NULL || file == NULL) {
        perror(path);
        exit(2);
    }
    in.n = fread(in.p, 1, MOST, file);
    fclose(file);
    return in;
}

static void set_timer(int seconds)
{
    const struct itimerval limit = {.it_value.tv_sec = seconds};
    if (setitimer(ITIMER_PROF, &limit, NULL) != 0)
        abort();
}

static void check_size(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0 || used.ru_maxrss > MAX_KIB) {
        fprintf(stderr, "the process became %ld KiB large\n", used.ru_maxrss);
        abort();
    }
}

static void try(const struct input *in, const char *save)
{
    FILE *file = save != NULL ? fopen(save, "wb") : NULL;
    if (file != NULL) {
        fwrite(in->p, 1, in->n, file);
        fclose(file);
    }
    uint8_t *exact = malloc(in->n);
    if (exact == NULL && in->n > 0)
        abort();
    if (in->n > 0)
        memcpy(exact, in->p, in->n);
    set_timer(SECONDS);
    LLVMFuzzerTestOneInput(exact, in->n);
    set_timer(0);
    check_size();
    free(exact);
}

/* Numbers that mean something to a parser, or nearly do. */
static uint64_t telling(const struct input *in)
{
    const uint64_t some[] = {0,
                             1,
                             2,
                             0x7f,
                             0xff,
                             0xffff,
                             INT32_MAX,
                             UINT32_MAX,
                             INT64_MAX,
                             UINT64_MAX,
                             UINT64_C(1) << 61,
                             in->n,
                             128,
                             4096};
    return some[draw(sizeof some / sizeof *some)] + draw(3) - 1;
}

/* Heads matter most: half of the changes are to the first 512 bytes. */
static void mutate(struct input *in)
{
    size_t reach = draw(2) == 0 && in->n > 512 ? 512 : in->n, at = draw(reach), left = in->n - at;
    uint64_t v = telling(in), width = UINT64_C(1) << draw(4);
    switch (draw(6)) {
    case 0:
        in->p[at] ^= (uint8_t)(1u << draw(8));
        break;
    case 1:
        in->p[at] = (uint8_t)draw(256);
        break;
    case 2:
        for (size_t i = 0; i < width && i < left; i++)
            in->p[at + i] = (uint8_t)(v >> 8 * i);
        break;
    case 3: /* move what follows nearer */
        width += draw(16);
        if (width < left) {
            memmove(in->p + at, in->p + at + width, left - width);
            in->n -= width;
        }
        break;
    case 4: /* over it, what stands elsewhere */
        if (width < left)
            memmove(in->p + at, in->p + draw(in->n - width), width);
        break;
    default:
        in->n = draw(8) == 0 ? at + 1 : in->n;
    }
}

int main(int argc, char **argv)
{
    uint64_t runs = 0, seed = 1;
    const char *save = NULL;
    struct input *seeds = calloc((size_t)argc, sizeof *seeds);
    size_t count = 0;
    for (int i = 1; i < argc && seeds != NULL; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = strtoull(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            seed = strtoull(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "-save=", 6) == 0)
            save = argv[i] + 6;
        else
            seeds[count++] = load(argv[i]);
    }
    for (size_t i = 0; i < count; i++)
        try(&seeds[i], save);
    for (uint64_t run = 0; run < runs && count > 0; run++) {
        state = seed * UINT64_C(0xd1342543de82ef95) + run;
        const struct input *from = &seeds[draw(count)];
        struct input in = {malloc(from->n + 1), from->n};
        if (in.p == NULL)
            abort();
        memcpy(in.p, from->p, from->n);
        for (uint64_t n = 1 + draw(4); n > 0 && in.n > 0; n--)
            mutate(&in);
        try(&in, save);
        free(in.p);
    }
    printf("%zu files, %llu mutations\n", count, (unsigned long long)runs);
    for (size_t i = 0; i < count; i++)
        free(seeds[i].p);
    free(seeds);
    return 0;
}
