//! Evaluation beside the peers.
fn main() {}
