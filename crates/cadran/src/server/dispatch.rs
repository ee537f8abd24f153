//! Sends each order to the executor it is for: the embedded one, XXL-JOB executors, or workers.

use std::sync::Arc;

use cadran_core::{ExecutorKind, Order};
use cadran_exec::{Embedded, Hub, Remote};

use super::event_loop::Orders;

/// What the loop calls with its orders.
pub fn dispatcher(local: Arc<Embedded>, remote: Arc<Remote>, hub: Arc<Hub>) -> Orders {
    Arc::new(move |orders| dispatch(orders, &local, &remote, &hub))
}

/// A start goes to the executor it was placed with. Stops and closes go to every executor that is in use: each knows which
/// attempts it has.
fn dispatch(orders: Vec<Order>, local: &Embedded, remote: &Remote, hub: &Hub) {
    let (mut to_local, mut to_remote, mut to_workers) =
        (Vec::with_capacity(orders.len()), Vec::new(), Vec::new());
    for order in orders {
        match &order {
            Order::Start(start) => match start.placement.as_ref().map(|placement| placement.kind) {
                None => to_local.push(order),
                Some(ExecutorKind::Worker) => to_workers.push(order),
                Some(ExecutorKind::XxlJob) => to_remote.push(order),
            },
            Order::Gone { .. } => to_remote.push(order),
            Order::Stop { .. } | Order::StopShare { .. } | Order::Close { .. } => {
                if remote.is_used() || !to_remote.is_empty() {
                    to_remote.push(order.clone());
                }
                if hub.is_used() || !to_workers.is_empty() {
                    to_workers.push(order.clone());
                }
                to_local.push(order);
            }
        }
    }
    if !to_workers.is_empty() {
        hub.submit(to_workers);
    }
    if !to_local.is_empty() {
        local.submit(to_local);
    }
    if !to_remote.is_empty() {
        remote.submit(to_remote);
    }
}
