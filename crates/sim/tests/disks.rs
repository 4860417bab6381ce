//! Disks against what their figures say in closed form, against the studies, and against themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fsage_sim::{
    BUILT_IN, Completion, Disk, DiskModel, DiskOptions, Policy, Request, RequestKind, SECTOR_BYTES,
    Span, built_in,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const GIB: u64 = 1 << 30;

fn options(size_bytes: u64, policy: Policy) -> DiskOptions {
    DiskOptions {
        size_bytes,
        policy,
        span: Span::Scaled,
    }
}

fn request(id: u64, kind: RequestKind, offset: u64, length: u64) -> Request {
    Request {
        id,
        kind,
        offset,
        length,
    }
}

/// Runs one request to its end; returns when that is.
fn one(disk: &mut Disk, request: &Request, now: u64) -> u64 {
    let mut done = Vec::new();
    disk.submit(request, now).unwrap();
    while done.is_empty() {
        disk.advance(disk.next_event().unwrap().at_ns, &mut done);
    }
    assert_eq!((done.len(), done[0].id), (1, request.id));
    done[0].at_ns
}

/// Mean time of random reads of 4 KiB, one at a time, milliseconds.
fn random_read_ms(model: &DiskModel) -> f64 {
    let mut disk = Disk::new(model, &options(2 * GIB, Policy::Fcfs)).unwrap();
    let mut random = Pcg64::seed_from_u64(7);
    let (mut now, count) = (0, 4000);
    for id in 0..count {
        let offset = random.random_range(0..2 * GIB / 4096) * 4096;
        // The host takes a little while between requests.
        now = one(
            &mut disk,
            &request(id, RequestKind::Read, offset, 4096),
            now + 37_000,
        );
    }
    (now as f64 / count as f64 - 37_000.0) / 1e6
}

/// Rate of reading in sequence from `offset` on, units of 10^6 bytes a second.
fn sequential_mb_s(model: &DiskModel, offset: u64, span: Span) -> f64 {
    let size_bytes = 2 * GIB;
    let policy = Policy::Elevator;
    let options = DiskOptions {
        size_bytes,
        policy,
        span,
    };
    let mut disk = Disk::new(model, &options).unwrap();
    let (piece, count) = (128 << 10, 256);
    let mut now = one(&mut disk, &request(0, RequestKind::Read, offset, piece), 0);
    let start = now;
    for id in 1..=count {
        let at = offset + id * piece;
        now = one(
            &mut disk,
            &request(id, RequestKind::Read, at, piece),
            now + 20_000,
        );
    }
    (count * piece) as f64 / (now - start) as f64 * 1e3
}

#[test]
fn every_model_reads_at_the_rates_of_its_figures() {
    for (name, _) in BUILT_IN {
        let model = built_in(name).unwrap();
        let expected = model.expectation().unwrap();
        let random = random_read_ms(&model);
        let error = random / expected.random_read_ms - 1.0;
        assert!(
            error.abs() < 0.04,
            "{name}: {random} ms, expected {expected:?}"
        );
        if model.hdd.is_none() {
            continue;
        }
        for (offset, rate) in [
            (0, expected.start_mb_s),
            (2 * GIB - (40 << 20), expected.end_mb_s),
        ] {
            let found = sequential_mb_s(&model, offset, Span::Scaled);
            // A bus that is as fast as the medium adds each request's overhead.
            let least = if rate < 15.0 || name == "st39102lw" {
                0.6
            } else {
                0.95
            };
            assert!(
                found < rate * 1.03 && found > rate * least,
                "{name} at {offset}: {found} MB/s, expected {rate}"
            );
        }
    }
}

