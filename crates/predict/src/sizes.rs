//! What the stages before the costs need to know of a system: sizes of its caches and how it does things, as its metrics
//! tell.

use fsage_core::metric::{self, FamilyId, MetricId};

use crate::caches::lookup::INODES_TOGETHER;
use crate::caches::sync::{LONG_KIB, MIB_KIB, SCATTERED, SYNCED_KIB};
use crate::caches::{FaultPages, PAGE_KIB, Sizes, Throttle};
use crate::cost::{SystemVector, far_kib};
use crate::drive::{self, Figures};
use crate::pattern::NEAR_BYTES;

/// The largest read-ahead of Linux where a profile does not tell: 128 KiB.
const READ_AHEAD_PAGES: u64 = 32;

/// A close that starts to write takes so many times as long as one that does not.
const STARTS: f64 = 4.0;
/// The first read of a file of 1 KiB costs less than this share of that of 4 KiB where it needs no request.
const INLINE_SHARE: f64 = 0.25;
/// And less than this one of a file system that is known to need none.
const KEPT_SHARE: f64 = 0.75;

/// A first lookup in another directory costs more than this share of an access where its blocks are an access apart.
const DIRECTORY_SHARE: f64 = 0.25;

/// What is asked for by itself takes at least this share of what a drive needs to answer what it holds.
const APART_SHARE: f64 = 0.25;

/// What passing over a freed inode takes at least, where that is done: less is what two means differ by.
const PASSED_NS: f64 = 2.0;

/// Of what a `sync` takes so much can be its data at most.
const SYNCED_SHARE: f64 = 0.8;

/// A block of a directory, and how many names one holds at least and at most.
const BLOCK_KIB: f64 = 4.0;
const LEAST_NAMES: f64 = 64.0;
const MOST_NAMES: f64 = 256.0;

/// A first write after a cold start takes so many times as long as another where it reads maps of what is free.
const MAPS: f64 = 10.0;

/// The largest that is not more, and at least 1.
fn power_of_two(value: f64) -> u64 {
    1 << value.max(1.0).log2() as u64
}

/// How far apart directories put their files by turns, in bytes, and among how many places; `None` where they lie
/// beside one another or an arm need not move.
fn directories_in_turn(vector: &SystemVector) -> Option<(u64, u64)> {
    let value = |name: &str| vector.named(name).map(|e| e.value as u64);
    let (apart, places) = (value("DAP")?.checked_mul(1024)?, value("DAN")?);
    (!vector.machine.in_memory && apart > NEAR_BYTES && places > 1).then_some((apart, places))
}

/// In how many of the places among which directories take turns commits were measured.
fn commit_places(vector: &SystemVector) -> u64 {
    let measured = |place: &u64| vector.named(&format!("FSYP{place}")).is_some();
    let points = metric::family("FSYP")
        .into_iter()
        .flat_map(FamilyId::metrics);
    let places = points.filter_map(MetricId::point).map(u64::from);
    places.take_while(measured).count() as u64
}

/// What it takes to write at one more place, of many in one flush; 0 where nothing tells.
fn place_ns(vector: &SystemVector) -> u64 {
    let value = |name: &str| vector.named(name).map(|e| e.value);
    let more = value("FDSR").zip(value("FDSO"));
    more.map_or(0, |(all, one)| {
        power_of_two((all - one) / (SCATTERED - 1.0))
    })
}

/// How many KiB of the file of SYNC and of each of SYNF are taken off at most where there is less to write: writing them
/// in a long write costs no more than most of what the call took.
fn synced_kib(vector: &SystemVector) -> (u16, u16) {
    let value = |name: &str| vector.named(name).map(|e| e.value).filter(|&v| v > 0.0);
    let per_kib = value("FDS16384").map(|ns| ns / LONG_KIB);
    let most = |name: &str, kib: f64| {
        let held = value(name)
            .zip(per_kib)
            .map(|(ns, each)| SYNCED_SHARE * ns / each);
        held.map_or(kib, |held| held.min(kib)) as u16
    };
    (most("SYNC", MIB_KIB), most("SYNF", SYNCED_KIB))
}

