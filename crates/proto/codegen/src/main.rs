//! Writes `../src/generated/` from `../proto/`. Run it in its own folder: `cargo run`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = crate_dir.join("src/generated");
    std::fs::create_dir_all(&out)?;
    let files = protox::compile(["forebay.proto"], [crate_dir.join("proto")])?;
    tonic_prost_build::configure().out_dir(&out).bytes(".forebay.v1.BlobPart").compile_fds(files)?;
    Ok(())
}
