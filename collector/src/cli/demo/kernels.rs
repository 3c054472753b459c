//! Kernels that spin for as long as their names say, so that the demo looks the same on any GPU. On a real GPU the kernel reads
//! the GPU's timer; the simulator reads the end of the name.

use std::ffi::CString;
use std::fmt::Write;

/// PTX ISA 6.0 is the first with sm_70, Volta (PTX ISA, `.target`).
const HEAD: &str = ".version 6.0\n.target sm_70\n.address_size 64\n";

/// Returns a module of kernels that each take one 64-bit parameter.
pub(super) fn ptx(names: &[&str]) -> CString {
    let mut text = HEAD.to_owned();
    for name in names {
        let _ = write!(
            text,
            "
.visible .entry {name}(.param .u64 data)
{{
    .reg .u64 %t<3>;
    .reg .pred %more;
    mov.u64 %t0, %globaltimer;
SPIN:
    mov.u64 %t1, %globaltimer;
    sub.u64 %t2, %t1, %t0;
    setp.lt.u64 %more, %t2, {};
    @%more bra SPIN;
    ret;
}}
",
            spins_ns(name)
        );
    }
    // No name contains a NUL.
    CString::new(text).unwrap_or_default()
}

/// Returns the time in a name that ends in `_<N>us`, in ns; 0 for other names.
fn spins_ns(name: &str) -> u64 {
    let us = name.rsplit('_').next().and_then(|ending| ending.strip_suffix("us")?.parse::<u64>().ok());
    us.unwrap_or(0) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_spins_for_as_long_as_its_name_says() {
        assert_eq!((spins_ns("input_forward_600us"), spins_ns("graph_2us")), (600_000, 2_000));
        assert_eq!((spins_ns("status"), spins_ns("")), (0, 0));
        let text = ptx(&["a_2us", "b_30us"]).into_string().unwrap();
        assert_eq!(text.matches(".visible .entry ").count(), 2);
        let b = text.split(".visible .entry b_30us(.param .u64 data)").nth(1).unwrap();
        assert!(b.contains("setp.lt.u64 %more, %t2, 30000;"), "{text}");
    }
}