/// Names of a block of a directory, by what the device takes for each name of a listing and for a block of a file. What
/// it takes beside reading makes that fewer, and nobody has names so long or so short that it is fewer or more.
fn names_of_block(vector: &SystemVector) -> u32 {
    let value = |name: &str| vector.named(name).map(|e| e.value).filter(|&v| v > 0.0);
    let each = value("RDIRCE")
        .zip(value("RDIRE"))
        .map(|(cold, cached)| cold - cached);
    let kib_per_s = value("RD1024").or_else(|| value("RD64"));
    let names = each.filter(|&ns| ns > 0.0).zip(kib_per_s);
    names.map_or(0, |(ns, rate)| {
        let block_ns = BLOCK_KIB * 1e9 / rate;
        let names = (block_ns / ns).clamp(LEAST_NAMES, MOST_NAMES);
        1 << names.log2().round() as u32
    })
}

/// How much one fault maps, and a store makes dirty, where a file's pages lie together in long pieces.
fn fault_pages(vector: &SystemVector) -> FaultPages {
    let value = |name: &str| vector.named(name).map(|e| e.value / PAGE_KIB);
    let pages = |value: Option<f64>| value.map_or(1, |pages| (pages.round() as u64).max(1));
    let store = value("MFWK");
    FaultPages {
        read: pages(value("MFRK")),
        store: pages(store),
        dirty: pages(value("MFWD").or(store)),
    }
}

/// What a KiB more takes of a long write that is made stable, in nanoseconds.
fn write_ns(vector: &SystemVector) -> Option<f64> {
    let each_ns = |stem: &str| {
        let at = |kib: u32| vector.named(&format!("{stem}{kib}")).map(|e| e.value);
        Some((at(16384)? - at(1024)?) / 15360.0).filter(|ns| *ns > 0.0)
    };
    each_ns("FDS").or_else(|| each_ns("FSY"))
}

/// Whether small files' data comes with their inodes. One known to keep it there does, unless it is told not to: where a
/// device is memory both cost about as much.
fn inline(vector: &SystemVector) -> bool {
    let costs = vector.named("RF1").zip(vector.named("RF4"));
    let share = if vector.machine.file_system.keeps_data_with_inodes() {
        KEPT_SHARE
    } else {
        INLINE_SHARE
    };
    costs.is_some_and(|(one, four)| one.value < share * four.value)
}

/// Where writers are throttled, and how.
fn throttle(vector: &SystemVector) -> Option<Throttle> {
    let value = |name: &str| vector.named(name).map(|e| e.value as u64);
    let kib = vector.named("DTH").filter(|e| !e.lower_bound)?.value as u64;
    let kib_per_s = value("DTR")?;
    let nothing_meanwhile = value("DTB").is_some_and(|stays| stays >= kib);
    (kib > 0 && kib_per_s > 0).then_some(Throttle {
        kib,
        kib_per_s,
        by_file: nothing_meanwhile && value("DTF").is_some(),
    })
}

/// How many fit, and what each costs from there on, in nanoseconds; nothing where only a lower bound is known.
fn room(vector: &SystemVector, fit: &str, each: &str) -> Option<(u64, u64)> {
    let fit = vector.named(fit).filter(|e| !e.lower_bound)?.value as u64;
    let each_ns = vector.named(each)?.value as u64;
    (fit > 0 && each_ns > 0).then_some((fit, each_ns))
}

/// Whether a request waits for a device that is no memory.
fn seeks(vector: &SystemVector) -> bool {
    !vector.machine.in_memory && !vector.machine.deviceless
}

/// Whether a listing asks for blocks of its own: where names lie with inodes it has them from there.
fn lists_blocks(vector: &SystemVector) -> bool {
    let value = |name: &str| vector.named(name).map(|e| e.value);
    let asks = value("RDIRC")
        .zip(value("RFN"))
        .is_some_and(|(first, held)| first > APART_SHARE * held);
    asks || directories_in_turn(vector).is_some()
}

/// Whether the block of an inode is asked for by itself, by how much longer a lookup takes on average in the order of creation
/// than where the block is there. What a file system reads ahead in its tables is brought with others.
fn brought_apart(vector: &SystemVector, longer_ns: f64) -> bool {
    let held = vector.named("RFN").map_or(0.0, |e| e.value);
    longer_ns > 0.0 && (!seeks(vector) || longer_ns * INODES_TOGETHER as f64 > APART_SHARE * held)
}

/// Whether the first write after a cold start reads maps of what is free.
fn reads_maps(vector: &SystemVector) -> bool {
    let written = vector.named("WFC").zip(vector.named("WN4"));
    written.is_some_and(|(first, any)| first.value > MAPS * any.value)
}

