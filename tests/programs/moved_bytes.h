// What a program moved, by its own account: copies and memsets by kind and by the host memory that takes part.
#pragma once
#include "common.h"

enum kind { HTOD, DTOH, DTOD, PTOP, SET, KINDS };
enum side { PAGEABLE, PINNED, MANAGED, NONE, SIDES };

static const char *const kind_names[] = {"HtoD", "DtoH", "DtoD", "PtoP", "memset"};
static const char *const side_names[] = {"pageable", "pinned", "managed", "none"};
static long moved[KINDS][SIDES][2];

static inline void move(enum kind kind, enum side side, size_t bytes)
{
    moved[kind][side][0]++;
    moved[kind][side][1] += (long)bytes;
}

// Prints `"transfers":[…]`.
static inline void print_moved(void)
{
    const char *comma = "";
    printf("\"transfers\":[");
    for (int kind = 0; kind < KINDS; kind++)
        for (int side = 0; side < SIDES; side++)
            if (moved[kind][side][0] != 0) {
                printf("%s{\"kind\":\"%s\",\"host_memory\":\"%s\",\"count\":%ld,\"bytes\":%ld}", comma, kind_names[kind],
                       side_names[side], moved[kind][side][0], moved[kind][side][1]);
                comma = ",";
            }
    printf("]");
}
