//! The attributes that each entity knows.

const FILESET: &[&str] = &[
    "name",
    "path",
    "size",
    "entries",
    "dirwidth",
    "dirdepthrv",
    "dirgamma",
    "sizegamma",
    "leafdirs",
    "prealloc",
    "paralloc",
    "reuse",
    "readonly",
    "writeonly",
    "cached",
    "trusttree",
];

const FLOWOP: &[&str] = &[
    "name",
    "filesetname",
    "fd",
    "srcfd",
    "opennext",
    "indexed",
    "iosize",
    "workingset",
    "random",
    "directio",
    "dsync",
    "noreadahead",
    "iters",
    "value",
    "target",
    "blocking",
    "highwater",
];

/// Who bears attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bearer {
    File,
    Fileset,
    Process,
    Thread,
    Flowop,
    Composite,
    Eventgen,
    Randvar,
    Cvar,
}

impl Bearer {
    /// As an error calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Bearer::File => "define file",
            Bearer::Fileset => "define fileset",
            Bearer::Process => "define process",
            Bearer::Thread => "thread",
            Bearer::Flowop => "flowop",
            Bearer::Composite => "define flowop",
            Bearer::Eventgen => "eventgen",
            Bearer::Randvar => "randvar",
            Bearer::Cvar => "cvar",
        }
    }

    /// Whether it takes local variables as well.
    pub(super) fn has_locals(self) -> bool {
        matches!(self, Bearer::Flowop | Bearer::Composite)
    }

    /// Its attributes, by the names that the rest of fsage uses.
    pub(super) fn known(self) -> &'static [&'static str] {
        match self {
            Bearer::File => &[
                "name",
                "path",
                "size",
                "prealloc",
                "paralloc",
                "reuse",
                "readonly",
                "writeonly",
                "cached",
                "trusttree",
            ],
            Bearer::Fileset => FILESET,
            Bearer::Process => &["name", "instances", "nice"],
            Bearer::Thread => &[
                "name",
                "procname",
                "instances",
                "memsize",
                "useism",
                "ioprio",
            ],
            Bearer::Flowop => FLOWOP,
            Bearer::Composite => &["name", "iters"],
            Bearer::Eventgen => &["rate"],
            Bearer::Randvar => &[
                "name",
                "type",
                "seed",
                "gamma",
                "mean",
                "min",
                "round",
                "randtable",
                "randsrc",
            ],
            Bearer::Cvar => &["type", "parameters", "min", "max", "round"],
        }
    }

    /// The attribute that a script means by `written`.
    pub(super) fn attribute(self, written: &str) -> Option<&'static str> {
        let meant = match written {
            "filename" => "filesetname",
            "filesize" => "size",
            "filesizegamma" => "sizegamma",
            "wss" => "workingset",
            other => other,
        };
        self.known().iter().copied().find(|known| *known == meant)
    }
}
