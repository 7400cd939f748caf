//! What the coordinator does of itself: looking for silent instances, evicting, learning what storage holds.

mod eviction;
mod health;
mod resync;

pub(super) use self::eviction::eviction;
pub(super) use self::health::health;
pub(super) use self::resync::resync;
