/* tool_descriptor.c: reading and writing of descriptors that may not block. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "tools/lib/tool.h"

/* Whether to repeat what failed: a signal interrupted it, or whoever started the program made FD
 * not block, which is left so (others have it too), and then it has been waited for. */
static bool wait_for_descriptor(int fd, short event)
{
    struct pollfd p = {.fd = fd, .events = event};
    if (errno == EINTR)
        return true;
    if (errno != EAGAIN)
        return false;
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

ssize_t tool_read(int fd, void *p, size_t n)
{
    ssize_t got;
    do
        got = read(fd, p, n);
    while (got < 0 && wait_for_descriptor(fd, POLLIN));
    return got;
}

bool tool_write(int fd, const void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t some = write(fd, (const char *)p + done, n - done);
        if (some < 0 && !wait_for_descriptor(fd, POLLOUT))
            return false;
        done += some > 0 ? (size_t)some : 0;
    }
    return true;
}