/// Ellard and Seltzer 2003, 5.1: the inner tracks give half to two thirds of the outer ones' rate, and a
/// partition at the start of a large disk hides that.
#[test]
fn the_zones_of_a_disk_show() {
    let model = built_in("hdd-7200").unwrap();
    let at = |quarter: u64| sequential_mb_s(&model, quarter * GIB / 2, Span::Scaled);
    let rates: Vec<f64> = (0..4).map(at).collect();
    assert!(rates.windows(2).all(|w| w[0] > w[1] * 1.05), "{rates:?}");
    let inner = sequential_mb_s(&model, 2 * GIB - (40 << 20), Span::Scaled);
    assert!(
        (0.45..0.7).contains(&(inner / rates[0])),
        "{rates:?} {inner}"
    );
    let partition = sequential_mb_s(&model, 2 * GIB - (40 << 20), Span::Start);
    assert!(
        (partition / rates[0] - 1.0).abs() < 0.02,
        "{rates:?} {partition}"
    );
}

/// Eight readers of 8 MiB each, at once, each with two requests under way: when each is done, ns.
fn eight_readers(policy: Policy) -> Vec<u64> {
    const READERS: u64 = 8;
    const PIECES: u64 = 128;
    const PIECE: u64 = 64 << 10;
    let mut model = built_in("st34520n").unwrap();
    // The host's order decides: the disk has no queue of its own, and is faster than its bus.
    model.hdd.as_mut().unwrap().interface.rate_mb_s = 80.0;
    let mut disk = Disk::new(&model, &options(2 * GIB, policy)).unwrap();
    let (mut next, mut left) = ([0; READERS as usize], [PIECES; READERS as usize]);
    let mut ends = vec![0; READERS as usize];
    let submit = |disk: &mut Disk, reader: u64, next: &mut [u64], now| {
        let piece = next[reader as usize];
        if piece < PIECES {
            next[reader as usize] += 1;
            let offset = reader * (GIB / 8) + piece * PIECE;
            let id = reader * PIECES + piece;
            disk.submit(&request(id, RequestKind::Read, offset, PIECE), now)
                .unwrap();
        }
    };
    for reader in 0..READERS {
        submit(&mut disk, reader, &mut next, 0);
        submit(&mut disk, reader, &mut next, 0);
    }
    while let Some(event) = disk.next_event() {
        let mut done = Vec::new();
        disk.advance(event.at_ns, &mut done);
        for Completion { id, at_ns } in done {
            let reader = id / PIECES;
            left[reader as usize] -= 1;
            if left[reader as usize] == 0 {
                ends[reader as usize] = at_ns;
            }
            submit(&mut disk, reader, &mut next, at_ns);
        }
    }
    ends.sort_unstable();
    ends
}

/// Ellard and Seltzer 2003, 5.3 and Figure 3: with the elevator the last of eight readers takes 6 to 7
/// times as long as the first; with N-step C-SCAN less than 20 % longer, but all are much slower.
#[test]
fn n_cscan_is_fairer_and_slower_than_the_elevator() {
    let elevator = eight_readers(Policy::Elevator);
    let cscan = eight_readers(Policy::NCscan);
    let spread = |ends: &[u64]| ends[7] as f64 / ends[0] as f64;
    assert!(spread(&elevator) > 4.0, "{elevator:?}");
    assert!(spread(&cscan) < 1.2, "{cscan:?}");
    assert!(
        cscan[7] as f64 > 1.5 * elevator[7] as f64,
        "{elevator:?} {cscan:?}"
    );
}

#[test]
fn a_flush_waits_for_the_write_cache() {
    let model = built_in("hdd-7200").unwrap();
    let mut disk = Disk::new(&model, &options(GIB, Policy::Elevator)).unwrap();
    let written = one(
        &mut disk,
        &request(0, RequestKind::Write, GIB / 2, 4096),
        1_000_000,
    );
    assert!(written - 1_000_000 < 200_000, "{written}");
    let flushed = one(&mut disk, &request(1, RequestKind::Flush, 0, 0), written);
    // At most a seek over the whole disk and a rotation.
    let took = flushed - written;
    assert!(
        (1_000_000..17_000_000 + 8_400_000).contains(&took),
        "{took}"
    );
    // With nothing to write a flush is no work.
    let again = one(&mut disk, &request(2, RequestKind::Flush, 0, 0), flushed);
    assert!(again - flushed < 200_000, "{again}");
    // What is in the cache is read from it.
    let now = one(
        &mut disk,
        &request(3, RequestKind::Write, GIB / 4, 8192),
        again,
    );
    let read = one(
        &mut disk,
        &request(4, RequestKind::Read, GIB / 4, 4096),
        now,
    );
    assert!(read - now < 200_000, "{read}");
}

