// How long does something take that is too short for a clock? For programs that do it in rounds, and print a median of them.
#pragma once
#include "common.h"

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void sort_rounds(double *took, int rounds) { qsort(took, (size_t)rounds, sizeof *took, ascending); }

// The ns that each of so many took since then.
static inline double each_took(uint64_t began, int count) { return (double)(now_ns() - began) / count; }
