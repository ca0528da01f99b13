#![no_main]
// Panics of the library that reads these files are caught and become errors; libFuzzer's hook would end the process first.
libfuzzer_sys::fuzz_target!(init: drop(std::panic::take_hook()), |data: &[u8]| forebay_fuzz::run("parquet", data));
