use super::*;

/// Where a function that saves its caller's frame pointer there has its return address.
fn back_of(frame: Option<i64>) -> i64 {
    frame.filter(|_| cfg!(target_arch = "aarch64")).map_or(-8, |frame| frame + 8)
}

#[test]
fn a_rule_is_a_word_and_back() {
    let stored = Stored(AtomicU64::new(0));
    let looked_up = || (stored.rule(), stored.is_none());
    assert_eq!(looked_up(), (None, false), "not looked up");
    let furthest = 1 << (PLACE_BITS - 1);
    for (is_by_frame, top, frame) in [
        (false, 8, None),
        (true, 16, Some(-16)),
        (false, i64::from(i32::MAX), Some(-furthest)),
        (true, i64::from(i32::MIN), Some(furthest - 9)),
        (true, -4, Some(0)),
    ] {
        let rule = Rule { is_by_frame, top, frame, back: back_of(frame) };
        stored.put(Some(rule));
        assert_eq!(looked_up(), (Some(rule), false));
    }
    for (top, frame) in [(1 << 31, None), (16, Some(furthest)), (16, Some(-furthest - 9))] {
        stored.put(Some(Rule { is_by_frame: false, top, frame, back: back_of(frame) }));
        assert_eq!(looked_up(), (None, true), "too large");
    }
    let elsewhere = Rule { is_by_frame: false, top: 64, frame: Some(-16), back: -40 };
    stored.put(Some(elsewhere));
    assert_eq!(looked_up(), (None, true), "the return address is where no rule has it");
    stored.forget();
    assert_eq!(looked_up(), (None, false));
}

/// Walks over a part of `.eh_frame` of this very program, and compares what it says of each function's first bytes with what a
/// function has then: its return address is on top of the stack.
#[cfg(target_arch = "x86_64")]
#[test]
fn at_its_first_instruction_each_function_of_this_program_has_pushed_nothing() {
    let index = index_of(tests_here as *const () as u64).unwrap();
    let count = checked_int(index + 8).unwrap() as u32;
    assert!(count > 1000, "{count}");
    let mut read = 0;
    for at in 0..count {
        let word = checked_word(index + 12 + 8 * u64::from(at)).unwrap();
        let place = |half: u64| index.checked_add_signed(i64::from(half as u32 as i32)).unwrap();
        let (function, description) = (place(word), place(word >> 32));
        assert_eq!(find(index, function), Some(description));
        let description = Description::read(description).unwrap();
        assert_eq!(description.from, function);
        let rule = description.rule(function);
        // Parts of functions that the compiler has put elsewhere begin in the middle, and the linker's stubs and _start have
        // rules of their own.
        read += u32::from(rule == Some(Rule { is_by_frame: false, top: 8, frame: None, back: -8 }));
    }
    assert!(read > count * 9 / 10, "{read} of {count}");
}

#[test]
fn an_address_without_code_has_no_rule() {
    let place = 0u64;
    for address in [0, 1, 8, u64::MAX, core::ptr::from_ref(&place) as u64] {
        assert_eq!(of(address), None, "{address:#x}");
    }
}

fn tests_here() {}

fn index_of(address: u64) -> Option<u64> {
    libraries::search(|loaded| {
        let headers = loaded.holds(address).then(|| loaded.headers())?;
        let header = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        Some(loaded.base() + header.p_vaddr)
    })
}

/// A common part and a function's part of it, as assemblers write them, with these instructions in the latter.
fn described(instructions: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    // zR, code in bytes, data in words down, and where the return address is. On x86-64 the frame's top is 8 above the stack pointer,
    // and the return address below it; on Arm the frame's top is the stack pointer.
    let at_first: &[u8] =
        if cfg!(target_arch = "aarch64") { &[0x0c, 31, 0] } else { &[0x0c, 7, 8, 0x90, 1, 0, 0] };
    let front = [0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, RETURN_ADDRESS as u8, 1, RELATIVE_I32];
    let common = [&front[..], at_first].concat();
    bytes.extend((common.len() as u32).to_le_bytes());
    bytes.extend(&common);
    let start = bytes.len();
    let length = 13 + instructions.len();
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend((start as u32 + 4).to_le_bytes());
    // The function begins where this field lies, and has 256 bytes.
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(256u32.to_le_bytes());
    bytes.push(0);
    bytes.extend(instructions);
    (bytes, start)
}

