//! The way down: nothing new, finish what is in flight, then let go.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Room, Service};
use crate::limits::LINGER_MILLIS;
use crate::rt::sleep;

/// How often progress is looked at; nothing on the way down is worth a wake of its own.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for the stop, then brings this reactor to where only its pump and sweep still run.
pub(super) async fn wind_down<S: Service>(room: &Room<S>) {
    room.seat.stopping.wait().await;
    room.connections.end_idle();
    let linger = Duration::from_millis(LINGER_MILLIS);
    let deadline = Instant::now() + room.settings.drain;
    let mut empty = until(deadline, || room.connections.is_empty()).await;
    if !empty && room.service.owes() {
        while room.service.owes() {
            sleep(LOOK).await;
        }
        empty = until(Instant::now() + linger, || room.connections.is_empty()).await;
    }
    if !empty {
        tracing::warn!(reactor = room.seat.id, "connections are still open at the end of the drain time");
        room.connections.end_all();
        until(Instant::now() + linger, || room.connections.is_empty()).await;
    }
    // Others may still ask this shard for their last answers.
    room.shared.drained.fetch_add(1, Ordering::AcqRel);
    let all = || room.shared.drained.load(Ordering::Acquire) >= room.seat.reactors;
    until(deadline + 2 * linger, all).await;
    room.service.clone().stop().await;
}

/// Waits until `ready`, at most until `deadline`; whether it was.
async fn until(deadline: Instant, ready: impl Fn() -> bool) -> bool {
    while !ready() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK).await;
    }
    true
}
