// Is linked against a library with variables that have the driver's names. The program uses two of them itself: the
// linker gives the program a copy of `cuInit` or its address, and both see the same variable.
// link: -l:libownvariables.so
#include "common.h"

extern int (*cuInit)(unsigned);
extern int (*cuCtxSynchronize)(void);
int own_variables_that_are_null(void);
void own_launches(int launches);

enum { LAUNCHES = 200 };

int main(void)
{
    int null = own_variables_that_are_null();
    bool program_sees_null = cuInit == NULL && cuCtxSynchronize == NULL;
    own_launches(LAUNCHES);
    CHECK(cuInit(0));
    CHECK(cuCtxSynchronize());
    printf("{\"program\":\"own_variables_linked\",\"null\":%d,\"program_sees_null\":%s,\"launches\":%d}\n", null,
           program_sees_null ? "true" : "false", LAUNCHES);
    return 0;
}
