//! Histograms of times: three significant digits from a nanosecond on.
//!
//! A file of one is a percentile distribution (`.hgrm`), as every HdrHistogram writes it and its plotter reads it.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::limits::BENCH_TIME_SECONDS;

/// Significant decimal digits of every figure.
const DIGITS: u8 = 3;
/// Lines of a file for each halving of the distance to 100 %.
const TICKS: u32 = 5;
/// Nanoseconds of a millisecond, the unit of a file.
const MILLISECOND: f64 = 1e6;

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

/// What a histogram says in short, microseconds; all 0 for an empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Times recorded.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half are no longer.
    pub p50_us: f64,
    /// 90 % are no longer.
    pub p90_us: f64,
    /// 99 % are no longer.
    pub p99_us: f64,
    /// 99.9 % are no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// An empty one.
    pub fn new() -> Self {
        let most = Duration::from_secs(BENCH_TIME_SECONDS).as_nanos() as u64;
        // the bounds are constants that a histogram can have
        Self(Histogram::new_with_bounds(1, most, DIGITS).expect("constant bounds"))
    }

    /// Counts a time; one beyond the longest counts as the longest.
    pub fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the times of another one.
    pub fn add(&mut self, other: &Self) {
        // both have the same bounds
        let _ = self.0.add(&other.0);
    }

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share (0 to 1) is not longer than; zero for an empty histogram.
    pub fn at(&self, share: f64) -> Duration {
        if self.0.is_empty() { Duration::ZERO } else { Duration::from_nanos(self.0.value_at_quantile(share)) }
    }

    /// The longest time.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The usual percentiles.
    pub fn percentiles(&self) -> Percentiles {
        let at = |share| micros(self.at(share));
        Percentiles {
            count: self.count(),
            mean_us: self.0.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(self.max()),
        }
    }

    /// Writes the percentile distribution, in milliseconds.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:>12} {:>14} {:>10} {:>14}\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        )?;
        let mut total = 0;
        for step in self.0.iter_quantiles(TICKS) {
            total += step.count_since_last_iteration();
            let (value, quantile) =
                (step.value_iterated_to() as f64 / MILLISECOND, step.quantile_iterated_to());
            write!(out, "{value:>12.6} {quantile:>14.12} {total:>10}")?;
            if quantile < 1.0 { writeln!(out, " {:>14.2}", 1.0 / (1.0 - quantile))? } else { writeln!(out)? }
        }
        let (mean, deviation) = (self.0.mean() / MILLISECOND, self.0.stdev() / MILLISECOND);
        writeln!(out, "#[Mean    = {mean:>12.6}, StdDeviation   = {deviation:>12.6}]")?;
        let (max, count) = (self.0.max() as f64 / MILLISECOND, self.count());
        writeln!(out, "#[Max     = {max:>12.6}, Total count    = {count:>12}]")?;
        // what the other figures of the family stand on: powers of two of values, values told apart in each
        let (buckets, within) = (self.0.buckets(), 2 * 10_u64.pow(DIGITS.into()));
        writeln!(out, "#[Buckets = {buckets:>12}, SubBuckets     = {:>12}]", within.next_power_of_two())
    }
}

/// A time in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
