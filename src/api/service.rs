//! The contract as the reactors call it.

use crate::daemon::Daemon;
use crate::daemon::message::Message;
use crate::http::Request;
use crate::reactor::Service;
use std::rc::Rc;

impl Service for Daemon {
    type Message = Message;

    async fn answer(self: Rc<Self>, request: &Request<'_>, out: &mut Vec<u8>) {
        super::answer(&self, request, out).await;
    }

    fn message(self: &Rc<Self>, from: usize, message: Message) {
        self.handle(from, message);
    }

    fn started(self: &Rc<Self>) {
        let daemon = self.clone();
        self.seat.ingest.spawn(daemon.take_stock());
    }

    async fn stop(self: Rc<Self>) {
        self.streams.close_all().await;
    }
}
