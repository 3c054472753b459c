// Queries which versions functions were compiled from and for: the entries of the fat binary that contains them, as
// nvcc writes them, here without any code. Prints the answers for each.
// link: -l:libcudart.so.12
#include <cuda_runtime_api.h>

#include "common.h"
#include "fat_binary.h"

enum { TEXT = 1, BINARY = 2, ENTRIES = 4 };

// An entry's 64-byte header; nothing follows it.
struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t others[3], architecture, rest[8];
};

struct fat_binary {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    struct entry entries[ENTRIES];
};

struct program {
    const char *kernel;
    char stub;
    int kinds[ENTRIES], architectures[ENTRIES];
    struct fat_binary binary;
    struct {
        int magic, version;
        const void *data;
        void *unused;
    } wrapper;
};

static struct program programs[] = {
    {.kernel = "for_80_1us", .kinds = {BINARY, TEXT}, .architectures = {80, 80}},
    {.kernel = "for_90_1us", .kinds = {BINARY, BINARY, BINARY, TEXT}, .architectures = {80, 90, 100, 100}},
    {.kernel = "text_75_1us", .kinds = {TEXT}, .architectures = {75}},
    {.kernel = "unknown_1us"},
};

static void **begin(struct program *program)
{
    int count = 0;
    for (; count < ENTRIES && program->kinds[count] != 0; count++) {
        program->binary.entries[count] = (struct entry){.kind = (uint16_t)program->kinds[count], .version = 0x101,
                                                        .header_bytes = sizeof(struct entry),
                                                        .architecture = (uint32_t)program->architectures[count]};
    }
    program->binary.magic = 0xba55ed50, program->binary.version = 1, program->binary.header_bytes = 16;
    program->binary.bytes = (uint64_t)count * sizeof(struct entry);
    program->wrapper.magic = 0x466243b1, program->wrapper.version = 1, program->wrapper.data = &program->binary;
    return __cudaRegisterFatBinary(&program->wrapper);
}

int main(void)
{
    enum { COUNT_OF = sizeof programs / sizeof programs[0] };
    void **handles[COUNT_OF];
    printf("{\"program\":\"function_versions\",\"launches\":%d,\"versions\":{", COUNT_OF);
    for (int index = 0; index < COUNT_OF; index++) {
        struct program *program = &programs[index];
        struct cudaFuncAttributes attributes;
        handles[index] = begin(program);
        register_kernel(handles[index], &program->stub, program->kernel);
        __cudaRegisterFatBinaryEnd(handles[index]);
        CHECK(cudaFuncGetAttributes(&attributes, &program->stub));
        CHECK(cudaLaunchKernel(&program->stub, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
        printf("%s\"%s\":[%d,%d]", index == 0 ? "" : ",", program->kernel, attributes.ptxVersion, attributes.binaryVersion);
    }
    CHECK(cudaDeviceSynchronize());
    REQUIRE(cudaFuncGetAttributes(&(struct cudaFuncAttributes){0}, handles) == cudaErrorInvalidDeviceFunction);
    for (int index = 0; index < COUNT_OF; index++)
        __cudaUnregisterFatBinary(handles[index]);
    printf("}}\n");
    return 0;
}
