//! Flags of `publish` that make it misbehave, so that a fault can be rehearsed before it happens.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::exit::{self, Failure};
use crate::limits::{PUBLISHER_FAULTS, PUBLISHER_PAUSE_MS};
use crate::wire::publisher::{PublishError, Publisher};
use crate::wire::replay::Manner;

/// So many requests that there are no more.
const ALL: &str = "18446744073709551615";

/// What goes wrong, and when. Batches are counted from 0 through all lives of the publisher.
#[derive(Debug, Args)]
#[command(next_help_heading = "Faults on purpose (batches count from 0, as an engine numbers them)")]
pub struct FaultArgs {
    /// Do not send these batches, but replay them: a subscriber sees a gap that a replay fills
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    lose: Vec<u64>,
    /// Use up the numbers of these batches for nothing: a gap that nothing fills
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    hole: Vec<u64>,
    /// Send these batches twice, under the same number
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    repeat: Vec<u64>,
    /// Restart after N batches: numbers from the beginning, an empty replay buffer, other prompts, the same
    /// addresses; --wait-subscriber waits again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    restart_after: Option<u64>,
    /// Pause between the replies to a replay request, milliseconds
    #[arg(long, value_name = "MS", requires = "replay", value_parser = clap::value_parser!(u64).range(1..=PUBLISHER_PAUSE_MS))]
    slow_replay: Option<u64>,
    /// Do not answer the first N replay requests; without N, none
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = ALL, requires = "replay")]
    #[arg(conflicts_with_all = ["slow_replay", "no_replay_end"])]
    mute_replay: Option<u64>,
    /// Never send the message that ends a replay
    #[arg(long, requires = "replay")]
    no_replay_end: bool,
}

/// What went wrong so far, by the number of the batch.
#[derive(Debug, Default)]
pub struct Done {
    lost: Vec<u64>,
    holes: Vec<u64>,
    repeated: Vec<u64>,
    restarted_after: Option<u64>,
}

impl FaultArgs {
    /// Refuses flags that contradict each other.
    pub fn check(&self) -> Result<(), Failure> {
        let lists = [("--lose", &self.lose), ("--hole", &self.hole), ("--repeat", &self.repeat)];
        if let Some((name, _)) = lists.iter().find(|(_, list)| list.len() > PUBLISHER_FAULTS) {
            let reason = format!("{name}: more than {PUBLISHER_FAULTS} batches");
            return Err(Failure::new(exit::USAGE, reason));
        }
        for (at, (one, list)) in lists.iter().enumerate() {
            for (other, rest) in &lists[at + 1..] {
                if let Some(batch) = list.iter().find(|batch| rest.contains(batch)) {
                    let reason = format!("{one} and {other}: batch {batch} cannot be both");
                    return Err(Failure::new(exit::USAGE, reason));
                }
            }
        }
        Ok(())
    }

    /// How replay requests are answered.
    pub fn manner(&self) -> Manner {
        Manner {
            pause: Duration::from_millis(self.slow_replay.unwrap_or(0)),
            mute: self.mute_replay.unwrap_or(0),
            endless: self.no_replay_end,
        }
    }

    /// Whether the publisher is to restart now that so many batches are out; only once.
    pub fn restarts(&self, batches: u64, done: &Done) -> bool {
        done.restarted_after.is_none() && self.restart_after.is_some_and(|after| batches >= after)
    }

    /// What the last line of output says of it.
    pub fn report(&self, done: &Done) -> Value {
        let Done { lost, holes, repeated, restarted_after } = done;
        let mute: Value = match self.mute_replay {
            None => false.into(),
            Some(u64::MAX) => true.into(),
            Some(first) => first.into(),
        };
        json!({"lost": lost, "holes": holes, "repeated": repeated, "restarted_after": restarted_after,
            "slow_replay_ms": self.slow_replay, "mute_replay": mute,
            "no_replay_end": self.no_replay_end})
    }
}

impl Done {
    /// Publishes the batch `number` as well or badly as the flags say.
    pub fn publish(
        &mut self,
        args: &FaultArgs,
        publisher: &Publisher,
        number: u64,
        payload: Vec<u8>,
    ) -> Result<(), PublishError> {
        if args.hole.contains(&number) {
            self.holes.push(number);
            publisher.hole(1).map(drop)
        } else if args.lose.contains(&number) {
            self.lost.push(number);
            publisher.lose(payload).map(drop)
        } else if args.repeat.contains(&number) {
            self.repeated.push(number);
            let seq = publisher.send(payload)?;
            publisher.repeat(seq).map(drop)
        } else {
            publisher.post(payload)
        }
    }

    /// Notes that the publisher restarted.
    pub fn restarted(&mut self, batches: u64) {
        self.restarted_after = Some(batches);
    }
}
