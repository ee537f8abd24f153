//! Runs simulations.
#![forbid(unsafe_code)]
fn main() {}
