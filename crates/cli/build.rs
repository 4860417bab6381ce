#![allow(clippy::print_stdout, reason = "that is how cargo is told")]

//! The release program keeps the lines of its code, for backtraces, in compressed sections: the standard
//! library reads them, and they are a fifth of the size.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
        // Well instead of fast, which is what lld does unless told.
        for section in ["line", "ranges", "addr", "aranges"] {
            println!("cargo::rustc-link-arg-bins=-Wl,--compress-sections=.debug_{section}=zlib:9");
        }
        // Functions that came out the same are one: a good deal of what generics are made for.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
