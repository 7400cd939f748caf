//! What `kvatlas bench` decides, as plain functions: no socket, no clock, no file.
//!
//! | File | What stands there |
//! |---|---|
//! | [`schedule`] | when each batch is due, and how late it was |
//! | [`log`] | batches sent and not applied yet |
//! | [`times`] | histograms of times, their percentiles, the file of them |
//! | [`lag`] | how long batches took to be applied, and whether that grew |
//! | [`gate`] | whether a run is worth its figures |
//! | [`load`] | batches of one publisher under a made-up load |
//! | [`prompts`] | prompts that are known to be held, and who holds how much |
//! | [`ask`] | questions and answers of `/query` as bytes |
//! | [`trace`] | requests of a trace file |
//! | [`worker`] | the cache of a simulated worker, and what it may hold by now |
//! | [`seen`] | what `/services` and `/metrics` say |
//! | [`report`] | the outcome, for people and for programs |

pub mod ask;
pub mod gate;
pub mod lag;
pub mod load;
pub mod log;
pub mod prompts;
pub mod report;
pub mod schedule;
pub mod seen;
pub mod times;
pub mod trace;
pub mod worker;

/// SplitMix64's finaliser: neighbours become strangers.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Token ids of the benches are below this.
pub(crate) const VOCABULARY: u64 = 128_000;
