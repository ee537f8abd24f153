//! Builds the index of dues away from the loop's thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use cadran_engine::Event;
use cadran_plan::Build;
use cadran_plan::index::{Buffers, build};

use super::event_loop::Message;
use super::inbox::Inbox;
use super::{fatal, fault};

/// Starts the builder. It ends when the sender is dropped.
pub(super) fn start(inbox: Arc<Inbox<Message>>) -> std::io::Result<Sender<Build>> {
    let (sender, orders) = channel();
    thread::Builder::new()
        .name("cadran-index".into())
        .spawn(fatal::thread("index builder", move || serve(&orders, &inbox)))?;
    Ok(sender)
}

fn serve(orders: &Receiver<Build>, inbox: &Inbox<Message>) {
    while let Ok(order) = orders.recv() {
        fault::point("index");
        // A build comes once in a while; room for a million schedules is not worth keeping until the next.
        let mut buffers = Buffers::default();
        let fresh = order.last.window().is_empty();
        let index = if fresh {
            build(&order.fleet, order.window, &mut buffers)
        } else {
            let patched = order.last.with_changed(&order.fleet, &order.changed, &mut buffers);
            patched.advance(&order.fleet, order.window, &mut buffers)
        };
        inbox.put(Message::Event(Event::IndexBuilt(Arc::new(index))));
    }
}
