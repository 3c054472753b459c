// Uses managed variables, registered and accessed the way nvcc's output does: by a pointer that the runtime sets when
// the program is about to use the first one, and by symbol. Prints what was copied.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "fat_binary.h"
#include "moved_bytes.h"

void __cudaRegisterManagedVar(void **handle, void **pointer, char *device_address, const char *name, int external, size_t bytes,
                              int constant, int global);
char __cudaInitModule(void **handle);

enum { FLOATS = 3000 };

static int *counter;
static float (*values)[FLOATS];
static void touch(void) {}

int main(void)
{
    float back[FLOATS];
    void *address;
    void **handle = begin_fat_binary();
    register_kernel(handle, (const void *)touch, "touch_20us");
    __cudaRegisterManagedVar(handle, (void **)&counter, NULL, "counter", 0, sizeof *counter, 0, 0);
    __cudaRegisterManagedVar(handle, (void **)&values, NULL, "values", 0, sizeof *values, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    REQUIRE(counter == NULL && __cudaInitModule(handle) == 1 && counter != NULL && values != NULL);
    *counter = 7, (*values)[FLOATS - 1] = 2;
    CHECK(cudaLaunchKernel((const void *)touch, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*counter == 7);
    CHECK(cudaGetSymbolAddress(&address, &values));
    REQUIRE(address == (void *)values);
    CHECK(cudaMemcpyFromSymbol(back, &values, sizeof back, 0, cudaMemcpyDeviceToHost));
    REQUIRE(back[FLOATS - 1] == 2);
    move(DTOH, PAGEABLE, sizeof back);
    __cudaUnregisterFatBinary(handle);
    printf("{\"program\":\"managed_variables\",\"launches\":1,");
    print_moved();
    printf("}\n");
    return 0;
}
