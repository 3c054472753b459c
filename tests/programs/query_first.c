// Queries a stream of the runtime three times and makes no other call of CUDA: the first one initializes the runtime.
// Prints the number of queries.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"

int main(void)
{
    for (int query = 0; query < 3; query++)
        COUNTED("cudaStreamQuery", cudaStreamQuery(NULL));
    printf("{\"program\":\"query_first\",\"launches\":0,");
    print_counts("apis", "cuda", NULL);
    printf("}\n");
    return 0;
}