/// Smith and Seltzer 1996, 5.1: the disk of the study loses a rotation between contiguous writes.
#[test]
fn contiguous_writes_through_lose_a_rotation_each() {
    let model = built_in("seagate-32430n").unwrap();
    let mut disk = Disk::new(&model, &options(GIB, Policy::Elevator)).unwrap();
    let rotation = 60_000_000_000 / 5411;
    let mut now = one(&mut disk, &request(0, RequestKind::Write, 0, 4096), 0);
    for id in 1..8 {
        let end = one(
            &mut disk,
            &request(id, RequestKind::Write, id * 4096, 4096),
            now + 30_000,
        );
        let took = end - now;
        let range = rotation * 9 / 10..rotation * 11 / 10;
        assert!(range.contains(&took), "{id}: {took}");
        now = end;
    }
}

#[test]
fn a_queue_makes_random_reads_faster() {
    let model = built_in("hdd-7200").unwrap();
    let time = |at_once: u64| {
        let mut disk = Disk::new(&model, &options(2 * GIB, Policy::Fcfs)).unwrap();
        let mut random = Pcg64::seed_from_u64(3);
        let (mut sent, mut ended, mut now) = (0, 0, 0);
        while ended < 640 {
            while sent - ended < at_once && sent < 640 {
                let offset = random.random_range(0..2 * GIB / 4096) * 4096;
                disk.submit(&request(sent, RequestKind::Read, offset, 4096), now)
                    .unwrap();
                sent += 1;
            }
            let mut done = Vec::new();
            now = disk.next_event().unwrap().at_ns;
            disk.advance(now, &mut done);
            ended += done.len() as u64;
        }
        now
    };
    assert!(time(32) * 2 < time(1), "{} {}", time(32), time(1));
}

/// What a reader of a model must be told: a source for each section.
#[test]
fn every_section_of_the_own_models_has_a_source() {
    for (name, text) in BUILT_IN {
        let model = built_in(name).unwrap();
        assert_eq!(model.name, name);
        for section in ["tracks", "seek", "cache", "interface", "rotation"] {
            let wanted = text.contains(&format!("[hdd.{section}]"));
            let prefix = format!("hdd.{section}");
            let has = model.sources.keys().any(|k| k.starts_with(&prefix));
            assert_eq!(wanted, has, "{name}: {section}");
        }
        let flash = model
            .sources
            .keys()
            .filter(|k| k.starts_with("ssd."))
            .count();
        assert_eq!(flash >= 6, model.ssd.is_some(), "{name}: {flash}");
        assert_eq!(DiskModel::parse(&model.to_toml(), name).unwrap(), model);
    }
}

