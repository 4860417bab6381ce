#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

//! The release program keeps the lines of its code, for backtraces, in compressed sections: the standard
//! library reads them, and they are a fifth of the size.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
        // With this lld compresses well instead of fast.
        println!("cargo::rustc-link-arg-bins=-Wl,-O2");
        // Functions that came out the same are one: a good deal of what generics are made for.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
