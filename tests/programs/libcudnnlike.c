// Functions whose names start like CUDA's but are not: a tracer must not mistake them for the driver's.

int cudnnCreate(void **handle)
{
    *handle = (void *)0;
    return 4711;
}

int cuFooBar(void)
{
    return 4712;
}

// Driver functions' names in a library that is not the driver, as simulators and shims have: one that hardly anybody intercepts,
int cuMemRangeGetAttribute(void)
{
    return 4713;
}

// And one that every tracer intercepts.
int cuLaunchKernel(void)
{
    return 4714;
}
