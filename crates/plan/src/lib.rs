//! When: index of dues, watermarks, catch-up, ring.

pub mod index;
