/* How many threads and how much memory a machine gives: machines made of files. */
#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/cpu/cores.h"
#include "engine/cpu/memory.h"
#include "engine/cpu/pool.h"
#include "tests/lib/tap.h"

static char root[] = "/tmp/hk-cores.XXXXXX";

/* Write a file of the current machine, and the directories above it. */
__attribute__((format(printf, 2, 3))) static void put(const char *path, const char *text, ...)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = name + strlen(root); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(name, 0700) != 0 && errno != EEXIST)
            printf("Bail out! cannot make %s\n", name);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    if (file == NULL) {
        printf("Bail out! cannot write %s\n", name);
        exit(1);
    }
    va_list ap;
    va_start(ap, text);
    vfprintf(file, text, ap);
    va_end(ap);
    fclose(file);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type;
    return ftw->level > 0 ? remove(path) : 0;
}

static void new_machine(const char *online)
{
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    put("/sys/devices/system/cpu/online", "%s\n", online);
}

static void put_core(unsigned cpu, const char *siblings)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    put(path, "%s\n", siblings);
}

static void put_capacity(unsigned cpu, unsigned capacity)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpu_capacity", cpu);
    put(path, "%u\n", capacity);
}

/* Numbers in the order of the struct; the quota is compared in hundredths. */
static void expect(const char *what, const char *allowed, const unsigned n[5], unsigned quota)
{
    struct hke_cores c;
    hke_cores_find(&c, root, allowed);
    ok(c.logical == n[0] && c.allowed == n[1] && c.physical == n[2] && c.fast == n[3] &&
           c.threads == n[4] && c.quota * 100 > quota - 0.5 && c.quota * 100 < quota + 0.5,
       "%s: %u %u %u %u, quota %g, %u threads", what, c.logical, c.allowed, c.physical, c.fast,
       c.quota, c.threads);
}
#define NUMBERS(...) ((const unsigned[5]){__VA_ARGS__})

static void test_smt(void)
{
    static const char *const siblings[] = {"0,4", "1,5", "2,6", "3,7"};
    new_machine("0-7");
    for (unsigned cpu = 0; cpu < 8; cpu++)
        put_core(cpu, siblings[cpu % 4]);
    expect("four cores of two threads", "0-7", NUMBERS(8, 8, 4, 4, 4), 0);
    expect("affinity to one core", "1,5", NUMBERS(8, 2, 1, 1, 1), 0);
    expect("affinity to one sibling", "5", NUMBERS(8, 1, 1, 1, 1), 0);
    expect("affinity across cores", "0-1,4,6", NUMBERS(8, 4, 3, 3, 3), 0);
    expect("affinity to processors that are off", "0-100", NUMBERS(8, 8, 4, 4, 4), 0);
}

static void test_hybrid(void)
{
    new_machine("0-11");
    static const char *const fast[] = {"0-1", "2-3", "4-5", "6-7"};
    for (unsigned cpu = 0; cpu < 8; cpu++)
        put_core(cpu, fast[cpu / 2]);
    put("/sys/devices/cpu_core/cpus", "0-7\n");
    put("/sys/devices/cpu_atom/cpus", "8-11\n");
    expect("hybrid x86", "0-11", NUMBERS(12, 12, 8, 4, 4), 0);
    expect("hybrid x86, slow cores only", "9-11", NUMBERS(12, 3, 3, 3, 3), 0);
    expect("hybrid x86, one fast and two slow", "3,8,9", NUMBERS(12, 3, 3, 1, 1), 0);
}

static void test_big_little(void)
{
    new_machine("0-7");
    for (unsigned cpu = 0; cpu < 8; cpu++)
        put_capacity(cpu, cpu < 4 ? 381 : cpu < 7 ? 871 : 1024);
    expect("four little, three big, one biggest", "0-7", NUMBERS(8, 8, 8, 4, 4), 0);
    expect("little ones only", "0-2", NUMBERS(8, 3, 3, 3, 3), 0);
    new_machine("0-3");
    for (unsigned cpu = 0; cpu < 4; cpu++)
        put_capacity(cpu, 1024);
    expect("all alike", "0-3", NUMBERS(4, 4, 4, 4, 4), 0);
}

static const char second_mount[] =
    "24 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

