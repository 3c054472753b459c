//! Rules of memory: virtual memory management, pools, arrays, and imported memory.

mod common;

use common::{alone, begin, device, number, of_kind, stream, synchronize, with_truth};

const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const INVALID_CONTEXT: i32 = 201;
const INVALID_HANDLE: i32 = 400;

/// `cuMemGetAllocationGranularity`.
const UNIT: usize = 2 << 20;

/// CUmemAllocationProp: pinned memory of device 0 that can be exported.
fn properties() -> [u32; 8] {
    [1, 1, 1, 0, 0, 0, 0, 0]
}

fn reserve(bytes: usize) -> u64 {
    let mut address = 0;
    ok!(cuMemAddressReserve(&mut address => &mut u64, bytes => usize, 0 => usize, 0 => u64, 0 => u64));
    address
}

fn create(bytes: usize) -> u64 {
    let mut handle = 0;
    ok!(cuMemCreate(&mut handle => &mut u64, bytes => usize, properties().as_ptr() => *const u32, 0 => u64));
    handle
}

fn map(address: u64, bytes: usize, handle: u64) -> i32 {
    cu!(cuMemMap(address => u64, bytes => usize, 0 => usize, handle => u64, 0 => u64))
}

fn allow(address: u64, bytes: usize) {
    let access = [1u32, 0, 3];
    ok!(cuMemSetAccess(address => u64, bytes => usize, access.as_ptr() => *const u32, 1 => usize));
}

fn set(address: u64, bytes: usize) -> i32 {
    cu!(cuMemsetD8_v2(address => u64, 7 => u8, bytes => usize))
}

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize));
    free
}

#[test]
fn a_missing_place_for_a_required_result_is_refused_before_anything_happens() {
    const TEST: &str = "a_missing_place_for_a_required_result_is_refused_before_anything_happens";
    let body = || {
        begin();
        let (before, nowhere, mut place) = (free_bytes(), std::ptr::null_mut::<u64>(), 0u64);
        let target = stream(1);
        let results = [
            cu!(cuMemAlloc_v2(nowhere => *mut u64, UNIT => usize)),
            cu!(cuMemAllocManaged(nowhere => *mut u64, UNIT => usize, 1 => u32)),
            cu!(cuMemAllocHost_v2(nowhere => *mut u64, UNIT => usize)),
            cu!(cuMemHostAlloc(nowhere => *mut u64, UNIT => usize, 0 => u32)),
            cu!(cuMemAllocAsync(nowhere => *mut u64, UNIT => usize, target => u64)),
            cu!(cuMemAllocPitch_v2(
                nowhere => *mut u64, &mut place => &mut u64, 512 => usize, 512 => usize, 4 => u32
            )),
            cu!(cuMemAllocPitch_v2(
                &mut place => &mut u64, nowhere => *mut u64, 512 => usize, 512 => usize, 4 => u32
            )),
            cu!(cuMemCreate(nowhere => *mut u64, UNIT => usize, properties().as_ptr() => *const u32, 0 => u64)),
            cu!(cuStreamCreate(nowhere => *mut u64, 0 => u32)),
        ];
        assert_eq!(results, [INVALID_VALUE; 9]);
        assert_eq!((place, free_bytes()), (0, before), "neither a result nor memory");
        ok!(cuStreamBeginCapture_v2(target => u64, 2 => u32));
        assert_eq!(cu!(cuStreamEndCapture(target => u64, nowhere => *mut u64)), INVALID_VALUE);
        let mut status = 0;
        ok!(cuStreamIsCapturing(target => u64, &mut status => &mut u32));
        assert_eq!(status, 1, "the stream capture goes on");
    };
    with_truth(TEST, &[], body, |truth| {
        assert!(of_kind(&truth, "alloc").is_empty(), "the truth file has no allocation");
        let created = of_kind(&truth, "stream").into_iter().filter(|line| line["default"] == false).count();
        assert_eq!(created, 1, "the truth file has only the stream that was returned");
    });
}

