//! What a thread does, as steps with loops.

use super::distribution::Number;

/// What a flowop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowopKind {
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
pub(super) const KINDS: &[(&str, FlowopKind)] = &[
    ("openfile", FlowopKind::Open),
    ("closefile", FlowopKind::Close),
    ("createfile", FlowopKind::Create),
    ("deletefile", FlowopKind::Delete),
    ("statfile", FlowopKind::Stat),
    ("fsync", FlowopKind::Fsync),
    ("fsyncset", FlowopKind::FsyncSet),
    ("read", FlowopKind::Read),
    ("readwholefile", FlowopKind::ReadWhole),
    ("write", FlowopKind::Write),
    ("writewholefile", FlowopKind::WriteWhole),
    ("appendfile", FlowopKind::Append),
    ("appendfilerand", FlowopKind::AppendRandom),
    ("aiowrite", FlowopKind::AioWrite),
    ("aiowait", FlowopKind::AioWait),
    ("makedir", FlowopKind::MakeDirectory),
    ("removedir", FlowopKind::RemoveDirectory),
    ("listdir", FlowopKind::ListDirectory),
    ("delay", FlowopKind::Delay),
    ("hog", FlowopKind::Hog),
    ("block", FlowopKind::Block),
    ("wakeup", FlowopKind::Wakeup),
    ("semblock", FlowopKind::SemBlock),
    ("sempost", FlowopKind::SemPost),
    ("eventlimit", FlowopKind::EventLimit),
    ("opslimit", FlowopKind::OpsLimit),
    ("iopslimit", FlowopKind::IopsLimit),
    ("bwlimit", FlowopKind::BandwidthLimit),
    ("finishoncount", FlowopKind::FinishOnCount),
    ("finishonbytes", FlowopKind::FinishOnBytes),
    ("print", FlowopKind::Print),
];

impl FlowopKind {
    /// Whether it moves data.
    pub(super) fn transfers(self) -> bool {
        matches!(
            self,
            FlowopKind::Read
                | FlowopKind::ReadWhole
                | FlowopKind::Write
                | FlowopKind::WriteWhole
                | FlowopKind::Append
                | FlowopKind::AppendRandom
                | FlowopKind::AioWrite
        )
    }

    /// Whether it writes data.
    pub(super) fn writes(self) -> bool {
        self.transfers() && !matches!(self, FlowopKind::Read | FlowopKind::ReadWhole)
    }

    /// Whether it holds a rate or ends the run, and counts for neither.
    pub(super) fn limits(self) -> bool {
        matches!(
            self,
            FlowopKind::EventLimit
                | FlowopKind::OpsLimit
                | FlowopKind::IopsLimit
                | FlowopKind::BandwidthLimit
                | FlowopKind::FinishOnCount
                | FlowopKind::FinishOnBytes
                | FlowopKind::Print
        )
    }

    /// Whether it picks a file or directory from a fileset, so that it must name one.
    pub(super) fn needs_fileset(self) -> bool {
        matches!(
            self,
            FlowopKind::Open
                | FlowopKind::Create
                | FlowopKind::MakeDirectory
                | FlowopKind::RemoveDirectory
                | FlowopKind::ListDirectory
                | FlowopKind::FsyncSet
        )
    }
}

/// One flowop of a thread.
#[derive(Debug, Clone)]
pub(super) struct Flowop {
    /// Where it stands.
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) kind: FlowopKind,
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
pub(super) enum Instruction {
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
    pub(super) steps: Vec<Instruction>,
    /// Descriptors that its flowops name.
    pub(super) descriptors: usize,
}
