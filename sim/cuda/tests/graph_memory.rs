//! Memory that graphs allocate while they run.

mod common;

use common::{alone, begin, kernel, launch, number, of_kind, stream, synchronize, with_truth};
use serde_json::Value;
use std::ptr::null;

const INVALID_VALUE: i32 = 1;
const NOT_SUPPORTED: i32 = 801;
const AUTO_FREE: u64 = 1;
const UNIT: usize = 1 << 20;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameters {
    pool: [u64; 11],
    access: *const u8,
    accesses: usize,
    bytes: usize,
    address: u64,
}

fn requested(bytes: usize) -> Parameters {
    let mut pool = [0; 11];
    // Pinned memory, on a device, number 0.
    (pool[0], pool[1]) = (1, 1);
    Parameters { pool, access: null(), accesses: 0, bytes, address: 0 }
}

fn graph() -> u64 {
    let mut graph = 0;
    ok!(cuGraphCreate(&mut graph => &mut u64, 0 => u32));
    graph
}

/// Adds a node that allocates memory, and returns it and the address.
fn take(graph: u64, before: &[u64], bytes: usize) -> (u64, u64) {
    let (mut node, mut parameters) = (0, requested(bytes));
    ok!(cuGraphAddMemAllocNode(
        &mut node => &mut u64, graph => u64, before.as_ptr() => *const u64, before.len() => usize,
        &mut parameters => &mut Parameters
    ));
    assert_ne!(parameters.address, 0);
    (node, parameters.address)
}

fn try_give(graph: u64, before: &[u64], address: u64) -> (i32, u64) {
    let mut node = 0;
    let result = cu!(cuGraphAddMemFreeNode(
        &mut node => &mut u64, graph => u64, before.as_ptr() => *const u64, before.len() => usize, address => u64
    ));
    (result, node)
}

fn give(graph: u64, before: &[u64], address: u64) -> u64 {
    let (result, node) = try_give(graph, before, address);
    assert_eq!(result, 0);
    node
}

fn try_instantiate(graph: u64, flags: u64) -> (i32, u64) {
    let mut exec = 0;
    let result = cu!(cuGraphInstantiateWithFlags(&mut exec => &mut u64, graph => u64, flags => u64));
    (result, exec)
}

fn instantiate(graph: u64, flags: u64) -> u64 {
    let (result, exec) = try_instantiate(graph, flags);
    assert_eq!(result, 0);
    exec
}

fn try_run(exec: u64, stream: u64) -> i32 {
    cu!(cuGraphLaunch(exec => u64, stream => u64))
}

fn run(exec: u64, stream: u64) {
    assert_eq!(try_run(exec, stream), 0);
}

/// Returns the device's graph memory: used, its maximum, reserved, its maximum.
fn footprint() -> [u64; 4] {
    [0, 1, 2, 3].map(|attribute| {
        let mut value = 0;
        ok!(cuDeviceGetGraphMemAttribute(0 => i32, attribute => u32, &mut value => &mut u64));
        value
    })
}

/// Returns allocations (`+`) and frees (`-`) in order, with their addresses.
fn story(truth: &[Value]) -> Vec<(char, i64)> {
    let mut lines: Vec<&Value> = of_kind(truth, "alloc");
    lines.extend(of_kind(truth, "free"));
    lines.retain(|line| line["memory"] == "graph");
    lines.sort_by_key(|line| number(line, "seq"));
    let sign = |line: &Value| if line["kind"] == "alloc" { '+' } else { '-' };
    lines.into_iter().map(|line| (sign(line), number(line, "address"))).collect()
}

