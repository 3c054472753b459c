//! Link settings of the agent, and the one build flag that its safety rests on.

fn main() {
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let flags: Vec<&str> = flags.split('\x1f').collect();
    let on = |v: &str| {
        matches!(v, "force-frame-pointers" | "force-frame-pointers=yes" | "force-frame-pointers=on")
    };
    let forced = flags.iter().enumerate().any(|(i, f)| {
        f.strip_prefix("-C").is_some_and(|rest| on(rest.trim_start()))
            || (i > 0 && flags[i - 1] == "-C" && on(f))
    });
    assert!(
        forced,
        "the agent reads its caller's return address through the frame pointer: build with \
         -Cforce-frame-pointers=yes (it stands in .cargo/config.toml; a RUSTFLAGS variable overrides that file)"
    );
    // Our own references to the functions we export mean ours, whatever is preloaded in front of us.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Hooks may be on a stack anywhere: the library never goes away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgpuspy.so");
}
