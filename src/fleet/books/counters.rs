//! What the books have seen, for `/metrics`.

/// Totals since start, and three levels.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// `store` events.
    pub stores: u64,
    /// `lookup` events.
    pub lookups: u64,
    /// `delete` events.
    pub deletes: u64,
    /// Keys not taken in because the books are full.
    pub refused: u64,
    /// Event batches that never came, by the sequence numbers of those that did.
    pub missing: u64,
    /// Event batches whose sequence number was not above the last one.
    pub repeats: u64,
    /// Keys that plans chose; dry runs do not count.
    pub planned: u64,
    /// Keys written into DELETEs.
    pub sent: u64,
    /// Keys in DELETEs that were answered well.
    pub answered: u64,
    /// Keys in DELETEs that failed.
    pub failed: u64,
    /// `delete` events of keys that had been sent.
    pub confirmed: u64,
    /// Times that a key began to back off, or went on to.
    pub back_offs: u64,
    /// Keys taken from listings.
    pub listed: u64,
    /// Listed keys left as they are since an event has told more recent news of them.
    pub overruled: u64,
    /// Listed keys not added since too many deletions came to remember them all.
    pub doubtful: u64,
    /// Level: keys in the ledger.
    pub keys: usize,
    /// Level: keys with pins.
    pub pinned: usize,
    /// Level: keys whose DELETE is unanswered.
    pub in_flight: usize,
    /// Level: keys that back off.
    pub backed_off: usize,
}
