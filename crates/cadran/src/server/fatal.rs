//! Threads and tasks that the server cannot go on without: when one of them panics, the process ends.
//!
//! The record says what was promised and started, so a new start is always right, while a server that lives on without
//! its loop looks well and fires nothing. A supervisor starts it again.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use futures::FutureExt;

/// `EX_SOFTWARE` of sysexits.h: an internal mistake, as opposed to 1, which is a refusal with a reason.
pub const EXIT_CODE: i32 = 70;

thread_local! {
    /// What this thread is, when a panic of it ends the process.
    static FATAL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The body of a thread that must not end by a panic.
///
/// The process ends before the stack is unwound: whoever waits for an answer that lies there would take its loss for the
/// answer, and `cadran run` would end first, with another exit code.
pub fn thread(what: &'static str, body: impl FnOnce() + Send) -> impl FnOnce() + Send {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            report(info);
            if let Some(what) = FATAL.get() {
                end(what, info.payload());
            }
        }));
    });
    move || {
        FATAL.set(Some(what));
        body();
    }
}

/// A task that must not end by a panic.
pub async fn task(what: &'static str, body: impl Future<Output = ()>) {
    if let Err(panic) = AssertUnwindSafe(body).catch_unwind().await {
        end(what, &*panic);
    }
}

fn end(what: &str, panic: &(dyn Any + Send)) -> ! {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    if tracing::dispatcher::has_been_set() {
        tracing::error!(
            "the {what} panicked: {why}; the process ends, and the next start goes on from the record"
        );
    } else {
        eprintln!("error: the {what} panicked: {why}");
    }
    std::process::exit(EXIT_CODE)
}
