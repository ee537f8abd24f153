//! Seeded simulation.
#![forbid(unsafe_code)]