static void test_quota(void)
{
    new_machine("0-7");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/proc/self/mountinfo", "%s", second_mount);
    expect("no quota", "0-7", NUMBERS(8, 8, 8, 8, 8), 0);
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    expect("an unlimited quota", "0-7", NUMBERS(8, 8, 8, 8, 8), 0);
    put("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    expect("quota 1.5", "0-7", NUMBERS(8, 8, 8, 8, 2), 150);
    put("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
    expect("quota 3", "0-7", NUMBERS(8, 8, 8, 8, 3), 300);
    put("/sys/fs/cgroup/a/cpu.max", "5000 10000\n");
    expect("a lower one above", "0-7", NUMBERS(8, 8, 8, 8, 1), 50);
    put("/sys/fs/cgroup/a/cpu.max", "1600000 100000\n");
    expect("a higher one above", "0-7", NUMBERS(8, 8, 8, 8, 3), 300);
    expect("quota 3 of two processors", "0-1", NUMBERS(8, 2, 2, 2, 2), 300);
    put("/sys/fs/cgroup/a/b/cpu.max", "nonsense\n");
    expect("a quota that is none", "0-7", NUMBERS(8, 8, 8, 8, 8), 1600);
}

static void test_quota_of_container(void)
{
    new_machine("0-7");
    put("/proc/self/cgroup", "0::/pod/one/inner\n");
    put("/proc/self/mountinfo", "30 24 0:26 /pod/one /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/inner/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    expect("a container that sees its own group", "0-7", NUMBERS(8, 8, 8, 8, 3), 250);
    put("/proc/self/cgroup", "0::/pod/onerous\n");
    expect("a group that is not below the mounted one", "0-7", NUMBERS(8, 8, 8, 8, 3), 250);
}

static void test_quota_first(void)
{
    new_machine("0-7");
    put("/proc/self/cgroup", "9:cpuset:/x\n4:cpu,cpuacct:/a/b\n0::/\n");
    put("/proc/self/mountinfo",
        "31 23 0:9 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "32 23 0:8 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 23 0:7 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    expect("version 1, no quota", "0-7", NUMBERS(8, 8, 8, 8, 8), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "420000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    expect("version 1, quota 4.2 above", "0-7", NUMBERS(8, 8, 8, 8, 5), 420);
    put("/sys/fs/cgroup/unified/cpu.max", "200000 100000\n");
    expect("both versions: the lower counts", "0-7", NUMBERS(8, 8, 8, 8, 2), 200);
}

static void test_unknown(void)
{
    new_machine("nonsense");
    expect("nothing but an affinity", "0-2", NUMBERS(3, 3, 3, 3, 3), 0);
    expect("not even that", "5-", NUMBERS(1, 1, 1, 1, 1), 0);
    new_machine("0-1023");
    expect("a large machine", "0-1023", NUMBERS(1024, 1024, 1024, 1024, HKE_MAX_THREADS), 0);
    put_core(0, "0-99999999");
    expect("processors beyond all bounds", "0", NUMBERS(1024, 1, 1, 1, 1), 0);
}

static void test_memory(void)
{
    const uint64_t mib = 1 << 20;
    new_machine("0-1");
    ok(hke_memory_available(root) == UINT64_MAX, "memory that nothing is known of has no bound");
    put("/proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable:   3072 kB\n");
    ok(hke_memory_available(root) == 3 * mib, "memory that is available");
    put("/proc/self/cgroup", "4:memory:/m\n0::/a/b\n");
    put("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                                "32 23 0:8 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/unified/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/unified/a/b/memory.current", "4194304\n");
    ok(hke_memory_available(root) == 3 * mib, "a group without a bound");
    put("/sys/fs/cgroup/unified/a/memory.max", "4194304\n");
    put("/sys/fs/cgroup/unified/a/memory.current", "3145728\n");
    ok(hke_memory_available(root) == mib, "a bound of the group above");
    put("/sys/fs/cgroup/unified/a/memory.stat", "anon 1\nfile 2097152\nshmem 1048576\n");
    ok(hke_memory_available(root) == 2 * mib, "cached files count as free, shared memory does not");
    put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1048576\n");
    put("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "2097152\n");
    ok(hke_memory_available(root) == 0, "a group of version 1 that has more than its bound");
    put("/sys/fs/cgroup/memory/m/memory.stat", "cache 0\ntotal_cache 1572864\ntotal_shmem 0\n");
    ok(hke_memory_available(root) == mib / 2, "and what it has cached");
}

static void test_here(void)
{
    struct hke_cores c;
    hke_cores_find(&c, "", NULL);
    ok(c.threads >= 1 && c.threads <= c.fast && c.fast <= c.physical && c.physical <= c.allowed &&
           c.allowed <= c.logical && hke_cores_usable() >= c.threads,
       "this machine: %u %u %u %u, quota %g, %u threads", c.logical, c.allowed, c.physical, c.fast,
       c.quota, c.threads);
}

static void test_cores(void)
{
    if (mkdtemp(root) == NULL) {
        printf("Bail out! no directory %s\n", root);
        return;
    }
    test_smt();
    test_hybrid();
    test_big_little();
    test_quota();
    test_quota_of_container();
    test_quota_first();
    test_memory();
    test_unknown();
    test_here();
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    rmdir(root);
}

int main(void)
{
    test_cores();
    return tap_done();
}
