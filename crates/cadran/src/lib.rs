//! Cadran in one binary: the command line, every default, the clock and the loop.
//!
//! [`server`] is the running server: a loop that reads the clock, feeds the engine, commits what it asks for and sends
//! its orders. [`commands`] holds one file per subcommand, [`client`] what those need that talk to a server.
//! [`defaults`] has every default with the reason for it.
#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod commands;
pub mod defaults;
pub mod public_address;
pub mod server;
mod xxl_job;
