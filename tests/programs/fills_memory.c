// Works, takes memory and touches all of it, and works again.
//
//   fills_memory MIB
// link: -l:libcuda.so.1
#include "plain_work.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    size_t bytes = (size_t)atoi(argv[1]) << 20;
    plain_work();
    char *memory = malloc(bytes);
    REQUIRE(memory != NULL);
    memset(memory, 1, bytes);
    plain_work();
    printf("{\"program\":\"fills_memory\",\"launches\":%d,\"last\":%d}\n", 2 * PLAIN_LAUNCHES, memory[bytes - 1]);
    return 0;
}
