//! When: index of dues, watermarks, catch-up, ring.
