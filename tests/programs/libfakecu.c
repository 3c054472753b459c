// A library that has nothing to do with CUDA and two functions with names of its driver.
int cuInit(unsigned flags)
{
    return 40 + (int)flags;
}

int cuMemFree_v2(unsigned long long value)
{
    return (int)value;
}

// Calls its own function, as far as it knows. (It is not left before that returns.)
int fakecu_init(unsigned flags)
{
    volatile int result = cuInit(flags);
    return result;
}
