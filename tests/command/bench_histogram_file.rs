//! Set-up: random times in a histogram, and the file of them read back.
//! Claim: percentiles are those of the sorted list to three digits; the file is a percentile distribution: header,
//! rising values and shares that end at 1, counts that end at the total, and the three lines of figures behind it.

use std::time::Duration;

use kvatlas::bench::times::Times;
use kvatlas::limits::BENCH_TIME_SECONDS;
use proptest::prelude::*;

fn near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= wanted * 1e-3 + 1e-6
}

fn recorded(nanos: &[u64]) -> Times {
    let mut times = Times::new();
    for nanos in nanos {
        times.record(Duration::from_nanos(*nanos));
    }
    times
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_list(mut nanos in prop::collection::vec(1..10_000_000_000_u64, 1..400)) {
        let times = recorded(&nanos);
        nanos.sort_unstable();
        let at = |share: f64| {
            let place = (share * nanos.len() as f64).ceil() as usize;
            nanos[place.clamp(1, nanos.len()) - 1] as f64 / 1e3
        };
        let found = times.percentiles();
        prop_assert_eq!(found.count, nanos.len() as u64);
        for (found, share) in [(found.p50_us, 0.5), (found.p90_us, 0.9), (found.p99_us, 0.99), (found.p999_us, 0.999)] {
            prop_assert!(near(found, at(share)), "{} {}", found, at(share));
        }
        prop_assert!(near(found.max_us, at(1.0)));
    }

    #[test]
    fn the_file_is_a_percentile_distribution(nanos in prop::collection::vec(1..10_000_000_000_u64, 0..400)) {
        let times = recorded(&nanos);
        let mut file = Vec::new();
        times.write(&mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        let mut lines = text.lines();
        let header: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        prop_assert_eq!(header, ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
        prop_assert_eq!(lines.next(), Some(""));
        let (mut value, mut share, mut total) = (0.0, 0.0, 0);
        let mut figures = Vec::new();
        for line in lines {
            if line.starts_with('#') {
                figures.push(line);
                continue;
            }
            let words: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
            prop_assert!(words[0] >= value && words[1] >= share && words[2] as usize >= total);
            prop_assert_eq!(words.len(), if words[1] < 1.0 { 4 } else { 3 });
            (value, share, total) = (words[0], words[1], words[2] as usize);
            // so many are really no longer
            let naive = nanos.iter().filter(|nanos| **nanos as f64 / 1e6 <= value * 1.001).count();
            prop_assert!(naive >= total);
        }
        prop_assert_eq!(total, nanos.len());
        if !nanos.is_empty() {
            prop_assert!(share >= 1.0);
            prop_assert!(near(value, *nanos.iter().max().unwrap() as f64 / 1e6));
        }
        prop_assert_eq!(figures.len(), 3);
        prop_assert!(figures[0].starts_with("#[Mean") && figures[0].contains("StdDeviation"));
        let count = format!("Total count    = {:>12}]", nanos.len());
        prop_assert!(figures[1].starts_with("#[Max") && figures[1].ends_with(&count));
        prop_assert!(figures[2].starts_with("#[Buckets") && figures[2].contains("SubBuckets"));
    }
}

#[test]
fn what_is_too_long_counts_as_the_longest_and_sums_add_up() {
    let (mut one, mut other) = (Times::new(), Times::new());
    one.record(Duration::from_secs(BENCH_TIME_SECONDS * 9));
    other.record(Duration::ZERO);
    one.add(&other);
    assert_eq!(one.count(), 2);
    assert!(near(one.max().as_secs_f64(), BENCH_TIME_SECONDS as f64));
    assert_eq!(Times::new().percentiles(), kvatlas::bench::times::Percentiles::default());
}