#[test]
fn physical_memory_is_mapped_into_ranges_and_used_after_access_was_given() {
    alone("physical_memory_is_mapped_into_ranges_and_used_after_access_was_given", &[], || {
        begin();
        let before = free_bytes();
        let (range, handle) = (reserve(4 * UNIT), create(UNIT));
        assert_eq!(before - free_bytes(), UNIT, "physical memory is taken when it is created");
        assert_eq!(set(range, 16), INVALID_VALUE, "nothing is mapped");
        assert_eq!(map(range + 4096, UNIT, handle), INVALID_VALUE, "not aligned");
        assert_eq!(map(range, UNIT / 2, handle), INVALID_VALUE, "not a multiple of the granularity");
        assert_eq!(map(range, 2 * UNIT, handle), INVALID_VALUE, "more than there is");
        assert_eq!(map(range + 4 * UNIT as u64, UNIT, handle), INVALID_VALUE, "outside the range");
        assert_eq!(map(range, UNIT, 0x1234), INVALID_VALUE);
        assert_eq!(map(range, UNIT, handle), 0);
        assert_eq!(set(range, 16), INVALID_VALUE, "nobody has access");
        allow(range, UNIT);
        assert_eq!(set(range, UNIT), 0);
        assert_eq!(map(range, UNIT, handle), INVALID_VALUE, "mapped already");
        // The same memory a second time, and copies across two mappings without a gap.
        assert_eq!(map(range + UNIT as u64, UNIT, handle), 0);
        allow(range, 2 * UNIT);
        assert_eq!(set(range, 2 * UNIT), 0);
        assert_eq!(set(range, 2 * UNIT + 1), INVALID_VALUE);
        ok!(cuCtxSynchronize());
        // SAFETY: mapped memory of the test's own, and the work on it is over.
        let bytes = unsafe {
            (range as *mut u8).write(9);
            *((range + UNIT as u64) as *const u8)
        };
        assert_eq!(bytes, 9, "two views of the same bytes");
        assert_eq!(cu!(cuMemUnmap(range => u64, UNIT / 2 => usize)), INVALID_VALUE, "a part");
        assert_eq!(cu!(cuMemAddressFree(range => u64, 4 * UNIT => usize)), INVALID_VALUE, "still mapped");
        ok!(cuMemUnmap(range => u64, 2 * UNIT => usize));
        assert_eq!(
            cu!(cuMemAddressFree(range => u64, UNIT => usize)),
            INVALID_VALUE,
            "not as it was reserved"
        );
        ok!(cuMemAddressFree(range => u64, 4 * UNIT => usize));
        ok!(cuMemRelease(handle => u64));
        assert_eq!(cu!(cuMemRelease(handle => u64)), INVALID_VALUE);
        assert_eq!(free_bytes(), before);
        let all = (80usize << 30) + UNIT;
        let mut handle = 0u64;
        let result = cu!(cuMemCreate(&mut handle => &mut u64, all => usize, properties().as_ptr() => *const u32, 0 => u64));
        assert_eq!(result, OUT_OF_MEMORY);
    });
}

#[test]
fn mappings_side_by_side_may_have_to_be_unmapped_one_by_one() {
    let settings = [("SIMCUDA_ASSUME", "unmap_many=refused")];
    alone("mappings_side_by_side_may_have_to_be_unmapped_one_by_one", &settings, || {
        begin();
        let (range, handle) = (reserve(2 * UNIT), create(UNIT));
        assert_eq!((map(range, UNIT, handle), map(range + UNIT as u64, UNIT, handle)), (0, 0));
        assert_eq!(cu!(cuMemUnmap(range => u64, 2 * UNIT => usize)), INVALID_VALUE);
        ok!(cuMemUnmap(range => u64, UNIT => usize));
        ok!(cuMemUnmap(range + UNIT as u64 => u64, UNIT => usize));
    });
}

#[test]
fn physical_memory_lives_until_it_is_released_and_unmapped() {
    let test = "physical_memory_lives_until_it_is_released_and_unmapped";
    let body = || {
        begin();
        let before = free_bytes();
        let (range, handle) = (reserve(2 * UNIT), create(UNIT));
        assert_eq!(map(range, UNIT, handle), 0);
        ok!(cuMemRelease(handle => u64));
        assert_eq!(before - free_bytes(), UNIT, "it is mapped");
        assert_eq!(map(range + UNIT as u64, UNIT, handle), INVALID_VALUE, "the handle is released");
        let mut again = 0;
        ok!(cuMemRetainAllocationHandle(&mut again => &mut u64, range + 5 => u64));
        assert_eq!(again, handle, "cuda.h: the same handle value");
        ok!(cuMemUnmap(range => u64, UNIT => usize));
        assert_eq!(before - free_bytes(), UNIT, "it is referred to");
        ok!(cuMemRelease(handle => u64));
        assert_eq!(free_bytes(), before);
    };
    with_truth(test, &[], body, |truth| {
        let reported = |kind| -> Vec<(String, i64)> {
            let lines = of_kind(&truth, kind);
            lines.iter().map(|l| (l["memory"].as_str().unwrap().to_owned(), number(l, "bytes"))).collect()
        };
        let (reserved, mapped) = (("reserved".to_owned(), UNIT as i64), ("mapped".to_owned(), UNIT as i64));
        assert_eq!(reported("alloc"), [reserved.clone(), mapped.clone()]);
        assert_eq!(reported("free"), [mapped, reserved]);
    });
}

