//! Compares the upper halves of eight words at once.
#![allow(unsafe_code)] // vector instructions, for which the compiler finds none itself

/// Words compared.
pub(super) const WORDS: usize = 8;

/// Which words have these bits in their upper halves, as far as `mask` goes; a bit each.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn equal(words: &[u64; WORDS], mask: u32, bits: u32) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_shuffle_ps,
    };
    let [one, two, three, four]: [__m128i; WORDS / 2] = bytemuck::cast(*words);
    // SAFETY: every x86-64 has SSE2, and none of these instructions touches memory.
    unsafe {
        let (mask, bits) = (_mm_set1_epi32(mask.cast_signed()), _mm_set1_epi32(bits.cast_signed()));
        let (one, two) = (_mm_castsi128_ps(one), _mm_castsi128_ps(two));
        let (three, four) = (_mm_castsi128_ps(three), _mm_castsi128_ps(four));
        let first = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(one, two));
        let last = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(three, four));
        let first = _mm_cmpeq_epi32(_mm_and_si128(first, mask), bits);
        let last = _mm_cmpeq_epi32(_mm_and_si128(last, mask), bits);
        let all = _mm_packs_epi32(first, last);
        _mm_movemask_epi8(_mm_packs_epi16(all, all)).cast_unsigned() & 0xFF
    }
}

/// The same where there are no such instructions.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn equal(words: &[u64; WORDS], mask: u32, bits: u32) -> u32 {
    one_by_one(words, mask, bits)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn one_by_one(words: &[u64; WORDS], mask: u32, bits: u32) -> u32 {
    let equal = |(at, word): (usize, &u64)| u32::from((word >> 32) as u32 & mask == bits) << at;
    words.iter().enumerate().map(equal).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn halves_compared_at_once_are_halves_compared_one_by_one(
            words in prop::array::uniform8(prop_oneof![
                any::<u64>(),
                Just(u64::MAX),
                (0..4_u64).prop_map(|upper| upper << 32),
                (0..4_u64).prop_map(|upper| upper << 40 | 7 << 32),
            ]),
            mask in prop::sample::select(vec![u32::MAX, u32::MAX << 8]),
            bits in prop_oneof![any::<u32>(), 0..4_u32, (0..4_u32).prop_map(|bits| bits << 8), Just(u32::MAX)],
        ) {
            prop_assert_eq!(equal(&words, mask, bits & mask), one_by_one(&words, mask, bits & mask));
        }
    }
}
