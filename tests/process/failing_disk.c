/* Lets writes of a program end with EIO, as those of a broken disk do, while there is a file that names what fails.

   TOOLWIRE_TEST_FAILS is the path of that file. If its text begins with "s", each fsync and fdatasync fails; else each
   write to a file in pg_wal, the log of a PostgreSQL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char read_fault(void)
{
    const char *path = getenv("TOOLWIRE_TEST_FAILS");
    char first = 0;
    int kept = errno;
    long file = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (syscall(SYS_read, file, &first, 1) != 1)
            first = 0;
        syscall(SYS_close, file);
    }
    errno = kept;
    return first;
}

static int fails(int file, char kind)
{
    char link[64], path[4096];
    if (read_fault() != kind)
        return 0;
    if (kind != 's') {
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t size = readlink(link, path, sizeof path - 1);
        if (size < 0)
            return 0;
        path[size] = 0;
        if (!strstr(path, "/pg_wal/"))
            return 0;
    }
    errno = EIO;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int file) { return fails(file, 's') ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails(file, 's') ? -1 : REAL(fdatasync)(file); }
ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    return fails(file, 'w') ? -1 : REAL(pwrite)(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    return fails(file, 'w') ? -1 : REAL(pwrite64)(file, data, size, at);
}
ssize_t pwritev(int file, const struct iovec *data, int count, off_t at)
{
    return fails(file, 'w') ? -1 : REAL(pwritev)(file, data, count, at);
}
