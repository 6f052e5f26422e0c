/* Anonymous files, and a private directory. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static void write_all(int fd, struct hk_bytes content)
{
    fuzz_require(pwrite(fd, content.p, content.n, 0) == (ssize_t)content.n, "the input is written");
}

int fuzz_file(struct hk_bytes content)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_require(fd >= 0, "an anonymous file");
    write_all(fd, content);
    return fd;
}

struct fuzz_path fuzz_fd_path(int fd)
{
    struct fuzz_path path;
    snprintf(path.text, sizeof path.text, "/proc/self/fd/%d", fd);
    return path;
}

/* ---- the private directory ---- */

static char private_dir[64]; /* "": not made yet */
static bool used;            /* something was put into it for this input */

static void remove_private_dir(void)
{
    fuzz_empty_dir();
    rmdir(private_dir);
}

struct fuzz_path fuzz_path(const char *name)
{
    struct fuzz_path path;
    const char *parent = getenv("TMPDIR");
    if (private_dir[0] == '\0') {
        struct stat in_memory;
        if (parent == NULL || strlen(parent) > sizeof private_dir - sizeof "/hk-fuzz.XXXXXX")
            parent = stat("/dev/shm", &in_memory) == 0 ? "/dev/shm" : "/tmp";
        snprintf(private_dir, sizeof private_dir, "%s/hk-fuzz.XXXXXX", parent);
        fuzz_require(mkdtemp(private_dir) != NULL, "a private directory");
        atexit(remove_private_dir);
    }
    used = true;
    snprintf(path.text, sizeof path.text, "%s/%s", private_dir, name);
    return path;
}

void fuzz_make_dir(const char *name)
{
    fuzz_require(mkdir(fuzz_path(name).text, 0700) == 0, "a directory is made");
}

void fuzz_put(const char *name, struct hk_bytes content)
{
    int fd = open(fuzz_path(name).text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(fd >= 0, "a file is made");
    write_all(fd, content);
    close(fd);
}

/* Files of PATH, and those of its directories. */
static void empty(const char *path, int depth)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char name[400];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (unlink(name) != 0 && depth < 4) {
            empty(name, depth + 1);
            rmdir(name);
        }
    }
    if (dir != NULL)
        closedir(dir);
}

void fuzz_empty_dir(void)
{
    if (used)
        empty(private_dir, 0);
    used = false;
}

/* ---- contents ---- */

struct hk_bytes fuzz_content(int fd)
{
    struct stat status;
    fuzz_require(fstat(fd, &status) == 0, "a size");
    size_t n = (size_t)status.st_size;
    uint8_t *p = malloc(n + 1);
    fuzz_require(p != NULL && pread(fd, p, n, 0) == (ssize_t)n, "a file is read");
    return (struct hk_bytes){p, n};
}

struct hk_bytes fuzz_file_content(const char *name)
{
    int fd = open(fuzz_path(name).text, O_RDONLY | O_CLOEXEC);
    fuzz_require(fd >= 0, "a file is there");
    struct hk_bytes content = fuzz_content(fd);
    close(fd);
    return content;
}

bool fuzz_same_content(int a, int b)
{
    struct hk_bytes one = fuzz_content(a), other = fuzz_content(b);
    bool same = one.n == other.n && memcmp(one.p, other.p, one.n) == 0;
    free((void *)(uintptr_t)one.p);
    free((void *)(uintptr_t)other.p);
    return same;
}
