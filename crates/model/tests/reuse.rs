//! Hits of caches of every size, exactly and from a part of the pages.

use fsage_model::fsm::{Random, Reuse};

const PAGE_BYTES: u64 = 4096;

/// Half of the accesses go to a tenth of the pages.
fn accesses(reuse: &mut Reuse, pages: u64) {
    let mut random = Random::new(7);
    for _ in 0..20 * pages {
        let among = if random.below(2) == 0 {
            pages / 10
        } else {
            pages
        };
        reuse.take(3, random.below(among) * PAGE_BYTES, 100);
    }
}

#[test]
fn a_loop_hits_where_it_has_room_and_nowhere_else() {
    let mut reuse = Reuse::default();
    for _ in 0..4 {
        reuse.take(1, 0, 10 * PAGE_BYTES);
    }
    assert_eq!((reuse.accesses(), reuse.footprint()), (40, 10));
    assert_eq!((reuse.hits(9), reuse.hits(10)), (0.0, 0.75));
    assert_eq!(reuse.next_window(), 10);
    reuse.take(1, PAGE_BYTES - 1, 2);
    assert_eq!((reuse.next_window(), reuse.next_window()), (2, 0));
    reuse.take(1, 0, 0);
    reuse.take(1, u64::MAX, u64::MAX);
    assert_eq!(reuse.accesses(), 43);
}

#[test]
fn a_part_of_the_pages_tells_the_whole_within_its_bound() {
    let (mut all, mut some) = (Reuse::default(), Reuse::of_at_most(2000));
    accesses(&mut all, 20_000);
    accesses(&mut some, 20_000);
    assert_eq!((all.followed(), some.followed()), (1.0, 0.0625));
    assert_eq!(all.accesses(), some.accesses());
    let near = |a: f64, b: f64, of: f64| (a - b).abs() <= of;
    let (footprint, sampled) = (all.footprint() as f64, some.footprint() as f64);
    assert!(
        near(sampled, footprint, 0.06 * footprint),
        "{sampled} {footprint}"
    );
    // No more pages are followed than were asked for: each stands for sixteen.
    assert!(some.footprint() <= 16 * 2000);
    for pages in [1000, 2000, 5000, 10_000, 20_000, 40_000] {
        let (whole, part) = (all.hits(pages), some.hits(pages));
        assert!(near(whole, part, 0.03), "{pages}: {whole} {part}");
    }
}
