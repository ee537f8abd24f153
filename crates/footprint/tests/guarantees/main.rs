//! What the crate promises, held against plain designs that are too simple to be wrong.
//!
//! `CADRAN_FOOTPRINT_SEQUENCES=3000000 cargo test -p cadran-footprint --release --test guarantees` looks longer.

mod chance;
mod drain;
mod held;
mod plain_held;
mod reserve;

/// How many random sequences each property looks at, unless the environment says more.
fn sequences(usual: u64) -> u64 {
    let asked = std::env::var("CADRAN_FOOTPRINT_SEQUENCES").ok();
    asked.map_or(usual, |text| text.parse().expect("a number of sequences"))
}