#[test]
fn a_handle_is_shared_by_a_descriptor_and_a_multicast_object_takes_nothing() {
    alone("a_handle_is_shared_by_a_descriptor_and_a_multicast_object_takes_nothing", &[], || {
        begin();
        let (before, handle) = (free_bytes(), create(UNIT));
        let (mut descriptor, mut other) = (0i32, 0u64);
        ok!(cuMemExportToShareableHandle(&mut descriptor => &mut i32, handle => u64, 1 => u32, 0 => u64));
        let import = |descriptor: i32, other: &mut u64| cu!(cuMemImportFromShareableHandle(other => &mut u64, descriptor as usize => usize, 1 => u32));
        assert_eq!(import(descriptor, &mut other), 0);
        assert_ne!(other, handle);
        assert_eq!(import(0, &mut other), INVALID_VALUE, "no memory's descriptor");
        let range = reserve(2 * UNIT);
        assert_eq!(map(range, UNIT, other), 0);
        let object: [u64; 4] = [1, UNIT as u64, 0, 0];
        let mut multicast = 0u64;
        ok!(cuMulticastCreate(&mut multicast => &mut u64, object.as_ptr() => *const u64));
        ok!(cuMulticastAddDevice(multicast => u64, 0 => i32));
        ok!(cuMulticastBindMem(multicast => u64, 0 => usize, handle => u64, 0 => usize, UNIT => usize, 0 => u64));
        assert_eq!(map(range + UNIT as u64, UNIT, multicast), 0);
        assert_eq!(before - free_bytes(), UNIT, "what was created, and nothing else");
    });
}

/// CUmemPoolProps.
fn pool(handles: u32, most: u64) -> u64 {
    let mut properties = [0u64; 11];
    properties[0] = 1 | u64::from(handles) << 32;
    properties[1] = 1;
    properties[3] = most;
    let mut pool = 0;
    ok!(cuMemPoolCreate(&mut pool => &mut u64, properties.as_ptr() => *const u64));
    pool
}

fn from_pool(bytes: usize, pool: u64, stream: u64) -> Result<u64, i32> {
    let mut address = 0;
    match cu!(cuMemAllocFromPoolAsync(&mut address => &mut u64, bytes => usize, pool => u64, stream => u64)) {
        0 => Ok(address),
        result => Err(result),
    }
}

fn held(pool: u64) -> u64 {
    let mut bytes = 0u64;
    ok!(cuMemPoolGetAttribute(pool => u64, 5 => u32, &mut bytes => &mut u64));
    bytes
}

#[test]
fn a_pool_has_a_size_a_threshold_and_an_end() {
    alone("a_pool_has_a_size_a_threshold_and_an_end", &[], || {
        begin();
        let (stream, small) = (stream(1), pool(0, 4 << 20));
        let block = from_pool(3 << 20, small, stream).unwrap();
        assert_eq!(from_pool(2 << 20, small, stream), Err(OUT_OF_MEMORY), "beyond its size");
        ok!(cuMemFreeAsync(block => u64, stream => u64));
        assert_eq!(held(small), 3 << 20);
        synchronize(stream);
        assert_eq!(held(small), 0, "nothing is kept beyond the release threshold");
        let threshold = 8u64 << 20;
        ok!(cuMemPoolSetAttribute(small => u64, 4 => u32, &threshold => &u64));
        let block = from_pool(3 << 20, small, stream).unwrap();
        ok!(cuMemFreeAsync(block => u64, stream => u64));
        synchronize(stream);
        assert_eq!(held(small), 3 << 20);
        ok!(cuMemPoolTrimTo(small => u64, 0 => usize));
        assert_eq!(held(small), 0);
        // Allocated memory outlives the pool.
        let block = from_pool(1 << 20, small, stream).unwrap();
        ok!(cuMemPoolDestroy(small => u64));
        assert_eq!(from_pool(1 << 20, small, stream), Err(INVALID_HANDLE));
        assert_eq!(set(block, 1 << 20), 0);
        let next = pool(0, 0);
        ok!(cuMemFreeAsync(block => u64, stream => u64));
        assert_eq!(held(next), 0, "and does not come back to one that got its handle");
    });
}

