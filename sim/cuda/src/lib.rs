//! A simulator `libcuda.so.1`: a simulated GPU for tests on machines without one.
//!
//! Programs find it as they find the real driver and call it in the same ways. Kernels have no code here: a kernel's
//! duration is in its name (`_<N>ns`, `_<N>us`, `_<N>ms`; a name that ends in `_argns` takes its first 64-bit argument, one
//! in `_meets` runs until others have counted a counter, its first argument, up to its second;
//! a part `_trigger<N>`, as in `k_trigger30_20us`, lets programmatic launches in after N % of it). So is what it takes of a
//! multiprocessor: parts `_regs<N>` registers of a thread, `_smem<N>` static shared memory, bytes, `_local<N>` local memory,
//! bytes, `_maxt<N>` threads of the largest block ([`resources`]).
//! Device memory is host memory, copies and sets really happen, and every operation's start and end are computed by
//! CUDA's ordering rules ([`engine`], [`work`]) on the host's `CLOCK_MONOTONIC_RAW`. Events see them on a GPU clock that
//! has its own offset and drift. It is strict: contexts, handles, captures and events fail where the real ones do. Each
//! rule cites its source where it stands; what has none is an assumption ([`assume`]).
//!
//! # Settings
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SIMCUDA_DRIVER_VERSION` | the version played, 12020 to 13050 | 12090 |
//! | `SIMCUDA_DEVICES` | GPUs | 1 |
//! | `SIMCUDA_HOST_COST` | ns that calls cost their caller: `off`, or some of `launch=3000,record=1000,query=500,elapsed=500,other=500,module=5000000,context=0,load=0` | as shown |
//! | `SIMCUDA_KERNEL_NS` | duration of kernels whose name says nothing | 5000 |
//! | `SIMCUDA_CLOCK_OFFSET_NS`, `SIMCUDA_CLOCK_DRIFT_PPB` | GPU clock against host clock | 3 h, 20000 |
//! | `SIMCUDA_CLOCK_WANDER_PPB`, `SIMCUDA_CLOCK_WANDER_PERIOD_NS` | the drift swings by so much about that, as a sine | 0, 10 s |
//! | `SIMCUDA_EVENT_NS` | GPU time that an event takes | 0 |
//! | `SIMCUDA_EVENT_RESOLUTION_NS` | events' time stamps are multiples of this | 1 |
//! | `SIMCUDA_FAIL` | `function:CUresult:call,…`: that call of the function fails; `*` = every call | |
//! | `SIMCUDA_ASSUME` | `name=value,…`, see [`assume::ALL`] or the exported `simcudaAssumptions()` | |
//! | `CUDA_DEVICE_MAX_CONNECTIONS` | queues that the streams of a context share, as far as `connections` assumes it | 8 |
//! | `CUDA_SCALE_LAUNCH_QUEUES` | `0.25x`, `0.5x`, `2x`, `4x`: launch queues of so many times the length | |
//! | `SIMCUDA_TRUTH` | a file that the truth is appended to | |
//!
//! # The truth file
//!
//! A JSON object a line, in no promised order, written in steps of at most 64 KiB, at context teardown, at exit and by
//! the exported `int simcudaTruthFlush(void)`. Times are ns on `CLOCK_MONOTONIC_RAW` but for `gpu_…`, which are ns on the
//! GPU's clock; all numbers are exact integers. `api` is the function's name without `_v2`, `_ptsz` and their like.
//!
//! - `kernel`, `copy`, `memset`, `graph`, `host`, `value`: an operation. `seq` unique; `tid` Linux thread; `call_begin` and
//!   `call_end` of the call (`null` if it has not returned); `context` as `cuCtxGetId`; `device`; `stream` as
//!   `cuStreamGetId`; `stream_handle`; `name` of a kernel; `bytes`, `direction` (HtoD, DtoH, DtoD, HtoH, PtoP) and
//!   `host_memory` (pageable, pinned, managed, none) of copies and sets; `head`: submitted and at the head of its stream,
//!   which is where its occupancy begins; `start`, `end`, `gpu_start`, `gpu_end`; `queue`: entries ahead of it in its
//!   stream. `captured`: it became a node and has no times. `in_graph`: the `seq` of the graph launch that ran it, or 0.
//!   Times are `null` if they were never known: behind a gate that did not open. A batch of copies is one `copy`: its bytes
//!   are their sum, all else is the first one's. A prefetch is a `copy` to where it is wanted.
//!   Of kernels also: `programmatic`, it was launched to overlap the kernel before it in its stream; `overlaps`, it
//!   started before that one had ended; `cut`, it could not, because nothing but records of events stood between it and a
//!   kernel that had not ended when it was submitted.
//! - `alloc`, `free`: `begin` of the call, `address` (a handle of reserved memory and arrays), `bytes`, `memory` (device,
//!   managed, pool, pinned, registered, mapped, reserved, array, imported, graph), `stream` (0 for calls that are not
//!   stream-ordered), `seq`, which counts them all. What a graph launch takes and frees stands at the launch, in an order
//!   that dependencies allow: `launch` is its `seq`, `ran` the end of the node (`null` if it was not known then). Physical memory is `reserved` from its creation until it is neither
//!   referred to nor mapped; of its mappings, each a line, the first brings its bytes and the last takes them away. Imported
//!   memory that is opened again brings none. `gone`: the same, with its context.
//! - `memory_node`: a node that takes memory was added to `graph`, or one that frees it (`bytes` is 0), by hand or by a capture.
//! - `sync`: `scope` (context, stream, event), `stream`, `event`, `begin`, `end` of the call. Only those that succeeded.
//! - `waited`: a call that is no synchronisation waited for work all the same: `begin` of the call, `until` when the last of
//!   that work was done (of a copy or set: what was ahead of it), `end` when the wait was over. With `until` at most a second
//!   before `begin`: it would have, had it come earlier.
//! - `event_record`: `stream`, `event`, `begin`, `captured`, and the time of the event, `end` and `gpu_end` (as
//!   `cuEventElapsedTime` sees it), `null` if not known when the call returned. `event_wait`: `stream`, `event`, `begin`.
//! - `context`, `green`, `stream`, `module`: came or went (`destroyed`, `loaded`), with their properties. What happens in a
//!   green context is told of its primary context; the stream's line says which `green` context it is of, 0 for none.
//! - `graph_instantiate`: `handle`, `graph`, and how many `kernels`, `copies`, `memsets` and `others` it has.
//! - `asked`: an attribute of a kernel (`attribute`), or how many blocks of so many `threads` with so much dynamic `shared`
//!   memory fit on a multiprocessor, was answered with `value`: `api`, `function` (the handle), `kernel` (its name).
//! - `profiler`: `api` (`cuProfilerStart` or `cuProfilerStop`), `tid`, `begin` of the call.
//! - `failed`: `api`, `result` (a CUresult other than NOT_READY), `tid`.
//!
//! # Its parts
//!
//! [`export`] names and addresses · [`call`] what every call goes through · [`api`] the functions · [`state`] the objects,
//! under one lock · [`work`] from call to schedule · [`engine`] the schedule · [`programmatic`] launches that overlap ·
//! [`resources`] how many blocks fit · [`effects`] what copies do to memory · [`worker`] host functions and values ·
//! [`capture`], [`graph`], [`graph_memory`] · [`truth`].

pub mod api;
pub mod array;
pub mod assume;
pub mod call;
pub mod capture;
pub mod clocks;
pub mod config;
pub mod effects;
pub mod engine;
pub mod error;
pub mod export;
pub mod fat_binary;
mod form;
pub mod graph;
pub mod graph_memory;
pub mod green;
pub mod handle;
pub mod image;
pub mod imported;
pub mod interprocess;
pub mod memory;
pub mod parameter;
pub mod programmatic;
pub mod resources;
pub mod state;
pub mod thread;
pub mod truth;
pub mod virtual_memory;
pub mod work;
pub mod worker;