#[test]
fn bad_models_are_refused_with_file_and_key() {
    let good = BUILT_IN[0].1;
    let ssd = BUILT_IN.iter().find(|(n, _)| *n == "nvme-ssd").unwrap().1;
    for (text, said) in [
        (
            good.replace("rpm = 7200", "rpm = -7200"),
            "hdd.rotation.rpm: -7200",
        ),
        (good.replace("rpm = 7200", "rpm = nan"), "hdd.rotation.rpm"),
        (
            good.replace("rpm = 7200", "rpm = 7200\nspeed = 1"),
            "unknown field `speed`",
        ),
        (good.replace("rpm = 7200", ""), "missing field `rpm`"),
        (
            good.replace("heads = 4", "heads = 0"),
            "hdd.tracks.heads: 0, expected 1 to 256",
        ),
        (
            good.replace("    3646,", "    0,"),
            "hdd.tracks.sectors_per_track[0]",
        ),
        (
            good.replace("average_ms = 8.5", "average_ms = 16.9"),
            "hdd.seek.average_ms: 16.9",
        ),
        (
            good.replace(
                "full_ms = 17.0",
                "full_ms = 17.0\ncurve = [[0.5, 3.0], [0.4, 4.0]]",
            ),
            "hdd.seek.curve[1]",
        ),
        (good.replace("\"nearest\"", "\"random\""), "queue_order"),
        (
            good.replace("\"hdd.seek\"", "\"hdd.sail\""),
            "sources.\"hdd.sail\"",
        ),
        (
            good.replace("name = \"hdd-7200\"", "name = \"a b\""),
            "name: `a b`",
        ),
        (ssd.replace("channels = 32", "channels = -1"), "channels"),
        (
            ssd.replace("read_mb_s = 3400", "read_mb_s = 0"),
            "ssd.read_mb_s: 0",
        ),
        (
            format!(
                "{good}\n{}",
                &ssd[ssd.find("[ssd]").unwrap()..ssd.find("[sources]").unwrap()]
            ),
            "exactly one",
        ),
        ("not a model".into(), "read disk model my.toml"),
    ] {
        let error = DiskModel::parse(&text, "my.toml").unwrap_err().to_string();
        assert!(
            error.contains("my.toml") && error.contains(said),
            "{said}: {error}"
        );
    }
    assert!(
        built_in("floppy")
            .unwrap_err()
            .to_string()
            .contains("hdd-7200")
    );
}

#[test]
fn requests_beyond_the_disk_are_refused() {
    let model = built_in("nvme-ssd").unwrap();
    let mut disk = Disk::new(&model, &options(1 << 20, Policy::Fcfs)).unwrap();
    for (offset, length) in [(1 << 20, 1), (0, (1 << 20) + 1), (u64::MAX, 2), (4096, 0)] {
        assert!(
            disk.submit(&request(1, RequestKind::Read, offset, length), 0)
                .is_err()
        );
    }
    assert!(disk.is_idle());
}

/// When the last of 300 mixed requests ends, and the sum of all ends, each in nanoseconds, by policy.
const TIMES: [(&str, [(u64, u64); 3]); 7] = [
    (
        "hdd-7200",
        [
            (902_607_844, 143_263_659_921),
            (842_388_885, 136_110_745_218),
            (917_388_882, 146_222_902_682),
        ],
    ),
    (
        "st34520n",
        [
            (5_956_143_721, 819_289_190_581),
            (3_844_462_710, 532_332_220_198),
            (4_139_374_328, 554_728_189_062),
        ],
    ),
    (
        "st39102lw",
        [
            (3_639_856_387, 503_201_289_039),
            (2_522_886_124, 356_724_034_115),
            (2_577_420_942, 356_456_103_409),
        ],
    ),
    (
        "seagate-32430n",
        [
            (9_120_651_849, 1_250_583_965_597),
            (7_802_188_269, 1_112_746_792_784),
            (7_757_848_991, 1_003_225_623_613),
        ],
    ),
    (
        "fujitsu-m2694es",
        [
            (9_749_124_151, 1_331_716_541_015),
            (9_310_346_473, 1_319_819_975_092),
            (9_220_312_373, 1_172_320_483_681),
        ],
    ),
    (
        "sata-ssd",
        [
            (432_800_197, 63_916_357_389),
            (432_800_197, 63_916_357_389),
            (432_800_197, 63_916_357_389),
        ],
    ),
    (
        "nvme-ssd",
        [
            (432_559_053, 63_871_298_277),
            (432_559_053, 63_871_298_277),
            (432_559_053, 63_871_298_277),
        ],
    ),
];

