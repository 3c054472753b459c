// Works while a timer interrupts it every 100 us, and so in every part of every call. The handler runs on a stack of its own
// and changes errno. Prints whether errno and the signals' settings are as the program left them.
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <signal.h>
#include <sys/time.h>

static atomic_ulong signals;

static void count(int signal)
{
    (void)signal;
    int before = errno;
    atomic_fetch_add(&signals, 1);
    errno = EXDEV;
    errno = before;
}

int main(void)
{
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK | SA_RESTART}, after;
    struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    sigset_t mask, mask_after;
    // The system writes fewer bytes than the type has.
    memset(&mask, 0, sizeof mask);
    memset(&mask_after, 0, sizeof mask_after);
    CHECK(sigaltstack(&other, NULL));
    CHECK(sigaction(SIGALRM, &action, NULL));
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask));
    CHECK(setitimer(ITIMER_REAL, &every, NULL));
    int turns = 0;
    // Enough signals, however busy the machine is.
    while (turns < 10 || (signals < 200 && turns < 1000)) {
        plain_work();
        turns++;
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL));
    CHECK(sigaction(SIGALRM, NULL, &after));
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask_after));
    REQUIRE(after.sa_handler == count && memcmp(&mask, &mask_after, sizeof mask) == 0 && signals > 0);
    printf("{\"program\":\"signal_storm\",\"launches\":%d}\n", turns * PLAIN_LAUNCHES);
    return 0;
}
