//! The state of a target and its rules, on a directory and on a real S3 server.
//!
//! Tests that are named after a number hold the documented rule of that number; `hNN` those that close a hole in it.

mod bare;
mod builders;
mod conformance;
mod edits;
mod layout;
mod manager;
mod overload;
mod rules;
mod support;
mod work;
mod writers;
