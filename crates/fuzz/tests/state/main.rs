//! The state of a target and its rules, on a directory and on a real S3 server.
//!
//! Tests that are named after a number hold the documented rule of that number; `hNN` those that close a hole in it.

mod conformance;
mod edits;
mod manager;
mod rules;
mod support;
mod work;
mod writers;
