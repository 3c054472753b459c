// Does the known work (work.h) in a program that is linked against libcuda.so.1 and calls its symbols directly.
// link: -l:libcuda.so.1
#define FN(export) export
#include "work_cu.h"

int main(void)
{
    work_on_driver("work_driver");
    return 0;
}
