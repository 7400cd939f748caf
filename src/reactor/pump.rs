//! The pump: takes messages from the mesh, ends turns, wakes who yielded, and rings who must be rung.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::{Room, Service};
use crate::limits::{BUSY_POLL_US, MESH_DRAIN};
use crate::rt::wake::{Beat, Pulse};

/// Runs until the reactor is done.
pub(super) async fn pump<S: Service>(room: Rc<Room<S>>, mut pulse: Pulse) {
    let busy = Duration::from_micros(room.settings.busy_poll_us.min(BUSY_POLL_US).into());
    let port = room.seat.port.clone();
    let (mut announced, mut left, mut worked) = (false, false, false);
    while !room.done.is_set() {
        if worked && !busy.is_zero() {
            port.awake();
            linger(busy, || port.is_empty());
            announced = false;
        }
        // With messages left a pass is asked for, not the loop repeated: the kernel has its turn in between.
        if !announced && !port.sleep() {
            left = true;
            pulse.ask();
        }
        announced = true;
        let beat = pulse.beat().await;
        room.seat.ingest.renew();
        if room.seat.turn.renew() {
            room.seat.ingest.expect_queries();
        }
        let before = port.traffic().sent;
        let mut taken = 0;
        match beat {
            // Only the end of a turn: who sends to us still sees us asleep, and rings.
            Ok(Beat::Poked) => port.flush(),
            Ok(beat) => {
                room.seat.counters.wakeups.add(u64::from(beat == Beat::Rung));
                if left || beat == Beat::Rung {
                    port.awake();
                    (announced, left) = (false, false);
                    taken = port.drain(MESH_DRAIN, |from, message| room.service.message(from, message));
                }
                port.flush();
                pulse.release();
            }
            Err(error) => {
                tracing::error!(reactor = room.seat.id, %error, "the reactor's bell is broken: stopping");
                room.shared.stop();
                room.seat.stopping.set();
                break;
            }
        }
        worked = taken > 0 || port.traffic().sent > before;
        count(&room, taken);
        if room.shared.stopping() && !room.seat.stopping.is_set() {
            room.seat.stopping.set();
        }
    }
}

/// Looks for messages for a while: a round trip that finds its reactor awake takes a hundredth of the time.
fn linger(time: Duration, empty: impl Fn() -> bool) {
    let end = Instant::now() + time;
    while empty() && Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn count<S: Service>(room: &Room<S>, taken: usize) {
    let counters = &room.seat.counters;
    let traffic = room.seat.port.traffic();
    let lines = [&room.seat.turn, &room.seat.ingest];
    counters.mesh_received.add(taken as u64);
    counters.mesh_sent.set(traffic.sent);
    counters.mesh_full.set(traffic.full);
    counters.mesh_rung.set(traffic.rung);
    counters.turns.set(room.seat.turn.turns());
    counters.yields.set(lines.iter().map(|line| line.yields()).sum());
    counters.stalls.set(lines.iter().map(|line| line.stalls()).sum());
}
