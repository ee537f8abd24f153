//! `cadran fuzz` from end to end: a repository, a store, the binary and what it prints.

mod bad;
mod covered;
mod example;
mod home;
mod limits;
mod passes;
mod served;
mod shared;
mod stores;
