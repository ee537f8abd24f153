//! What only tests, benchmarks and `xtask` need: a counting allocator, the table that benchmarks print, and a corpus of bad
//! job files.
//!
//! It depends on nothing, and nothing that is shipped depends on it; `cargo xtask check` holds both.

pub mod allocation;
pub mod bad_input;
pub mod bench_table;