#[test]
fn pools_and_physical_memory_outlive_a_context_and_nothing_else_does() {
    alone("pools_and_physical_memory_outlive_a_context_and_nothing_else_does", &[], || {
        begin();
        let before = free_bytes();
        let mut context = 0u64;
        ok!(cuCtxCreate_v2(&mut context => &mut u64, 0 => u32, 0 => i32));
        let (handle, mut block, mut array) = (create(UNIT), 0u64, 0u64);
        ok!(cuMemAllocAsync(&mut block => &mut u64, UNIT => usize, 0 => u64));
        device(UNIT);
        let shape: [u64; 3] = [1024, 512, 0x20 | 1 << 32];
        ok!(cuArrayCreate_v2(&mut array => &mut u64, shape.as_ptr() => *const u64));
        assert_eq!(before - free_bytes(), 4 * UNIT);
        ok!(cuCtxDestroy_v2(context => u64));
        assert_eq!(before - free_bytes(), 2 * UNIT);
        assert_eq!(cu!(cuArrayDestroy(array => u64)), INVALID_HANDLE);
        ok!(cuMemFree_v2(block => u64));
        ok!(cuMemRelease(handle => u64));
        assert_eq!(free_bytes(), before);
    });
}

#[test]
fn an_imported_pool_gives_pointers_only() {
    alone("an_imported_pool_gives_pointers_only", &[], || {
        begin();
        let (stream, shared, private) = (stream(1), pool(1, 0), pool(0, 0));
        let (mut descriptor, mut imported) = (0i32, 0u64);
        let export = |pool: u64, to: &mut i32| cu!(cuMemPoolExportToShareableHandle(to => &mut i32, pool => u64, 1 => u32, 0 => u64));
        assert_eq!(export(private, &mut descriptor), INVALID_VALUE, "it was not made to be shared");
        assert_eq!(export(shared, &mut descriptor), 0);
        ok!(cuMemPoolImportFromShareableHandle(&mut imported => &mut u64, descriptor as usize => usize, 1 => u32, 0 => u64));
        assert_eq!(from_pool(4096, imported, stream), Err(INVALID_VALUE));
        assert_eq!(cu!(cuDeviceSetMemPool(0 => i32, imported => u64)), INVALID_VALUE);
        let (block, mut data, mut twin) = (from_pool(4096, shared, stream).unwrap(), [0u64; 8], 0u64);
        ok!(cuMemPoolExportPointer(&mut data => &mut [u64; 8], block => u64));
        ok!(cuMemPoolImportPointer(&mut twin => &mut u64, imported => u64, &data => &[u64; 8]));
        let (mut first, mut bytes) = (0u64, 0usize);
        ok!(cuMemGetAddressRange_v2(&mut first => &mut u64, &mut bytes => &mut usize, twin + 4095 => u64));
        assert_eq!((first, bytes), (twin, 4096));
        ok!(cuMemFreeAsync(twin => u64, stream => u64));
    });
}

#[test]
fn an_array_takes_its_elements_and_its_levels_half_of_it_each() {
    alone("an_array_takes_its_elements_and_its_levels_half_of_it_each", &[], || {
        begin();
        let before = free_bytes();
        let (mut array, mut mipmap, mut level) = (0u64, 0u64, 0u64);
        // float2, 100 × 30.
        let shape: [u64; 3] = [100, 30, 0x20 | 2 << 32];
        ok!(cuArrayCreate_v2(&mut array => &mut u64, shape.as_ptr() => *const u64));
        assert_eq!(before - free_bytes(), (100 * 30 * 8usize).next_multiple_of(256));
        ok!(cuArrayDestroy(array => u64));
        let shape: [u64; 5] = [64, 64, 0, 0x01 | 4 << 32, 0];
        ok!(cuMipmappedArrayCreate(&mut mipmap => &mut u64, shape.as_ptr() => *const u64, 3 => u32));
        assert_eq!(before - free_bytes(), ((64 * 64 + 32 * 32 + 16 * 16) * 4usize).next_multiple_of(256));
        ok!(cuMipmappedArrayGetLevel(&mut level => &mut u64, mipmap => u64, 2 => u32));
        assert_eq!(
            cu!(cuMipmappedArrayGetLevel(&mut array => &mut u64, mipmap => u64, 3 => u32)),
            INVALID_VALUE
        );
        assert_eq!(cu!(cuArrayDestroy(level => u64)), INVALID_HANDLE, "it belongs to the mipmapped array");
        ok!(cuMipmappedArrayDestroy(mipmap => u64));
        assert_eq!(free_bytes(), before);
        let none: [u64; 3] = [0, 30, 0x20 | 2 << 32];
        assert_eq!(cu!(cuArrayCreate_v2(&mut array => &mut u64, none.as_ptr() => *const u64)), INVALID_VALUE);
        let three: [u64; 3] = [10, 0, 0x20 | 3 << 32];
        assert_eq!(
            cu!(cuArrayCreate_v2(&mut array => &mut u64, three.as_ptr() => *const u64)),
            INVALID_VALUE
        );
    });
}

