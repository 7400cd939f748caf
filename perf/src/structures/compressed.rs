//! The peer's `ConcurrentRadixTreeCompressed`, the one its service uses.
//!
//! It takes events from a channel only, on a thread of its own, and keeps half of its state there. So that the
//! clock sees its work and nothing else, the thread stands at a [`Gate`] while tasks are queued: a flush wakes its
//! waiter on the thread itself, and that waiter is the gate.

use super::peer::{Decoder, depths, looked_at};
use super::{Events, Form, Payload, Question, Structure, peer_hashes};
use crate::clock::{cpu_of, thread_cpu};
use crate::oracle::Depths;
use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::RouterEvent;
use std::future::Future;
use std::hint::black_box;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

#[derive(Default)]
struct Stand {
    /// The thread stands at the gate.
    waiting: bool,
    /// It may go on.
    open: bool,
    /// CPU time of the thread when it was let go.
    went: Duration,
    /// CPU time of the thread between the last two stops.
    taken: Duration,
}

/// Where the tree's thread waits between phases.
#[derive(Default)]
struct Gate {
    stand: Mutex<Stand>,
    changed: Condvar,
}

impl Gate {
    /// The tree's thread comes by, and waits until it is let go.
    fn stop(&self) {
        let mut stand = self.stand.lock().expect("nobody panics here");
        stand.taken = thread_cpu().saturating_sub(stand.went);
        stand.waiting = true;
        self.changed.notify_all();
        while !stand.open {
            stand = self.changed.wait(stand).expect("nobody panics here");
        }
        (stand.open, stand.waiting) = (false, false);
        stand.went = thread_cpu();
    }

    /// Waits until the thread has come by; the CPU time it took since it was let go.
    fn arrived(&self) -> Duration {
        let mut stand = self.stand.lock().expect("nobody panics here");
        while !stand.waiting {
            stand = self.changed.wait(stand).expect("nobody panics here");
        }
        stand.taken
    }

    /// Lets the thread go.
    fn open(&self) {
        self.stand.lock().expect("nobody panics here").open = true;
        self.changed.notify_all();
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.stop();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.stop();
    }
}

/// The tree and its thread.
pub struct Compressed {
    tree: Arc<ConcurrentRadixTreeCompressed>,
    tasks: flume::Sender<WorkerTask>,
    gate: Arc<Gate>,
    flushed: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
    decoder: Decoder,
}

impl Compressed {
    /// An empty tree whose thread waits.
    pub fn new() -> Self {
        let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
        let (tasks, queue) = flume::unbounded();
        let worker = tree.clone();
        let thread = std::thread::spawn(move || worker.worker(queue, None).expect("the thread of the tree"));
        let gate = Arc::default();
        let mut built =
            Self { tree, tasks, gate, flushed: None, thread: Some(thread), decoder: Decoder::new() };
        built.stop_behind();
        built.gate.arrived();
        built
    }

    fn queue(&self, task: WorkerTask) {
        self.tasks.send(task).expect("the thread lives as long as this");
    }

    /// Queues a stop behind all tasks.
    fn stop_behind(&mut self) {
        let (reply, mut flushed) = oneshot::channel();
        let waker = Waker::from(self.gate.clone());
        let pending = Pin::new(&mut flushed).poll(&mut Context::from_waker(&waker)).is_pending();
        assert!(pending, "nobody has answered yet");
        self.queue(WorkerTask::Flush(reply));
        self.flushed = Some(flushed);
    }

    /// Runs what is queued; CPU time of the thread.
    fn run(&mut self) -> Duration {
        // the reply that was waited for last must stay until its sender has left the gate
        let last = self.flushed.take();
        self.stop_behind();
        self.gate.open();
        // the thread may still stand where it stood, so wait for it to leave first
        while self.gate.stand.lock().expect("nobody panics here").open {
            std::thread::yield_now();
        }
        let taken = self.gate.arrived();
        drop(last);
        taken
    }

    fn run_events(&mut self, events: impl Iterator<Item = RouterEvent>) -> Duration {
        events.for_each(|event| self.queue(WorkerTask::Event(event)));
        self.run()
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        self.queue(WorkerTask::Terminate);
        self.gate.open();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread of the tree ends");
        }
    }
}

impl Structure for Compressed {
    fn apply(&mut self, events: &Events, which: Range<usize>) -> Duration {
        self.run_events(events.peer[which].iter().cloned())
    }

    fn hear(&mut self, payloads: &[Payload]) -> Duration {
        // its service decodes on one thread and applies on another; both count
        let mut decoded = Vec::new();
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new());
        let decoding = cpu_of(|| {
            for payload in payloads {
                decoder.decode(payload, |event| decoded.push(event));
            }
        });
        self.decoder = decoder;
        decoding + self.run_events(decoded.into_iter())
    }

    fn ask(&mut self, question: &Question) -> Depths {
        depths(&self.tree.find_matches(&question.local, false))
    }

    fn time(&mut self, questions: &[Question], form: Form, times: usize) -> Duration {
        cpu_of(|| {
            for question in (0..times).flat_map(|_| questions) {
                let scores = match form {
                    Form::Hashes => self.tree.find_matches(black_box(&question.local), false),
                    Form::Tokens => self.tree.find_matches(&peer_hashes(black_box(&question.tokens)), false),
                };
                black_box(looked_at(&scores));
            }
        })
    }

    fn settle(&mut self) {
        self.queue(WorkerTask::CleanupStaleChildren);
        self.run();
    }
}
