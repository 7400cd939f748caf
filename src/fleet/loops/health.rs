//! Instances that are silent for too long are taken out.

use std::rc::Rc;

use crate::fleet::coordinator::Coordinator;
use crate::rt::sleep;

/// Sweeps after every pause until the reactor stops.
pub(in crate::fleet) async fn health(fleet: Rc<Coordinator>) {
    let Some(pause) = fleet.settings.health_pause() else { return };
    while fleet.seat.stopping.wait_at_most(sleep(pause)).await.is_some() {
        let now = fleet.now();
        for member in fleet.registry.borrow_mut().sweep(now, fleet.settings.instance_timeout) {
            let silent = now.saturating_sub(member.heartbeat).as_secs_f64();
            tracing::warn!(
                instance = member.instance.id,
                ip = member.instance.ip,
                port = member.instance.http_port,
                silent_seconds = (silent * 10.0).round() / 10.0,
                "instance dropped: no heartbeat"
            );
            fleet.counts.reaped.add(1);
        }
    }
}
