//! One front door: an event in, effects out.