#[test]
fn a_block_lives_from_its_launch_until_it_is_freed() {
    with_truth(
        "a_block_lives_from_its_launch_until_it_is_freed",
        &[],
        || {
            begin();
            let (main, owner, other) = (stream(1), graph(), graph());
            let (node, address) = take(owner, &[], UNIT);
            give(other, &[], address);
            let mut known = requested(0);
            ok!(cuGraphMemAllocNodeGetParams(node => u64, &mut known => &mut Parameters));
            assert_eq!((known.address, known.bytes, known.pool), (address, UNIT, requested(0).pool));
            let (exec, freeing) = (instantiate(owner, 0), instantiate(other, 0));
            assert_eq!(try_run(freeing, main), INVALID_VALUE, "it is not there");
            assert_eq!(cu!(cuMemFree_v2(address => u64)), INVALID_VALUE, "neither here");
            for round in 0..3 {
                run(exec, main);
                assert_eq!(try_run(exec, main), INVALID_VALUE, "it is there");
                ok!(cuMemsetD8Async(address => u64, 7 => u8, UNIT => usize, main => u64));
                match round {
                    0 => ok!(cuMemFreeAsync(address => u64, main => u64)),
                    1 => ok!(cuMemFree_v2(address => u64)),
                    _ => run(freeing, main),
                }
                assert_eq!(cu!(cuMemFreeAsync(address => u64, main => u64)), INVALID_VALUE, "once is enough");
            }
            // Allocated memory outlives its graphs; once it is freed, its address goes too.
            run(exec, main);
            ok!(cuGraphDestroy(owner => u64));
            ok!(cuGraphExecDestroy(exec => u64));
            ok!(cuGraphDestroy(other => u64));
            ok!(cuGraphExecDestroy(freeing => u64));
            synchronize(main);
            ok!(cuMemsetD8_v2(address => u64, 1 => u8, UNIT => usize));
            ok!(cuCtxSynchronize());
            ok!(cuMemFree_v2(address => u64));
            assert_eq!(cu!(cuMemsetD8_v2(address => u64, 1 => u8, UNIT => usize)), INVALID_VALUE);
        },
        |truth| {
            let story = story(&truth);
            let signs: String = story.iter().map(|(sign, _)| sign).collect();
            assert_eq!(signs, "+-+-+-+-");
            assert!(story.iter().all(|(_, address)| *address == story[0].1));
            let taken = of_kind(&truth, "alloc");
            assert!(taken.iter().all(|line| number(line, "bytes") == UNIT as i64 && number(line, "ran") > 0));
            let launches: Vec<_> = of_kind(&truth, "graph").iter().map(|line| number(line, "seq")).collect();
            assert!(taken.iter().all(|line| launches.contains(&number(line, "launch"))));
        },
    );
}

#[test]
fn auto_free_on_launch_frees_the_memory_that_the_last_launch_left() {
    with_truth(
        "auto_free_on_launch_frees_the_memory_that_the_last_launch_left",
        &[],
        || {
            begin();
            let (main, graph) = (stream(1), graph());
            let (first, kept) = take(graph, &[], UNIT);
            let (second, passing) = take(graph, &[first], UNIT);
            give(graph, &[second], passing);
            let exec = instantiate(graph, AUTO_FREE);
            run(exec, main);
            run(exec, main);
            synchronize(main);
            assert_eq!(cu!(cuMemFree_v2(passing => u64)), INVALID_VALUE, "its graph has freed it");
            ok!(cuMemFree_v2(kept => u64));
            run(exec, main);
            ok!(cuMemFreeAsync(kept => u64, main => u64));
        },
        |truth| {
            let signs: String = story(&truth).iter().map(|(sign, _)| sign).collect();
            assert_eq!(signs, "++--++--++--");
        },
    );
}

