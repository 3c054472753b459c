// Go: many goroutines with small stacks, which move between threads, call the driver through cgo; so does a child process. The
// runtime's own signals interrupt them, and a collection of garbage runs all the time.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef int (*call)();
static void *driver;
static call find(const char *name) { return (call)dlsym(driver, name); }
static int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

// The context is a thread's own, and a goroutine's thread is whichever is free: each launch sets it.
static int set_current(void *context) { return ((int (*)(void *))find("cuCtxSetCurrent"))(context); }

static int start(void **context, void **kernel, const char *ptx) {
    int device, failed;
    void *module;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        return -1;
    launch_kernel = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))find("cuLaunchKernel");
    failed = ((int (*)(unsigned))find("cuInit"))(0);
    failed |= ((int (*)(int *, int))find("cuDeviceGet"))(&device, 0);
    failed |= ((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(context, device);
    failed |= set_current(*context);
    failed |= ((int (*)(void **, const void *))find("cuModuleLoadData"))(&module, ptx);
    failed |= ((int (*)(void **, void *, const char *))find("cuModuleGetFunction"))(kernel, module, "go_5us");
    return failed;
}

static int launch(void *context, void *kernel) {
    int failed = set_current(context);
    return failed ? failed : launch_kernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static int wait_for_all(void *context) {
    int failed = set_current(context);
    return failed ? failed : ((int (*)(void))find("cuCtxSynchronize"))();
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
	"unsafe"
)

const (
	goroutines = 200
	each       = 10
	inChild    = 25
)

const ptx = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry go_5us() { ret; }\n"

func check(what string, result C.int) {
	if result != 0 {
		panic(fmt.Sprintf("%s returned %d", what, result))
	}
}

// Moves its stack while it goes down.
func deep(left int, launch func()) int {
	var room [64]byte
	if left == 0 {
		launch()
		return int(room[0])
	}
	return deep(left-1, launch) + int(room[left%64])
}

func work(number, times int) {
	var context, kernel unsafe.Pointer
	text := C.CString(ptx)
	defer C.free(unsafe.Pointer(text))
	check("start", C.start(&context, &kernel, text))
	var group sync.WaitGroup
	for at := 0; at < number; at++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < times; n++ {
				deep(at%100, func() { check("cuLaunchKernel", C.launch(context, kernel)) })
				runtime.Gosched()
			}
		}()
	}
	group.Wait()
	check("cuCtxSynchronize", C.wait_for_all(context))
}

// Go itself runs no exit handlers, in which the simulated driver writes the last of its account.
func end() {
	C.exit(0)
}

func main() {
	if len(os.Args) > 1 {
		work(inChild, 1)
		end()
	}
	debug.SetGCPercent(1)
	over := make(chan bool)
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				runtime.GC()
			}
		}
	}()
	child := exec.Command(os.Args[0], "child")
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
	work(goroutines, each)
	if err := child.Wait(); err != nil {
		panic(err)
	}
	close(over)
	made := goroutines*each + inChild
	fmt.Printf("{\"at_least\": {\"launches\": %d, \"processes\": 2}, \"calls\": {\"cuLaunchKernel\": %d}}\n", made, made)
	end()
}
