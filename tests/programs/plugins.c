// Loads libraries that use the runtime, each into a scope of its own as Python loads its modules, so that nothing of
// CUDA is in the global scope. With the argument "both" it loads one on CUDA 12's runtime and one on CUDA 13's; with
// "replaced" it closes the first one before it loads the second one, which is then where the first one was. Prints the
// numbers of launches and other calls.
#include "common.h"

#include <dlfcn.h>

enum { LAUNCHES = 50, TURNS = 3 };

static void *plugin;

static int (*load(int runtime))(int)
{
    char name[32];
    snprintf(name, sizeof name, "libplugin%d.so", runtime);
    plugin = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        FAIL("%s", dlerror());
    snprintf(name, sizeof name, "plugin_run_%d", runtime);
    int (*run)(int) = (int (*)(int))dlsym(plugin, name);
    REQUIRE(run != NULL);
    return run;
}

static int replace(void)
{
    int (*first)(int) = load(12);
    uintptr_t place = (uintptr_t)first;
    REQUIRE(first(LAUNCHES) == 12);
    CHECK(dlclose(plugin));
    int (*second)(int) = load(13);
    bool is_same = (uintptr_t)second >> 12 == place >> 12;
    REQUIRE(second(LAUNCHES) == 13);
    printf("{\"program\":\"plugins\",\"launches\":%d,\"calls\":%d,\"same_place\":%s}\n", 2 * LAUNCHES, 2, is_same ? "true" : "false");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "replaced") == 0)
        return replace();
    int both = argc > 1 && strcmp(argv[1], "both") == 0, plugins = both ? 2 : 1;
    int (*run[])(int) = {load(12), both ? load(13) : NULL};
    for (int turn = 0; turn < TURNS; turn++)
        for (int plugin = 0; plugin < plugins; plugin++)
            REQUIRE(run[plugin](LAUNCHES) == 12 + plugin);
    printf("{\"program\":\"plugins\",\"launches\":%d,\"calls\":%d}\n", TURNS * plugins * LAUNCHES, TURNS * plugins);
    return 0;
}
