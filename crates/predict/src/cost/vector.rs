//! The system vector: what a profiled system needs for each unit of each metric.

use std::collections::HashMap;

use fsage_core::metric::{FamilyId, MetricId, Unit};

use crate::certainty::UNKNOWN_RELATIVE;

/// The place of a metric in dense tables: its rank among [`MetricId::all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// Every metric by its slot, and back.
#[derive(Debug, Clone)]
pub struct Slots {
    ids: Vec<MetricId>,
    slots: HashMap<MetricId, Slot>,
}

impl Default for Slots {
    fn default() -> Self {
        let ids: Vec<MetricId> = MetricId::all().collect();
        let slots = ids
            .iter()
            .enumerate()
            .map(|(i, &id)| (id, Slot(i as u16)))
            .collect();
        Self { ids, slots }
    }
}

impl Slots {
    /// The metric at a slot.
    pub fn id(&self, slot: Slot) -> Option<MetricId> {
        self.ids.get(slot.0 as usize).copied()
    }

    /// The slot of a metric.
    pub fn slot(&self, id: MetricId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Every slot with its metric.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, MetricId)> + '_ {
        self.ids
            .iter()
            .enumerate()
            .map(|(i, &id)| (Slot(i as u16), id))
    }
}

/// An estimate with its 95 % interval, in the unit of its metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether the true value is at least the estimate (a cache that was not filled).
    pub lower_bound: bool,
    /// Whether its interval is unknown: it stands on too few samples to have one.
    pub unknown: bool,
    /// Whether the profile marks it: what it was measured by was disturbed, or disagrees.
    pub marked: bool,
}

impl Estimate {
    /// An estimate that is known exactly.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
            lower_bound: false,
            unknown: false,
            marked: false,
        }
    }
}

/// Larger values are taken as this much: sums and squares of them stay finite, and a single cost of
/// thirty million years says as much as any.
const MOST: f64 = 1e24;

/// The machine that a system runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machine {
    /// Processors that threads share; `None`: one for each.
    pub cpus: Option<usize>,
    /// Processors that it has, by which Linux takes its slices; `None`: those.
    pub processors: Option<usize>,
    /// Whether the device is memory, and its work that of the caller's processor.
    pub in_memory: bool,
    /// Whether there is no device at all, so that nothing is ever cold (tmpfs).
    pub deviceless: bool,
    /// Its memory in bytes; `None` where nobody knows.
    pub memory_bytes: Option<u64>,
    /// What puts files on its device.
    pub file_system: FileSystemName,
}

/// As much of a file system's name as tells it from others; zeros where it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileSystemName([u8; 8]);

impl FileSystemName {
    /// Of its name in the kernel.
    pub fn of(name: &str) -> Self {
        let mut own = [0; 8];
        for (place, &byte) in own.iter_mut().zip(name.as_bytes()) {
            *place = byte;
        }
        Self(own)
    }

    /// Whether its directories list names in the order of their creation; ext4 lists by a hash.
    pub fn lists_by_creation(self) -> bool {
        self == Self::of("xfs") || self == Self::of("btrfs")
    }

    /// Whether a cut writes the page in which the file ends then, where that was in the file before. XFS writes what is
    /// beyond the size on the device alone (`xfs_setattr_size`).
    pub fn writes_new_end(self) -> bool {
        self != Self::of("xfs")
    }

    /// How many bytes of names an inode has room for, and how many each takes beside itself, where small directories need
    /// no block (`xfs_dir2_sf_hdr`, `xfs_dir2_sf_entry`). Of an inode of 512 bytes the attributes have 140 from the
    /// beginning (`xfs_default_attroffset`; Linux 5.13): of names of 14 bytes eight have room, the ninth needs a block.
    pub fn keeps_names_in_inode(self) -> Option<(u64, u64)> {
        (self == Self::of("xfs")).then_some((190, 8))
    }

    /// Whether the data of small files is in the tree of inodes (`max_inline`).
    pub fn keeps_data_with_inodes(self) -> bool {
        self == Self::of("btrfs")
    }

    /// Whether whoever starts to write a file gives its processor to others that wait for one before it goes on: of 57
    /// closes of truncated files by four compilers on one processor 37 waited, for 8 ms each (`2026-11-29-scheduler`; on
    /// ext4 1 of 61, on xfs 1 of 58).
    pub fn gives_way_as_it_writes(self) -> bool {
        self == Self::of("btrfs")
    }

    /// Whether what is written is given room at once; others do when it is written back.
    pub fn gives_room_at_once(self) -> bool {
        self == Self::of("ext2") || self == Self::of("mem")
    }

    /// Whether a free inode is found without reading anything but the block that it lies in.
    pub fn keeps_free_inodes_in_memory(self) -> bool {
        self == Self::of("mem")
    }

