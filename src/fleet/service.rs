//! The coordinator as its reactor calls it.

use std::rc::Rc;

use super::api::reply::Reply;
use super::coordinator::{Coordinator, Never};
use super::{api, loops};
use crate::http::Request;
use crate::reactor::Service;

impl Service for Coordinator {
    type Message = Never;

    async fn answer(self: Rc<Self>, request: &Request<'_>, out: &mut Vec<u8>) {
        api::answer(&self, request, out).await;
    }

    fn refuse(status: u16, message: &str, out: &mut Vec<u8>) {
        Reply::last(out).detail(status, message);
    }

    fn message(self: &Rc<Self>, _from: usize, message: Never) {
        match message {}
    }

    fn started(self: &Rc<Self>) {
        let background = &self.seat.ingest;
        background.spawn(self.clone().carry_mail());
        background.spawn(self.clone().note_stop());
        background.spawn(loops::health(self.clone()));
        background.spawn(loops::eviction(self.clone()));
        background.spawn(loops::resync(self.clone()));
    }

    fn owes(&self) -> bool {
        self.is_saving()
    }

    async fn stop(self: Rc<Self>) {
        self.finish().await;
    }
}
