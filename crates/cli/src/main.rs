//! The `forebay` command without Python: dispatchers, and workers for pipelines that call no Python function.

fn main() {
    let arguments = std::env::args_os().skip(1).collect();
    std::process::exit(forebay_cli::run(arguments, &forebay_cli::Native));
}