#[test]
fn nodes_and_graphs_that_cuda_does_not_allow_are_refused() {
    alone("nodes_and_graphs_that_cuda_does_not_allow_are_refused", &[], || {
        begin();
        let (main, owner, other) = (stream(1), graph(), graph());
        let (node, address) = take(owner, &[], UNIT);
        let mut memory = 0;
        ok!(cuMemAlloc_v2(&mut memory => &mut u64, UNIT => usize));
        assert_eq!(try_give(owner, &[node], memory).0, INVALID_VALUE, "no node's address");
        assert_eq!(try_give(owner, &[], address).0, INVALID_VALUE, "not behind its allocation");
        let free = give(owner, &[node], address);
        assert_eq!(try_give(owner, &[node], address).0, INVALID_VALUE, "twice in one graph");
        assert_eq!(try_give(other, &[], address).0, INVALID_VALUE, "and in another graph");
        let (shared, elsewhere) = take(owner, &[], UNIT);
        give(other, &[], elsewhere);
        assert_eq!(try_give(owner, &[shared], elsewhere).0, INVALID_VALUE, "in its own graph then");
        let mut known = 0;
        ok!(cuGraphMemFreeNodeGetParams(free => u64, &mut known => &mut u64));
        assert_eq!(known, address);
        let mut wrong = requested(UNIT);
        wrong.pool[0] |= 1 << 32;
        let mut made = 0u64;
        let none = null::<u64>();
        assert_eq!(
            cu!(cuGraphAddMemAllocNode(
                &mut made => &mut u64, owner => u64, none => *const u64, 0 => usize, &mut wrong => &mut Parameters
            )),
            INVALID_VALUE,
            "no handles"
        );
        assert_eq!(cu!(cuGraphClone(&mut made => &mut u64, owner => u64)), NOT_SUPPORTED);
        let child = cu!(cuGraphAddChildGraphNode(
            &mut made => &mut u64, graph() => u64, none => *const u64, 0 => usize, owner => u64
        ));
        assert_eq!(child, NOT_SUPPORTED);
        assert_eq!(cu!(cuGraphDestroyNode(free => u64)), INVALID_VALUE);
        assert_eq!(
            cu!(cuGraphRemoveDependencies(owner => u64, &node => &u64, &free => &u64, 1 => usize)),
            INVALID_VALUE
        );
        let exec = instantiate(owner, 0);
        assert_eq!(try_instantiate(owner, 0).0, INVALID_VALUE, "one at a time");
        let mut info = [0u64; 3];
        ok!(cuGraphExecUpdate_v2(exec => u64, owner => u64, &mut info => &mut [u64; 3]));
        // A launch into a capture would copy it.
        ok!(cuStreamBeginCapture_v2(main => u64, 2 => u32));
        assert_eq!(try_run(exec, main), NOT_SUPPORTED);
        ok!(cuStreamEndCapture(main => u64, &mut made => &mut u64));
        ok!(cuGraphExecDestroy(exec => u64));
        ok!(cuGraphExecDestroy(instantiate(owner, 0) => u64));
    });
}

#[test]
fn a_capture_makes_the_same_nodes() {
    with_truth(
        "a_capture_makes_the_same_nodes",
        &[],
        || {
            begin();
            let (main, work) = (stream(1), kernel("k_20us"));
            let (mut kept, mut passing, mut ordinary, mut graph) = (0u64, 0u64, 0u64, 0u64);
            ok!(cuMemAllocAsync(&mut ordinary => &mut u64, UNIT => usize, main => u64));
            ok!(cuStreamBeginCapture_v2(main => u64, 2 => u32));
            ok!(cuMemAllocAsync(&mut kept => &mut u64, 3 * UNIT => usize, main => u64));
            ok!(cuMemAllocAsync(&mut passing => &mut u64, UNIT => usize, main => u64));
            ok!(cuMemsetD8Async(passing => u64, 7 => u8, UNIT => usize, main => u64));
            launch(work, main, 0);
            assert_eq!(cu!(cuMemFreeAsync(ordinary => u64, main => u64)), INVALID_VALUE, "no graph's");
            ok!(cuMemFreeAsync(passing => u64, main => u64));
            ok!(cuStreamEndCapture(main => u64, &mut graph => &mut u64));
            let (mut nodes, mut count) = ([0u64; 8], 8usize);
            ok!(cuGraphGetNodes(graph => u64, &mut nodes => &mut [u64; 8], &mut count => &mut usize));
            let kinds: Vec<u32> = nodes[..count]
                .iter()
                .map(|&node| {
                    let mut kind = 0;
                    ok!(cuGraphNodeGetType(node => u64, &mut kind => &mut u32));
                    kind
                })
                .collect();
            assert_eq!(kinds, [10, 10, 2, 0, 11]);
            run(instantiate(graph, 0), main);
            synchronize(main);
            let mut back = [0u8; 16];
            ok!(cuMemsetD8_v2(kept => u64, 9 => u8, 3 * UNIT => usize));
            ok!(cuMemcpyDtoH_v2(back.as_mut_ptr() => *mut u8, kept => u64, 16 => usize));
            assert_eq!(back, [9; 16]);
            ok!(cuMemFree_v2(kept => u64));
            ok!(cuMemFree_v2(ordinary => u64));
        },
        |truth| {
            let signs: String = story(&truth).iter().map(|(sign, _)| sign).collect();
            assert_eq!(signs, "++--");
            let kernel = of_kind(&truth, "kernel").into_iter().find(|line| number(line, "in_graph") > 0);
            let freed = of_kind(&truth, "free").into_iter().find(|line| line["launch"].is_u64()).unwrap();
            assert!(number(freed, "ran") >= number(kernel.unwrap(), "end"), "behind the kernel that used it");
        },
    );
}

