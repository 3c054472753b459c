// Some plain work, compiled with AddressSanitizer, with its check for leaks at the end.
// flags: -fsanitize=address
// link: -l:libcuda.so.1
#include "plain_work.h"

int main(void)
{
    free(calloc(1, 1000));
    plain_work();
    printf("{\"program\":\"sanitized_address\",\"launches\":%d}\n", PLAIN_LAUNCHES);
    return 0;
}
