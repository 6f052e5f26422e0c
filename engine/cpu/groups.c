/* Control groups as /proc says: which this process is in, and where they are mounted. */
#include "engine/cpu/groups.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool hke_read_small_file(char *text, size_t size, const char *path, ...)
{
    char name[4096];
    va_list ap;
    va_start(ap, path);
    int length = vsnprintf(name, sizeof name, path, ap);
    va_end(ap);
    if (length < 0 || (size_t)length >= sizeof name)
        return false;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* One hierarchy of control groups: where this process is in it, and where it is mounted. */
struct hierarchy {
    const char *controller;
    bool second;                     /* version 2 */
    char path[1024];                 /* of the group, from the hierarchy's root */
    char mount[1024], mounted[1024]; /* where, and which group is seen there */
};

/* Whether the comma separated LIST has H's controller. */
static bool lists_controller(const struct hierarchy *h, const char *list, size_t n)
{
    for (const char *end = list + n; list < end;) {
        size_t length = strcspn(list, ",: \n");
        if (length == strlen(h->controller) && memcmp(list, h->controller, length) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

typedef bool match_line_fn(struct hierarchy *h, const char *line);

/* The first line of a file that FN takes. */
static bool find_matching_line(struct hierarchy *h, const char *root, const char *path,
                               match_line_fn *fn)
{
    char name[4096], *line = NULL;
    size_t room = 0;
    bool found = false;
    if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name)
        return false;
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (!found && getline(&line, &room, file) >= 0)
        found = fn(h, line);
    free(line);
    fclose(file);
    return found;
}

/* /proc/self/cgroup: "4:cpu,cpuacct:/path" or, for version 2, "0::/path". */
static bool match_group_path(struct hierarchy *h, const char *line)
{
    const char *list = strchr(line, ':');
    const char *path = list != NULL ? strchr(list + 1, ':') : NULL;
    if (path == NULL)
        return false;
    size_t n = (size_t)(path - list - 1);
    if (h->second ? n > 0 : !lists_controller(h, list + 1, n))
        return false;
    return sscanf(path + 1, "%1023[^\n]", h->path) == 1;
}

/* /proc/self/mountinfo: "30 23 0:26 /mounted /mount rw,... shared:4 - cgroup2 source rw,..." */
static bool match_group_mount(struct hierarchy *h, const char *line)
{
    char type[32], options[1024];
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
        return false;
    if (strcmp(type, h->second ? "cgroup2" : "cgroup") != 0 ||
        (!h->second && !lists_controller(h, options, strlen(options))))
        return false;
    return sscanf(line, "%*s %*s %*s %1023s %1023s", h->mounted, h->mount) == 2;
}

/* Groups above the one that is mounted cannot be seen. */
static void walk_hierarchy(struct hierarchy *h, const char *root, hke_group_fn *fn, void *arg)
{
    if (!find_matching_line(h, root, "/proc/self/cgroup", match_group_path) ||
        !find_matching_line(h, root, "/proc/self/mountinfo", match_group_mount))
        return;
    size_t above = strcmp(h->mounted, "/") == 0 ? 0 : strlen(h->mounted);
    bool inside = strncmp(h->path, h->mounted, above) == 0 &&
                  (h->path[above] == '/' || h->path[above] == '\0');
    char dir[4096];
    int n = snprintf(dir, sizeof dir, "%s%s%s", root, h->mount, inside ? h->path + above : "");
    if (n < 0 || (size_t)n >= sizeof dir)
        return;
    const size_t top = strlen(root) + strlen(h->mount);
    fn(arg, dir, h->second);
    while (strlen(dir) > top) {
        *strrchr(dir, '/') = '\0';
        fn(arg, dir, h->second);
    }
}

void hke_each_group(const char *root, const char *controller, hke_group_fn *fn, void *arg)
{
    struct hierarchy second = {.controller = controller, .second = true};
    struct hierarchy first = {.controller = controller};
    walk_hierarchy(&second, root, fn, arg);
    walk_hierarchy(&first, root, fn, arg);
}
