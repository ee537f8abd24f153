//! Footprints: which pieces of work may run together?
