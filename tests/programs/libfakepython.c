// link: -lpthread
// A library with the names of a Python interpreter's symbols and none of its meaning. FAKE says what its threads' state
// is; anything else than a real interpreter's must neither be believed nor make the process fault.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const unsigned int Py_Version = 0x030b07f0;
char PyCode_Type[64], PyUnicode_Type[64], PyBytes_Type[64];

int _Py_IsFinalizing(void) { return 0; }

// Objects of the types that are checked, laid out as in 3.11.
static uint64_t text[16], bytes[16], code[64], frame[16], cframe[4], thread[64];

static void *looped(int wrong_type) {
    text[1] = (uint64_t)PyUnicode_Type;
    text[2] = 4;
    text[4] = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy((char *)text + 48, "fake", 4);
    bytes[1] = (uint64_t)PyBytes_Type;
    code[1] = wrong_type ? (uint64_t)PyBytes_Type : (uint64_t)PyCode_Type;
    code[112 / 8] = code[120 / 8] = code[128 / 8] = (uint64_t)text;
    code[136 / 8] = (uint64_t)bytes;
    frame[32 / 8] = (uint64_t)code;
    frame[48 / 8] = (uint64_t)frame; // its own caller
    frame[56 / 8] = (uint64_t)code + 184;
    cframe[1] = (uint64_t)frame;
    thread[56 / 8] = (uint64_t)cframe;
    thread[152 / 8] = (uint64_t)pthread_self();
    return thread;
}

void *PyGILState_GetThisThreadState(void) {
    const char *fake = getenv("FAKE");
    if (!strcmp(fake, "small")) return (void *)1;
    if (!strcmp(fake, "large")) return (void *)(UINTPTR_MAX - 7);
    if (!strcmp(fake, "garbage")) return (void *)"no thread's state, whatever it is read as; not a pointer, not a number, not a frame "
                                          "or a code object: only a text that is long enough to be read instead of one";
    if (!strcmp(fake, "unmapped")) {
        char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return page;
    }
    return looped(!strcmp(fake, "wrong_type"));
}
