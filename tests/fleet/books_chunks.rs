//! Set-up: chunks that several ranks have stored, with victims at the boundary of a sweep.
//! Claim: with whole chunks a victim takes the other ranks of its chunk along, beyond the target, and nothing else;
//! without, the sweep may split a chunk.

use crate::books::{RULES, answer, at, ranked, victims};
use kvatlas::fleet::books::{Books, Outcome, Rules};
use kvatlas::fleet::key::Key;

const WHOLE: Rules = Rules { whole_chunks: true, ..RULES };

fn books(keys: &[Key<'_>]) -> Books {
    let mut books = Books::default();
    for key in keys {
        books.store(key, 100);
    }
    books.set_quota("a", 1);
    books
}

fn sweep(books: &mut Books, rules: Rules) -> Vec<Key<'static>> {
    let plan = books.plan(at(0), rules);
    let victims = victims(books, &plan);
    answer(books, &plan, Outcome::Failed, 0);
    victims
}

#[test]
fn a_target_may_split_a_chunk_unless_told_otherwise() {
    let keys: Vec<_> =
        (0..5).flat_map(|chunk| [ranked("a", chunk, 2, 0), ranked("a", chunk, 2, 1)]).collect();
    let rules = Rules { ratio: 0.3, ..RULES };
    assert_eq!(sweep(&mut books(&keys), rules), keys[..3]);
    let whole = Rules { ratio: 0.3, ..WHOLE };
    assert_eq!(sweep(&mut books(&keys), whole), keys[..6], "three victims and their other ranks");
    assert_eq!(sweep(&mut books(&keys), Rules { dry_run: true, ..whole }), keys[..6]);
}

#[test]
fn ranks_come_along_wherever_they_stand() {
    let mut keys: Vec<_> = (0..8).map(|rank| ranked("a", 1, 8, rank)).collect();
    let others: Vec<_> = (2..20).map(|chunk| ranked("a", chunk, 8, 0)).collect();
    keys.splice(1..1, others);
    let mut expected = vec![keys[0].clone()];
    expected.extend((1..8).map(|rank| ranked("a", 1, 8, rank)));
    assert_eq!(sweep(&mut books(&keys), Rules { ratio: 0.01, ..WHOLE }), expected);
}

#[test]
fn pinned_and_flying_ranks_stay() {
    let keys: Vec<_> = (0..4).map(|rank| ranked("a", 1, 4, rank)).collect();
    let mut books = books(&keys);
    books.pin(&keys[2]);
    let first = books.plan(at(0), Rules { ratio: 0.01, ..RULES });
    assert_eq!(victims(&books, &first), keys[..1]);
    let second = books.plan(at(0), Rules { ratio: 0.5, ..WHOLE });
    assert_eq!(victims(&books, &second), [keys[1].clone(), keys[3].clone()]);
}

#[test]
fn another_hash_model_group_salt_or_world_is_another_chunk() {
    let first = ranked("a", 1, 2, 0);
    let other = ranked("a", 1, 2, 1);
    let keys = [
        first.clone(),
        ranked("a", 2, 2, 1),
        Key { model: "other".into(), ..other.clone() },
        Key { group: 1, ..other.clone() },
        Key { salt: "b".into(), ..other.clone() },
        ranked("a", 1, 4, 1),
        ranked("a", 1, 1, 0),
    ];
    assert_eq!(sweep(&mut books(&keys), Rules { ratio: 0.01, ..WHOLE }), [first]);
}

#[test]
fn ranks_that_are_no_packed_ones_have_no_others() {
    for rank in [0, -1, 5, i128::from(u64::MAX), i128::from(i64::MIN), 2 << 24, (1 << 41) | 1] {
        let key = Key { kv_rank: rank, ..ranked("a", 1, 1, 0) };
        assert_eq!(sweep(&mut books(std::slice::from_ref(&key)), WHOLE), [key]);
    }
}

#[test]
fn large_worlds_are_whole_too() {
    for world in [200, 256, 1024, 65_535_i128] {
        // the parts of a packed rank overlap in worlds beyond 256, but not those of rank 0
        let mut keys = [0, 1, world / 2, world - 1].map(|rank| ranked("a", 1, world, rank));
        let mut taken = sweep(&mut books(&keys), Rules { ratio: 0.01, ..WHOLE });
        keys.sort_by_key(|key| key.kv_rank);
        taken.sort_by_key(|key| key.kv_rank);
        assert_eq!(taken, keys, "{world}");
    }
}
