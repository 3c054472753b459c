// A library that is linked against the runtime, and against a library whose references to it are weak.
// link: -l:libundefined.so -l:libcudart.so.12
int devices_if_any(void);
int cudaDeviceSynchronize(void);

int devices_of_user(void)
{
    return cudaDeviceSynchronize() == 0 ? devices_if_any() : -2;
}
