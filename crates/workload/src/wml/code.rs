//! What a thread does, as steps with loops.

use super::distribution::Number;

/// What a flowop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Open,
    Close,
    Create,
    Delete,
    Stat,
    Fsync,
    FsyncSet,
    Read,
    ReadWhole,
    Write,
    WriteWhole,
    Append,
    AppendRandom,
    AioWrite,
    AioWait,
    MakeDirectory,
    RemoveDirectory,
    ListDirectory,
    Delay,
    Hog,
    Block,
    Wakeup,
    SemBlock,
    SemPost,
    EventLimit,
    OpsLimit,
    IopsLimit,
    BandwidthLimit,
    FinishOnCount,
    FinishOnBytes,
    Print,
}

/// Every flowop by its name.
pub(super) const KINDS: &[(&str, Kind)] = &[
    ("openfile", Kind::Open),
    ("closefile", Kind::Close),
    ("createfile", Kind::Create),
    ("deletefile", Kind::Delete),
    ("statfile", Kind::Stat),
    ("fsync", Kind::Fsync),
    ("fsyncset", Kind::FsyncSet),
    ("read", Kind::Read),
    ("readwholefile", Kind::ReadWhole),
    ("write", Kind::Write),
    ("writewholefile", Kind::WriteWhole),
    ("appendfile", Kind::Append),
    ("appendfilerand", Kind::AppendRandom),
    ("aiowrite", Kind::AioWrite),
    ("aiowait", Kind::AioWait),
    ("makedir", Kind::MakeDirectory),
    ("removedir", Kind::RemoveDirectory),
    ("listdir", Kind::ListDirectory),
    ("delay", Kind::Delay),
    ("hog", Kind::Hog),
    ("block", Kind::Block),
    ("wakeup", Kind::Wakeup),
    ("semblock", Kind::SemBlock),
    ("sempost", Kind::SemPost),
    ("eventlimit", Kind::EventLimit),
    ("opslimit", Kind::OpsLimit),
    ("iopslimit", Kind::IopsLimit),
    ("bwlimit", Kind::BandwidthLimit),
    ("finishoncount", Kind::FinishOnCount),
    ("finishonbytes", Kind::FinishOnBytes),
    ("print", Kind::Print),
];

impl Kind {
    /// Whether it moves data.
    pub(super) fn transfers(self) -> bool {
        matches!(
            self,
            Kind::Read
                | Kind::ReadWhole
                | Kind::Write
                | Kind::WriteWhole
                | Kind::Append
                | Kind::AppendRandom
                | Kind::AioWrite
        )
    }

    /// Whether it writes data.
    pub(super) fn writes(self) -> bool {
        self.transfers() && !matches!(self, Kind::Read | Kind::ReadWhole)
    }

    /// Whether it holds a rate or ends the run, and counts for neither.
    pub(super) fn limits(self) -> bool {
        matches!(
            self,
            Kind::EventLimit
                | Kind::OpsLimit
                | Kind::IopsLimit
                | Kind::BandwidthLimit
                | Kind::FinishOnCount
                | Kind::FinishOnBytes
                | Kind::Print
        )
    }

    /// Whether it picks a file or directory from a fileset, so that it must name one.
    pub(super) fn needs_fileset(self) -> bool {
        matches!(
            self,
            Kind::Open
                | Kind::Create
                | Kind::MakeDirectory
                | Kind::RemoveDirectory
                | Kind::ListDirectory
                | Kind::FsyncSet
        )
    }
}

/// One flowop of a thread.
#[derive(Debug, Clone)]
pub(super) struct Flowop {
    /// Where it stands.
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) fileset: Option<usize>,
    pub(super) fd: usize,
    pub(super) srcfd: usize,
    /// How many descriptors `opennext` goes through; 0 without it.
    pub(super) rotates: usize,
    pub(super) indexed: Option<Number>,
    pub(super) iosize: Number,
    pub(super) working_set: Number,
    pub(super) random: bool,
    pub(super) direct: bool,
    pub(super) sync: bool,
    pub(super) no_read_ahead: bool,
    pub(super) value: Number,
    pub(super) target: Option<String>,
    /// For limits: the step of this thread that is counted.
    pub(super) counted: Option<usize>,
    pub(super) blocking: bool,
    pub(super) highwater: u64,
    /// Whether this flowop of each thread is a gate.
    pub(super) gate: bool,
}

/// A step of a thread.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Flowop(Box<Flowop>),
    /// Goes through what follows, up to the step `end`, that many times.
    Repeat {
        times: Number,
        end: usize,
    },
    /// Goes back behind the step `start` while there are times left.
    Again {
        start: usize,
    },
}

/// The steps of one thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Code {
    pub(super) steps: Vec<Step>,
    /// Descriptors that its flowops name.
    pub(super) descriptors: usize,
}