    /// Whether setting the size that a file has is a change that fdatasync waits for (`xfs_setattr_size` logs the inode's
    /// core, ext2 writes inodes whatever changed); on others it changes times alone.
    pub fn commits_a_size_set_again(self) -> bool {
        self == Self::of("xfs") || self == Self::of("ext2") || self == Self::default()
    }

    /// Whether fdatasync commits what fsync does, as everything is in one tree.
    pub fn commits_every_change(self) -> bool {
        self == Self::of("btrfs")
    }

    /// Whether both are known to be the same.
    pub fn is(self, other: Self) -> bool {
        self == other && self != Self::default()
    }
}

/// What one system costs. A metric that was not measured is absent, never zero.
#[derive(Debug, Clone)]
pub struct SystemVector {
    /// What the system is called.
    pub name: String,
    /// What its threads share.
    pub machine: Machine,
    /// What tells its target from others; empty where nobody knows.
    pub target: String,
    /// Why the profile is not whole; `None` where it is, or does not say.
    pub broken_off: Option<String>,
    /// Families whose calls the target refuses.
    pub not_offered: Vec<FamilyId>,
    /// What disturbed the whole of the measurement, in words.
    pub disturbed: Vec<String>,
    /// What the machine's reference work took, in nanoseconds: the speed that the costs are for.
    pub reference_ns: Option<u64>,
    /// How many times as long as in the trace programs work between their calls.
    pub own_work: f64,
    slots: Slots,
    values: Vec<Option<Estimate>>,
}

impl SystemVector {
    /// A vector from measured metrics: (metric, estimate, lower end, upper end), each in the
    /// metric's unit. Values that are negative or not finite are left out.
    pub fn new(
        name: impl Into<String>,
        metrics: impl IntoIterator<Item = (MetricId, f64, f64, f64)>,
    ) -> Self {
        let slots = Slots::default();
        let values = vec![None; slots.len()];
        let mut vector = Self {
            name: name.into(),
            machine: Machine::default(),
            target: String::new(),
            broken_off: None,
            not_offered: Vec::new(),
            disturbed: Vec::new(),
            reference_ns: None,
            own_work: 1.0,
            slots,
            values,
        };
        for (id, value, low, high) in metrics {
            vector.set(
                id,
                Estimate {
                    low,
                    high,
                    ..Estimate::exact(value)
                },
            );
        }
        vector
    }

    /// Sets a metric; one that is negative or not finite is left out.
    pub fn set(&mut self, id: MetricId, estimate: Estimate) {
        let Estimate {
            value, low, high, ..
        } = estimate;
        let sound = value.is_finite() && value >= 0.0 && low.is_finite() && high.is_finite();
        if let Some(Slot(index)) = self.slots.slot(id)
            && let Some(place) = self.values.get_mut(index as usize)
            && sound
        {
            *place = Some(Estimate {
                value: value.min(MOST),
                ..estimate
            });
        }
    }

    /// Changes the estimate of a metric that is there, its interval in proportion.
    pub fn change(&mut self, slot: Slot, to: f64) {
        let is_rate = self.slots.id(slot).is_some_and(|id| id.unit().is_rate());
        // What moves at no rate would take for ever.
        let least = if is_rate { 1.0 / MOST } else { 0.0 };
        if let Some(Some(e)) = self.values.get_mut(slot.0 as usize) {
            let to = to.clamp(least, MOST);
            let factor = if e.value > 0.0 { to / e.value } else { 1.0 };
            e.low = (e.low * factor).clamp(-MOST, MOST);
            e.high = (e.high * factor).clamp(-MOST, MOST);
            e.value = to;
        }
    }

    /// Makes the cost of a metric so many times what it is: a time grows, a rate falls. Costs that wait for a device
    /// stay as they are: it is no slower for what slows the machine. Sizes and shares have no speed.
    fn slow(&mut self, slot: Slot, factor: f64) {
        let Some(id) = self.slots.id(slot) else {
            return;
        };
        let Some(now) = self.at(slot) else { return };
        let waits = !self.machine.in_memory && super::stem::waits_for_device(id.family());
        match id.unit() {
            _ if waits => {}
            Unit::Ns => self.change(slot, now.value * factor),
            Unit::KibPerS => self.change(slot, now.value / factor),
            _ => {}
        }
    }

    /// Makes the cost of one metric that of another speed of the machine.
    pub(crate) fn slow_metric(&mut self, id: MetricId, factor: f64) {
        if let Some(slot) = self.slots.slot(id) {
            self.slow(slot, factor);
        }
    }

    /// Makes all costs those of a moment at which the machine's reference work takes so long. A system whose speed
    /// nobody knows stays as it is.
    pub fn at_speed(&mut self, reference_ns: u64) {
        let Some(known_ns) = self.reference_ns.replace(reference_ns) else {
            self.reference_ns = None;
            return;
        };
        let factor = slowness(reference_ns, known_ns);
        for index in 0..self.slots.len() {
            self.slow(Slot(index as u16), factor);
        }
    }

