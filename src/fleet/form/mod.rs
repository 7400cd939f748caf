//! Requests of the coordinator's contract: JSON in, typed forms out, or refusals in the words that its clients know.
//!
//! Every reader takes the `content-type` (empty is JSON) and the body. A body without the right form is refused with
//! all its faults, in the order of the fields ([`Reject::Unprocessable`]); a form that asks for the impossible, with
//! one sentence ([`Reject::Bad`]). Unknown members are ignored. What one refusal says is bounded, see [`Faults`].
//!
//! | Form | Request |
//! |---|---|
//! | [`register()`] | `POST /instances` |
//! | [`EventsReader`], [`events()`] | `POST /quota/events` |
//! | [`quota()`], [`config`], [`tier()`] | `/quota` |
//! | [`prefetch`], [`pins`], [`cache_delete`], [`pins_query`] | `/cache` |
//! | [`blend_register`], [`blend_remove`], [`blend_match`] | `/blend` |

mod blend;
mod body;
mod event;
mod events;
mod fault;
mod fields;
mod json;
mod lax;
mod listing;
mod prompt;
mod quick;
mod quota;
mod register;
mod sequence;
mod string;
mod text;
mod tier;
mod value;

pub use blend::{BlendMatch, BlendRange, blend_match, blend_register, blend_remove};
pub use event::{Event, Kind};
pub use events::{Events, EventsReader, Progress, events};
pub use fault::{Faults, Reject};
pub use listing::{PinsQuery, pins_query};
pub use quota::{QuotaSet, bytes_to_gib, config, gib_to_bytes, quota};
pub use register::{Register, register};
pub use sequence::{
    CacheDelete, Prefetch, Sequence, cache_delete, pins, pins_exact, prefetch, prefetch_exact,
};
pub use text::{path_param, python_repr, salt_of_segment, write_float};
pub use tier::{Tier, tier};
