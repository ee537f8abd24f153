//! The API over a real loopback listener, with a scripted server behind it and the memory store beside it.

mod bench;
mod commands;
mod hostile;
mod listener;
mod logs;
mod page_types;
mod pages;
mod records;
mod shares;
mod walker;
mod wire;
