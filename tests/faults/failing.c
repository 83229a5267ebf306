/* The n-th write, fsync or rename of a process fails with ENOSPC, and with DOXA_FAIL_ALL=1 all that follow. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls;
static long first = -1;
static long all;

/* The harness starts the count in a forked child, when the command begins. */
void doxa_fail(long place, long every) { calls = 0; first = place; all = every; }

long doxa_calls(void) { return calls; }

static int fails(int file) {
    struct stat status;
    if (first < 0 || (file >= 0 && (fstat(file, &status) || !S_ISREG(status.st_mode) || file <= 2))) return 0;
    calls++;
    return calls == first || (all && calls > first);
}

ssize_t write(int file, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (fails(file)) {
        if (size > 1) real(file, data, size / 2); /* a full disk takes the first part */
        errno = ENOSPC;
        return -1;
    }
    return real(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real) real = dlsym(RTLD_NEXT, "writev");
    if (fails(file)) { errno = ENOSPC; return -1; }
    return real(file, parts, count);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    if (fails(file)) { errno = ENOSPC; return -1; }
    return real(file, data, size, place);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    if (fails(file)) { errno = EIO; return -1; }
    return real(file);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "rename");
    if (fails(-1)) { errno = ENOSPC; return -1; }
    return real(from, to);
}

int ftruncate64(int file, off64_t size) {
    static int (*real)(int, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "ftruncate64");
    if (fails(file)) { errno = ENOSPC; return -1; }
    return real(file, size);
}