/// A disk is computed, and its clock is exact: it changes only with a reason.
#[test]
fn the_times_of_every_model_are_what_they_were() {
    let mut random = Pcg64::seed_from_u64(11);
    let steps: Vec<SimulatedRequest> = (0..300)
        .map(|id| SimulatedRequest {
            gap_ns: random.random_range(0..3_000_000),
            kind: match id % 10 {
                0 => RequestKind::Flush,
                1..5 => RequestKind::Write,
                _ => RequestKind::Read,
            },
            sector: random.random_range(0..120_000),
            sectors: random.random_range(1..300),
        })
        .collect();
    let found: Vec<_> = BUILT_IN
        .iter()
        .map(|(name, _)| {
            let times = Policy::ALL.map(|policy| {
                let ends = play(name, policy, &steps, 0);
                let ends = ends.iter().map(|completion| completion.at_ns);
                (ends.clone().max().unwrap(), ends.sum::<u64>())
            });
            (*name, times)
        })
        .collect();
    assert_eq!(found, TIMES);
}

#[derive(Debug, Clone)]
struct SimulatedRequest {
    gap_ns: u64,
    kind: RequestKind,
    sector: u64,
    sectors: u64,
}

fn step() -> impl Strategy<Value = SimulatedRequest> {
    let kind = prop_oneof![4 => Just(RequestKind::Read), 4 => Just(RequestKind::Write), 1 => Just(RequestKind::Flush)];
    let gap = prop_oneof![Just(0u64), 0..100_000u64, 0..30_000_000u64];
    let sector = prop_oneof![0..4096u64, 0..126_000u64];
    (gap, kind, sector, 1..4096u64).prop_map(|(gap_ns, kind, sector, sectors)| SimulatedRequest {
        gap_ns,
        kind,
        sector,
        sectors,
    })
}

/// All ends, by the clock of one who asks late or at once.
fn play(name: &str, policy: Policy, steps: &[SimulatedRequest], lateness: u64) -> Vec<Completion> {
    let model = built_in(name).unwrap();
    let mut disk = Disk::new(&model, &options(64 << 20, policy)).unwrap();
    let (mut now, mut done) = (0, Vec::new());
    for (id, step) in steps.iter().enumerate() {
        now += step.gap_ns;
        let (offset, length) = match step.kind {
            RequestKind::Flush => (0, 0),
            _ => (step.sector * SECTOR_BYTES, step.sectors * SECTOR_BYTES),
        };
        disk.submit(&request(id as u64, step.kind, offset, length), now)
            .unwrap();
        disk.advance(now, &mut done);
    }
    while let Some(event) = disk.next_event() {
        disk.advance(event.at_ns + lateness, &mut done);
    }
    assert!(disk.is_idle());
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_request_is_lost_and_time_never_goes_back(
        steps in prop::collection::vec(step(), 1..60),
        which in 0..BUILT_IN.len(),
        policy in 0..3usize,
        lateness in 0..20_000_000u64,
    ) {
        let (name, policy) = (BUILT_IN[which].0, Policy::ALL[policy]);
        let done = play(name, policy, &steps, 0);
        let mut ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..steps.len() as u64).collect::<Vec<_>>());
        prop_assert!(done.windows(2).all(|w| w[0].at_ns <= w[1].at_ns));
        let mut arrived = 0;
        for (id, step) in steps.iter().enumerate() {
            arrived += step.gap_ns;
            let end = done.iter().find(|c| c.id == id as u64).unwrap();
            prop_assert!(end.at_ns >= arrived);
        }
        // Who asks late is told the same.
        prop_assert_eq!(&done, &play(name, policy, &steps, lateness));
    }

    #[test]
    fn mutated_models_never_panic(at in 0..4000usize, byte in any::<u8>(), which in 0..BUILT_IN.len()) {
        let mut bytes = BUILT_IN[which].1.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes)
            && let Ok(model) = DiskModel::parse(&text, "mutated.toml")
        {
            // What is taken can be run.
            let mut disk = Disk::new(&model, &options(16 << 20, Policy::Elevator)).unwrap();
            one(&mut disk, &request(1, RequestKind::Read, 1 << 20, 4096), 5);
            prop_assert!(model.expectation().is_some());
        }
    }
}