fn rule_at(instructions: &[u8], offset: u64) -> Option<Rule> {
    let (bytes, start) = described(instructions);
    let description = Description::read(bytes.as_ptr() as u64 + start as u64)?;
    description.rule(description.from + offset)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_row_of_an_address_is_the_last_that_begins_before_it() {
    // push rbp; mov rbp, rsp; ...; leave; ret
    let with_frame_pointer =
        [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 100, 0x0a, 0x0c, 7, 8, 0x41, 0x0b];
    let by_stack = |top, frame| Some(Rule { is_by_frame: false, top, frame, back: -8 });
    let by_frame = Some(Rule { is_by_frame: true, top: 16, frame: Some(-16), back: -8 });
    for (offset, rule) in [
        (0, by_stack(8, None)),
        (1, by_stack(16, Some(-16))),
        (3, by_stack(16, Some(-16))),
        (4, by_frame),
        (103, by_frame),
        (104, by_stack(8, Some(-16))),
        (105, by_frame),
        (255, by_frame),
        (256, None),
    ] {
        assert_eq!(rule_at(&with_frame_pointer, offset), rule, "at {offset}");
    }
    // sub rsp, 1000 by a long number, and a register that is nobody's.
    let large = [0x44, 0x0e, 0xf0, 0x07, 0x83, 3, 0x2e, 16];
    assert_eq!(rule_at(&large, 4), by_stack(1008, None));
}

/// Functions as GCC and as LLVM compile them for Arm.
#[cfg(target_arch = "aarch64")]
#[test]
fn on_arm_a_return_address_is_where_its_function_has_saved_it() {
    let by_stack = |top, frame, back| Some(Rule { is_by_frame: false, top, frame, back });
    // paciasp; stp x29, x30, [sp, -32]!; mov x29, sp; ...; ldp x29, x30, [sp], 32; autiasp; ret
    let gnu = [0x44, 0x2d, 0x44, 0x0e, 32, 0x9d, 4, 0x9e, 3, 0x5c, 0xde, 0xdd, 0x0e, 0, 0x44, 0x2d];
    let saved = by_stack(32, Some(-32), -24);
    for (offset, rule) in [(0, None), (4, None), (8, saved), (35, saved), (36, None), (40, None)] {
        assert_eq!(rule_at(&gnu, offset), rule, "at {offset}");
    }
    // sub sp, sp, 48; stp x29, x30, [sp, 32]; add x29, sp, 32
    let llvm = [0x44, 0x0e, 48, 0x48, 0x0c, 29, 16, 0x9e, 1, 0x9d, 2];
    let by_frame = Some(Rule { is_by_frame: true, top: 16, frame: Some(-16), back: -8 });
    for (offset, rule) in [(0, None), (4, None), (12, by_frame), (255, by_frame), (256, None)] {
        assert_eq!(rule_at(&llvm, offset), rule, "at {offset}");
    }
    // The return address alone (-fomit-frame-pointer), and apart from the frame pointer.
    assert_eq!(rule_at(&[0x0e, 32, 0x93, 4, 0x9e, 3], 0), by_stack(32, None, -24));
    assert_eq!(rule_at(&[0x0e, 32, 0x9e, 4, 0x9d, 1], 0), None);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_no_compilers_function_needs_has_no_rule() {
    let expression = [0x0f, 2, 0x77, 8];
    let unknown = [0x3f];
    let restored_too_often = [0x0b];
    let kept_too_often = [0x0a; 5];
    let of_another_register = [0x0d, 3];
    let without_return_address = [0x07, 16];
    let frame_pointer_elsewhere = [0x09, 6, 3];
    let cut = [0x0c, 7];
    for instructions in [
        &expression[..],
        &unknown,
        &restored_too_often,
        &kept_too_often,
        &of_another_register,
        &without_return_address,
        &frame_pointer_elsewhere,
        &cut,
    ] {
        assert_eq!(rule_at(instructions, 0), None, "{instructions:?}");
    }
    assert!(rule_at(&[0x10, 3, 1, 0x77], 0).is_some(), "another register's place does not matter");
}

#[test]
fn a_damaged_record_ends_in_no_rule() {
    let (bytes, start) = described(&[0x41, 0x0e, 16, 0x86, 2]);
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            if let Some(description) = Description::read(damaged.as_ptr() as u64 + start as u64) {
                let _ = description.rule(description.from);
            }
        }
    }
}