#[test]
fn another_processs_memory_is_opened_here_and_ones_own_is_not() {
    alone("another_processs_memory_is_opened_here_and_ones_own_is_not", &[], || {
        begin();
        let before = free_bytes();
        let (own, mut data, mut address) = (device(4096), [0u64; 8], 0u64);
        ok!(cuIpcGetMemHandle(&mut data => &mut [u64; 8], own => u64));
        assert_eq!(cu!(cuIpcGetMemHandle(&mut data => &mut [u64; 8], own + 1 => u64)), INVALID_VALUE);
        let open = |data: [u64; 8], flags: u32, to: &mut u64| {
            #[repr(C)]
            struct Exported([u64; 8]);
            cu!(cuIpcOpenMemHandle_v2(to => &mut u64, Exported(data) => Exported, flags => u32))
        };
        assert_eq!(open(data, 1, &mut address), INVALID_CONTEXT);
        data[1] += 1; // as if another process had exported it
        assert_eq!(open(data, 0, &mut address), INVALID_VALUE, "cuda.h: the flag must be given");
        assert_eq!(open(data, 1, &mut address), 0);
        let mut again = 0;
        assert_eq!(open(data, 1, &mut again), 0);
        assert_eq!(again, address, "cuda.h: the existing pointer is returned");
        assert_eq!(cu!(cuMemFree_v2(address => u64)), INVALID_VALUE);
        ok!(cuIpcCloseMemHandle(address => u64));
        assert_eq!(set(address, 4096), 0, "still open once");
        ok!(cuIpcCloseMemHandle(address => u64));
        assert_eq!(cu!(cuIpcCloseMemHandle(address => u64)), INVALID_VALUE);
        assert_eq!(before - free_bytes(), 4096, "what others allocated is not ours");
        // Another API's, by file descriptor.
        // SAFETY: a C string; the descriptor is the test's, and the driver's after the import.
        let file = unsafe { libc::memfd_create(c"external".as_ptr(), 0) };
        let import: [u64; 13] = [1, file as u64, 0, 8192, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let (mut external, mut buffer) = (0u64, 0u64);
        ok!(cuImportExternalMemory(&mut external => &mut u64, import.as_ptr() => *const u64));
        // SAFETY: the descriptor is only queried.
        assert_eq!(unsafe { libc::fcntl(file, libc::F_GETFD) }, -1, "the descriptor is the driver's now");
        let part = |offset: u64, bytes: u64| [offset, bytes, 0];
        let map = |part: [u64; 3], buffer: &mut u64| cu!(cuExternalMemoryGetMappedBuffer(buffer => &mut u64, external => u64, part.as_ptr() => *const u64));
        assert_eq!(map(part(4096, 8192), &mut buffer), INVALID_VALUE);
        assert_eq!(map(part(4096, 4096), &mut buffer), 0);
        ok!(cuMemFree_v2(buffer => u64));
        ok!(cuDestroyExternalMemory(external => u64));
        assert_eq!(cu!(cuDestroyExternalMemory(external => u64)), INVALID_HANDLE);
    });
}

#[test]
fn a_location_accepts_only_its_own_devices_pool() {
    alone("a_location_accepts_only_its_own_devices_pool", &[("SIMCUDA_DRIVER_VERSION", "13000")], || {
        begin();
        // CUmemPoolProps: pinned, no handles, on device 0.
        let properties: [u64; 11] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let (mut pool, mut current) = (0u64, 0u64);
        ok!(cuMemPoolCreate(&mut pool => &mut u64, properties.as_ptr() => *const u64));
        let set = |location: [i32; 2], kind: u32| cu!(cuMemSetMemPool(&location => &[i32; 2], kind => u32, pool => u64));
        assert_eq!([set([2, 0], 1), set([1, 0], 2)], [INVALID_VALUE; 2], "the host's, and managed");
        assert_eq!(set([1, 7], 1), 101, "no such device");
        assert_eq!(set([1, 0], 1), 0);
        ok!(cuDeviceGetMemPool(&mut current => &mut u64, 0 => i32));
        assert_eq!(current, pool);
    });
}
