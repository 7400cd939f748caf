//! Accepting connections. The task waits for the socket to be readable and accepts without blocking, so that
//! no accepted descriptor can be lost and both drivers do the same.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use super::listen::Listener;
use super::{Room, Service, connection};
use crate::limits::{ACCEPT_BURST, ACCEPT_PAUSE_MILLIS, COST_REQUEST};
use crate::rt::{Readable, Stream, sleep};

/// What to do after an attempt to accept.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    Another,
    Wait,
    Pause,
}

/// Accepts until the reactor stops. The socket's descriptor is registered with the connections, which end
/// the wait.
pub(super) async fn accept<S: Service>(room: Rc<Room<S>>, listener: Listener) {
    let Ok(readable) = Readable::new(listener.as_fd()) else { return };
    while !room.shared.stopping() {
        if readable.wait().await.is_err() {
            break;
        }
        for _ in 0..ACCEPT_BURST {
            if room.shared.stopping() {
                break;
            }
            let accepted = listener.accept();
            let next = accepted.as_ref().map_or_else(after, |_| Next::Another);
            match (accepted, next) {
                (Ok(stream), _) => admit(&room, stream),
                (Err(_), Next::Another) => {}
                (Err(_), Next::Wait) => break,
                (Err(error), Next::Pause) => {
                    room.seat.counters.accept_errors.add(1);
                    tracing::warn!(reactor = room.seat.id, %error, "cannot accept a connection");
                    sleep(Duration::from_millis(ACCEPT_PAUSE_MILLIS)).await;
                    break;
                }
            }
            room.seat.turn.spend(COST_REQUEST).await;
        }
    }
    room.connections.forget_listener(&listener);
}

fn after(error: &io::Error) -> Next {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::WouldBlock, _) => Next::Wait,
        // The client has gone again.
        (io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted, _)
        | (_, Some(libc::EPROTO | libc::EPERM)) => Next::Another,
        // Out of descriptors or memory, which only time helps.
        _ => Next::Pause,
    }
}

fn admit<S: Service>(room: &Rc<Room<S>>, stream: Stream) {
    let counters = &room.seat.counters;
    let task = if room.connections.has_room() {
        counters.connections_accepted.add(1);
        let place = room.connections.enter(&stream, false);
        room.seat.turn.spawn(connection::serve(room.clone(), place, stream))
    } else {
        counters.connections_refused.add(1);
        if !room.connections.has_room_for_refusal() {
            return;
        }
        let place = room.connections.enter(&stream, true);
        room.seat.turn.spawn(connection::refuse(room.clone(), place, stream))
    };
    drop(task);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shortage_pauses() {
        for (errno, next) in [
            (libc::EAGAIN, Next::Wait),
            (libc::ECONNABORTED, Next::Another),
            (libc::EINTR, Next::Another),
            (libc::EPROTO, Next::Another),
            (libc::EMFILE, Next::Pause),
            (libc::ENFILE, Next::Pause),
            (libc::ENOMEM, Next::Pause),
            (libc::ENOBUFS, Next::Pause),
        ] {
            assert_eq!(after(&io::Error::from_raw_os_error(errno)), next, "{errno}");
        }
    }
}