    /// Makes a size of the system exactly this, whatever was measured of it.
    pub fn size(&mut self, name: &str, to: f64) {
        if let Some(id) = MetricId::parse(name) {
            self.set(id, Estimate::exact(to));
        }
    }

    /// The estimate of a metric.
    pub fn get(&self, id: MetricId) -> Option<Estimate> {
        self.at(self.slots.slot(id)?)
    }

    /// The estimate of the scalar of that name.
    pub fn named(&self, name: &str) -> Option<Estimate> {
        self.get(MetricId::parse(name)?)
    }

    /// The estimate at a slot.
    pub fn at(&self, slot: Slot) -> Option<Estimate> {
        self.values.get(slot.0 as usize).copied().flatten()
    }

    /// The metrics by slot.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Nanoseconds for each unit of weight: a time costs itself each time, a rate the time of one
    /// KiB (4.4.3.2.2: throughputs become latencies). 0 for what is absent.
    pub fn unit_cost_ns(&self, slot: Slot) -> f64 {
        let Some(e) = self.at(slot) else { return 0.0 };
        self.cost_of(slot, e.value)
    }

    /// Standard error of [`Self::unit_cost_ns`]: the wider side of the 95 % interval over 1.96, or
    /// where that is unknown such that the cost is off by a factor of two with 5 %. A rate's error is
    /// carried over to its inverse in the first order.
    pub fn unit_error_ns(&self, slot: Slot) -> f64 {
        let Some(e) = self.at(slot) else { return 0.0 };
        if e.unknown {
            return self.cost_of(slot, e.value) * UNKNOWN_RELATIVE;
        }
        let half = (e.high - e.value).abs().max((e.value - e.low).abs());
        let cost = self.cost_of(slot, e.value);
        if self.is_rate(slot) {
            if e.value > 0.0 {
                cost * (half / e.value) / 1.96
            } else {
                0.0
            }
        } else {
            half / 1.96
        }
    }

    fn is_rate(&self, slot: Slot) -> bool {
        self.slots
            .id(slot)
            .is_some_and(|id| id.unit() == Unit::KibPerS)
    }

    fn cost_of(&self, slot: Slot, value: f64) -> f64 {
        if !self.is_rate(slot) {
            value
        } else if value > 0.0 {
            1e9 / value
        } else {
            0.0
        }
    }
}

/// Readings of the machine's reference work that are this much apart, as a factor, may be of one speed: on steady
/// machines they differed by 1 to 2 %, beside others by up to 10 %.
const STEADY: f64 = 1.1;

/// How many times as long everything takes where the reference work takes `now_ns`, and took `then_ns`. What two
/// readings differ by on a steady machine is no speed, so it is taken off (the estimate for a difference that is mostly
/// none).
pub fn slowness(now_ns: u64, then_ns: u64) -> f64 {
    let log = (now_ns.max(1) as f64 / then_ns.max(1) as f64).ln();
    (log.abs() - STEADY.ln()).max(0.0).copysign(log).exp()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_steady_machine_correct_nothing() {
        assert_eq!(slowness(1_000_000, 1_080_000), 1.0);
        assert_eq!(slowness(1_090_000, 1_000_000), 1.0);
        assert!((slowness(2_200_000, 1_000_000) - 2.0).abs() < 1e-12);
        assert!((slowness(1_000_000, 2_200_000) - 0.5).abs() < 1e-12);
        assert!(slowness(0, u64::MAX) > 0.0);
    }

    #[test]
    fn a_slower_machine_makes_its_own_costs_longer_and_no_devices() {
        let id = |name: &str| MetricId::parse(name).unwrap();
        let metrics = ["STAT", "RDC", "RFO", "BC"].map(|n| (id(n), 100.0, 90.0, 110.0));
        let at = |in_memory, known| {
            let mut vector = SystemVector::new("s", metrics);
            vector.machine.in_memory = in_memory;
            vector.reference_ns = known;
            vector.at_speed(3_300_000);
            ["STAT", "RDC", "RFO", "BC"].map(|name| vector.named(name).unwrap().value)
        };
        let rounded = |costs: [f64; 4]| costs.map(|c| (c * 1e6).round() / 1e6);
        let slower = |rfo| rounded([150.0, 100.0 / 1.5, rfo, 100.0]);
        assert_eq!(rounded(at(false, Some(2_000_000))), slower(100.0));
        assert_eq!(rounded(at(true, Some(2_000_000))), slower(150.0));
        assert_eq!(
            at(true, None),
            [100.0; 4],
            "nobody knows for which speed they are"
        );
    }
}
