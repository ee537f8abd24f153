#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cadran_fuzz_targets::duration(data));