/// Sizes of a system; a size that is only a lower bound is no bound, and comes back apart.
pub(crate) fn sizes(vector: &SystemVector) -> (Sizes, Option<u64>) {
    let size = |name: &str| {
        vector
            .named(name)
            .filter(|e| !e.lower_bound)
            .map(|e| e.value as u64)
    };
    let has = |name: &str| vector.named(name).is_some();
    let at_least = vector
        .named("BC")
        .filter(|e| e.lower_bound)
        .map(|e| e.value as u64 / 4);
    let sizes = Sizes {
        pages: size("BC").map(|kib| kib / 4),
        names: size("DNLC"),
        attributes: size("MDC"),
        read_ahead: vector
            .named("RAW")
            .map_or(READ_AHEAD_PAGES, |e| e.value as u64 / 4),
        locality: has("LUN_NC") || has("LUF_NC"),
        deviceless: vector.machine.deviceless,
        drive: Figures::of(vector),
        arm_alone: drive::arm_alone(vector),
        beside_is_held: drive::beside_is_held(vector),
        far_kib: far_kib(vector),
        near_kib: size("RXB"),
        inline: inline(vector),
        throttle: throttle(vector),
        room_changes: room(vector, "MTH", "MTW"),
        room_files: room(vector, "DFH", "DFW"),
        room_blocks: size("BTH").filter(|&most| most > 0 && vector.named("BTW").is_some()),
        reads_maps: reads_maps(vector),
        write_kib_per_s: write_ns(vector).map_or(0, |ns| power_of_two(1e9 / ns)),
        seeks: seeks(vector),
        place_ns: place_ns(vector),
        synced_kib: synced_kib(vector),
        writes_closed: vector
            .named("CLOSET")
            .zip(vector.named("CLOSEW"))
            .is_some_and(|(starts, plain)| starts.value > STARTS * plain.value),
        shares_blocks: vector.named("CPS").is_some(),
        reads_paused: vector
            .named("RFF_G2000")
            .zip(vector.named("RFF"))
            .is_some_and(|(after, before)| after.value > before.value),
        file_system: vector.machine.file_system,
        directories_apart: vector
            .named("LUR_NC")
            .zip(vector.named("RFF"))
            .is_some_and(|(lookup, access)| lookup.value > DIRECTORY_SHARE * access.value),
        directories_in_turn: directories_in_turn(vector),
        lists_blocks: lists_blocks(vector),
        commit_places: commit_places(vector),
        passes_freed: vector
            .named("CRP")
            .is_some_and(|each| each.value > PASSED_NS),
        stretches: vector
            .named("LUN_NC")
            .zip(vector.named("LUS_NC"))
            .is_some_and(|(mean, there)| brought_apart(vector, mean.value - there.value)),
        fault_pages: fault_pages(vector),
        names_of_block: names_of_block(vector),
    };
    (sizes, at_least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::FileSystemName;
    use fsage_core::metric::MetricId;

    #[test]
    fn no_more_is_taken_off_a_sync_than_it_took() {
        let kib = |sync_ns: f64, long_ns: f64| {
            let metrics = [("SYNC", sync_ns), ("SYNF", 3e4), ("FDS16384", long_ns)];
            let metrics = metrics.map(|(name, v)| (MetricId::parse(name).unwrap(), v, v, v));
            synced_kib(&SystemVector::new("s", metrics))
        };
        assert_eq!(kib(1e6, 4e6), (1024, 10));
        // The long write was disturbed: 800 KiB of it take as long.
        assert_eq!(kib(1e6, 1e6 * LONG_KIB / 1000.0), (800, 10));
        assert_eq!(kib(1e6, 1e6 * LONG_KIB / 100.0), (80, 2));
    }

    #[test]
    fn data_of_small_files_comes_with_inodes_where_the_first_read_costs_less() {
        let kept = |name: &str, one_ns: f64| {
            let metrics = [("RF1", one_ns), ("RF4", 28e3)];
            let metrics = metrics.map(|(name, v)| (MetricId::parse(name).unwrap(), v, v, v));
            let mut vector = SystemVector::new("s", metrics);
            vector.machine.file_system = FileSystemName::of(name);
            inline(&vector)
        };
        assert!(kept("xfs", 6e3));
        assert!(!kept("xfs", 9e3));
        // Where a device is memory, the copy costs a third of a request.
        assert!(kept("btrfs", 9e3));
        // With max_inline=0 all have blocks of their own.
        assert!(!kept("btrfs", 27e3));
    }
}
