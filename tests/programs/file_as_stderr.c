// Closes its stderr, unless it was started without one, opens a file, which gets the number, and does some plain work.
// Prints the number of launches.
//
//   file_as_stderr FILE
// link: -l:libcuda.so.1
#include "plain_work.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    close(STDERR_FILENO);
    REQUIRE(open(argv[1], O_WRONLY | O_CREAT | O_EXCL, 0600) == STDERR_FILENO);
    plain_work();
    printf("{\"program\":\"file_as_stderr\",\"launches\":%d}\n", PLAIN_LAUNCHES);
    return 0;
}
