//! Compiles the shim between libjpeg-turbo and Forebay's entropy decoder, against the headers of the libjpeg-turbo that
//! turbojpeg-sys has built.

#![expect(clippy::disallowed_methods, reason = "cargo tells build scripts by the environment")]

fn main() {
    println!("cargo:rerun-if-changed=src/image/decode/jpeg/shim.c");
    let include = std::env::var("DEP_TURBOJPEG_INCLUDE").unwrap_or_default();
    let mut build = cc::Build::new();
    build.file("src/image/decode/jpeg/shim.c").includes(include.split(',').filter(|path| !path.is_empty()));
    build.compile("forebay_jpeg");
}
