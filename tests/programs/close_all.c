// Closes every descriptor that it did not open, as daemons do, opens files of its own under the same numbers, and goes
// on with new threads. Fails if anything else writes to its files.
//
//   close_all FOLDER HOW     close: one by one; close_range, closefrom: all at once; cloexec: only when it executes another
//                            program, which it does not
//
// Prints the number of launches, and how many blocks its own files have.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

enum { THREADS = 8, EACH = 20, FILE_BYTES = 64 << 20 };

static CUcontext context;
static CUfunction kernel;

static void *launch_a_little(void *nothing)
{
    (void)nothing;
    CHECK(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (int launched = 0; launched < EACH; launched++)
        launch(kernel, stream);
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

// Waits, if the program is traced, until its collector has begun to write: a busy machine may start it late, and before that
// there is nothing but a connection, which is closed with the rest.
static void wait_for_trace(const char *folder)
{
    const char *preloaded = getenv("LD_PRELOAD");
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/*.gspy", folder);
    for (bool is_written = preloaded == NULL || *preloaded == '\0'; !is_written;) {
        glob_t found;
        struct stat stat_of;
        is_written = glob(pattern, 0, NULL, &found) == 0 && stat(found.gl_pathv[0], &stat_of) == 0 && stat_of.st_size > 0;
        globfree(&found);
        usleep(1000);
    }
}

static void close_all(const char *how)
{
    // By number: glibc has functions for it from 2.34 on.
    if (strcmp(how, "close_range") == 0)
        REQUIRE(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    if (strcmp(how, "cloexec") == 0)
        REQUIRE(syscall(SYS_close_range, 3, ~0u, 1 << 2) == 0);
    if (strcmp(how, "closefrom") == 0)
        closefrom(3);
    if (strcmp(how, "close") == 0) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    plain_work();
    CHECK(cuCtxGetCurrent(&context));
    kernel = load_kernel("after_5us");
    wait_for_trace(argv[1]);
    close_all(argv[2]);
    // Opens a sparse file under every free number: a write to an old descriptor lands in one of them.
    char path[4096];
    snprintf(path, sizeof path, "%s/own", argv[1]);
    int first = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    REQUIRE(first >= 0);
    CHECK(ftruncate(first, FILE_BYTES));
    while (dup(first) >= 0) {
    }
    run_threads(THREADS, launch_a_little);
    struct stat stat;
    CHECK(fstat(first, &stat));
    // No block of it was ever written.
    printf("{\"program\":\"close_all\",\"launches\":%d,\"after\":%d,\"file_blocks\":%ld}\n",
           PLAIN_LAUNCHES + THREADS * EACH, THREADS * EACH, (long)stat.st_blocks);
    return 0;
}
