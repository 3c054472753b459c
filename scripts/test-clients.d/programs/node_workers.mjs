// Node: the driver through koffi, on the main thread, on worker threads, on libuv's threads, and in a child process.
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { isMainThread, Worker, workerData } from "node:worker_threads";

// Where the packages are: an ES module finds none by a variable.
const koffi = createRequire(process.env.NODE_PACKAGES + "/")("koffi");
const WORKERS = 3, EACH = 20, CHILD = 15;
const PTX = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry node_5us() { ret; }\n";

const driver = koffi.load("libcuda.so.1");
const call = (name, ...types) => {
    const called = driver.func(name, "int", types);
    const checked = (...values) => {
        const result = called(...values);
        if (result !== 0) throw new Error(`${name} returned ${result}`);
    };
    checked.async = (...values) =>
        new Promise((done, failed) =>
            called.async(...values, (error, result) => (error || result !== 0 ? failed(error ?? result) : done())));
    return checked;
};
const handle = "void *";
const out = koffi.out(koffi.pointer(handle));
const cu = {
    init: call("cuInit", "uint"),
    device: call("cuDeviceGet", koffi.out("int *"), "int"),
    retain: call("cuDevicePrimaryCtxRetain", out, "int"),
    current: call("cuCtxSetCurrent", handle),
    load: call("cuModuleLoadData", out, "str"),
    kernel: call("cuModuleGetFunction", out, handle, "str"),
    launch: call("cuLaunchKernel", handle, ...Array(7).fill("uint"), handle, handle, handle),
    wait: call("cuCtxSynchronize"),
};

// Makes the device's context current, and returns it with a kernel.
function start() {
    const [device, context, module, kernel] = [[0], [null], [null], [null]];
    cu.init(0);
    cu.device(device, 0);
    cu.retain(context, device[0]);
    cu.current(context[0]);
    cu.load(module, PTX);
    cu.kernel(kernel, module[0], "node_5us");
    return [context[0], kernel[0]];
}

const once = (kernel) => [kernel, 1, 1, 1, 32, 1, 1, 0, null, null, null];

function launch(number) {
    const [, kernel] = start();
    for (let n = 0; n < number; n++) cu.launch(...once(kernel));
    cu.wait();
}

const ended = (emitter) =>
    new Promise((done, failed) => emitter.on("exit", (code) => (code === 0 ? done() : failed(new Error(`it ended with ${code}`)))));

if (!isMainThread) {
    launch(workerData);
} else if (process.argv[2] === "child") {
    launch(CHILD);
} else {
    const file = fileURLToPath(import.meta.url);
    launch(EACH);
    const workers = Array.from({ length: WORKERS }, () => ended(new Worker(file, { workerData: EACH })));
    await Promise.all([...workers, ended(fork(file, ["child"]))]);
    // On other threads the context is not current: these calls fail, and are counted as calls that did.
    const [, kernel] = start();
    const refused = await Promise.allSettled(Array.from({ length: EACH }, () => cu.launch.async(...once(kernel))));
    cu.wait();
    const made = EACH * (1 + WORKERS) + CHILD + refused.filter(({ status }) => status === "fulfilled").length;
    console.log(JSON.stringify({ at_least: { launches: made, processes: 2 }, calls: { cuLaunchKernel: made } }));
}