#[test]
fn an_address_may_be_used_again_inside_a_graph_and_memory_between_graphs() {
    alone("an_address_may_be_used_again_inside_a_graph_and_memory_between_graphs", &[], || {
        begin();
        let (main, graph_of_two, parallel) = (stream(1), graph(), graph());
        let (node, first) = take(graph_of_two, &[], UNIT);
        let free = give(graph_of_two, &[node], first);
        let (node, second) = take(graph_of_two, &[free], UNIT);
        give(graph_of_two, &[node], second);
        assert_eq!(first, second, "one is over when the other begins");
        let (node, one) = take(parallel, &[], UNIT);
        give(parallel, &[node], one);
        let (node, two) = take(parallel, &[], UNIT);
        give(parallel, &[node], two);
        assert_ne!(one, two, "nothing orders the two");
        assert_eq!(footprint(), [0; 4], "nothing has run");
        let unit = UNIT as u64;
        run(instantiate(graph_of_two, 0), main);
        assert_eq!(footprint(), [0, unit, unit, unit]);
        run(instantiate(parallel, 0), main);
        assert_eq!(footprint(), [0, 2 * unit, 2 * unit, 2 * unit]);
        synchronize(main);
        let mut reset = 0u64;
        ok!(cuDeviceGraphMemTrim(0 => i32));
        for attribute in [1, 3] {
            ok!(cuDeviceSetGraphMemAttribute(0 => i32, attribute => u32, &mut reset => &mut u64));
        }
        assert_eq!(footprint(), [0; 4]);
        reset = 5;
        assert_eq!(
            cu!(cuDeviceSetGraphMemAttribute(0 => i32, 1 => u32, &mut reset => &mut u64)),
            INVALID_VALUE
        );
        assert_eq!(
            cu!(cuDeviceSetGraphMemAttribute(0 => i32, 0 => u32, &mut reset => &mut u64)),
            INVALID_VALUE
        );
    });
}

#[test]
fn a_graph_that_was_moved_into_another_cannot_be_launched_alone() {
    with_truth(
        "a_graph_that_was_moved_into_another_cannot_be_launched_alone",
        &[],
        || {
            begin();
            let (main, parent, child) = (stream(1), graph(), graph());
            let (_, address) = take(child, &[], UNIT);
            // CUgraphNodeParams: a child graph, ownership moved.
            let mut parameters = [0u64; 32];
            (parameters[0], parameters[2], parameters[3]) = (4, child, 1);
            let mut node = 0u64;
            ok!(cuGraphAddNode(
                &mut node => &mut u64, parent => u64, null::<u64>() => *const u64, 0 => usize,
                parameters.as_mut_ptr() => *mut u64
            ));
            assert_eq!(try_instantiate(child, 0).0, INVALID_VALUE);
            assert_eq!(cu!(cuGraphDestroy(child => u64)), INVALID_VALUE);
            let mut more = requested(UNIT);
            let refused = cu!(cuGraphAddMemAllocNode(
                &mut node => &mut u64, child => u64, null::<u64>() => *const u64, 0 => usize,
                &mut more => &mut Parameters
            ));
            assert_eq!(refused, INVALID_VALUE, "no more memory in it");
            run(instantiate(parent, 0), main);
            ok!(cuMemFreeAsync(address => u64, main => u64));
        },
        |truth| assert_eq!(story(&truth).len(), 2),
    );
}

#[test]
fn a_launch_without_memory_for_it_fails_and_takes_none() {
    alone("a_launch_without_memory_for_it_fails_and_takes_none", &[], || {
        begin();
        let (main, huge, small) = (stream(1), graph(), graph());
        take(huge, &[], 79 << 30);
        let (_, address) = take(small, &[], 2 << 30);
        let (huge, small) = (instantiate(huge, 0), instantiate(small, 0));
        run(small, main);
        assert_eq!(try_run(huge, main), 2);
        assert_eq!(footprint()[0], 2 << 30);
        ok!(cuMemFreeAsync(address => u64, main => u64));
        run(huge, main);
    });
}
