//! Writes the Rust code generated from the .proto files of three crates. Run it in its own folder: `cargo run`.

use std::path::Path;

/// A crate, its .proto file, and the folder of the generated code.
const FILES: [(&str, &str, &str); 3] = [
    ("proto", "forebay.proto", "src/generated"),
    ("dispatcher", "etcd.proto", "src/store/etcd/generated"),
    ("csi", "csi.proto", "src/generated"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The path is relative to the folder where it runs, not where it was compiled, because clones may share a target
    // folder.
    let crates = Path::new("../..");
    for (name, file, out) in FILES {
        let folder = crates.join(name);
        let out = folder.join(out);
        std::fs::create_dir_all(&out)?;
        let files = protox::compile([file], [folder.join("proto")])?;
        // Forebay has no server of etcd's protocol.
        let serves = name != "dispatcher";
        tonic_prost_build::configure().build_server(serves).out_dir(&out).bytes(".forebay.v1.BlobPart").compile_fds(files)?;
    }
    Ok(())
}
