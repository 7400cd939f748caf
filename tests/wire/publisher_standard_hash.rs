//! Set-up: the golden vectors of the contract's hash.
//! Claim: sequence hashes are theirs; a partial last block has no hash.

use kvatlas::index::hash::sequence_hashes;

fn tokens(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

#[test]
fn golden_vectors() {
    assert_eq!(
        sequence_hashes(&tokens(1..9), 4, 1337),
        [14_643_705_804_678_351_452, 4_945_711_292_740_353_085]
    );
    assert_eq!(
        sequence_hashes(&tokens(0..32), 16, 1337),
        [15_310_707_395_893_867_146, 13_769_157_705_258_532_664]
    );
    assert_eq!(
        sequence_hashes(&tokens(0..192), 64, 1337),
        [3_480_597_578_098_033_343, 2_575_318_956_255_022_795, 15_087_857_196_529_367_026]
    );
    assert_eq!(
        sequence_hashes(&[u32::MAX; 8], 4, 1337),
        [12_410_542_959_481_710_713, 12_910_963_785_220_126_862]
    );
    assert_eq!(sequence_hashes(&tokens(1..9), 4, 0), [8_052_976_908_588_476_977, 4_185_132_130_981_121_146]);
}

#[test]
fn a_partial_block_has_no_hash() {
    assert_eq!(sequence_hashes(&tokens(1..12), 4, 1337), sequence_hashes(&tokens(1..9), 4, 1337));
    assert!(sequence_hashes(&[1], 4, 1337).is_empty());
}
