//! The families of metrics that rules speak of, as a dense number.

use fsage_core::metric::{self, FamilyId};

/// How much of its time a family waits for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Never,
    /// It is a mean of many calls without an access and some with one, or of what a commit before has
    /// paid.
    Partly,
    Mostly,
}

macro_rules! share {
    () => {
        Share::Never
    };
    (partly) => {
        Share::Partly
    };
    (device) => {
        Share::Mostly
    };
}

/// Each row: the name here, the stem in the table of metrics, how far it waits for the device.
macro_rules! stems {
    ($($variant:ident $name:literal $($share:ident)?,)*) => {
        /// A family of the table of metrics (`fsage_core::metric`) that a rule charges.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the table says what each family measures")]
        pub enum Stem { $($variant,)* }

        impl Stem {
            /// Every stem, by its number.
            pub const ALL: &'static [Stem] = &[$(Stem::$variant,)*];

            /// The name in the table.
            pub fn name(self) -> &'static str {
                match self { $(Stem::$variant => $name,)* }
            }

            fn share(self) -> Share {
                match self { $(Stem::$variant => share!($($share)?),)* }
            }
        }
    };
}

stems! {
    LusBc "LUS_BC", LurBc "LUR_BC", LusNc "LUS_NC" device, LunNc "LUN_NC" device, LufNc "LUF_NC" device, LurNc "LUR_NC" device,
    LusAc "LUS_AC" device, LurAc "LUR_AC" device, Lud "LUD", Lum "LUM", Lumr "LUMR", LumNc "LUM_NC" device,
    Open "OPEN", OpenM "OPENM", OpenC "OPENC", OpenD "OPEND", Cr "CR", CrF "CRF", CrC "CRC" partly, CrP "CRP",
    Close "CLOSE", CloseW "CLOSEW", CloseT "CLOSET", CloseU "CLOSEU", Cps "CPS", CpsD "CPSD" partly,
    Stat "STAT", StatM "STATM", Obj "OBJ", ObjN "OBJN", ObjR "OBJR", ObjU "OBJU", Fstat "FSTAT", Access "ACCESS", Seek "SEEK", Skd "SKD", Dup "DUP", Lock "LOCK",
    Advise "ADVISE", Mkdir "MKDIR", MkdirC "MKDIRC" partly, Rmdir "RMDIR", RmdirB "RMDIRB", Rename "RENAME",
    RenameR "RENAMER", RenameD "RENAMED" partly, Chmod "CHMOD", Chown "CHOWN", Utimens "UTIMENS", Link "LINK", LinkR "LINKR",
    Symlink "SYMLINK", Readlink "READLINK", Statfs "STATFS", Getxattr "GETXATTR",
    Setxattr "SETXATTR", Listxattr "LISTXATTR", Chdir "CHDIR", Mknod "MKNOD",
    RDir "RDIR", RDirE "RDIRE", RDirC "RDIRC" device, RDirCE "RDIRCE" partly,
    RdO "RDO", Rdc "RDC", Rc "RC", RcF "RCF", RcR "RCR", RcH "RCH", REof "REOF", RHo "RHO", Snd "SND", SndU "SNDU", WrO "WRO", Wrc "WRC",
    Wf "WF", Wn "WN", Wd "WD", We "WE", Wa "WA", Wo "WO", Wk "WK", Wu "WU", Wp "WP" device, Wh "WH", Wfc "WFC" partly,
    Falloc "FALLOC",
    Rd "RD" device, RRd "RRD" device, RfN "RFN" device, RfS "RFS" device, RfF "RFF" device, RfO "RFO" device, Rx "RX" device, Rf "RF" device,
    Mmap "MMAP", Munmap "MUNMAP", MfR "MFR", MfW "MFW", MfWH "MFWH", MfRH "MFRH", MfRB "MFRB", MfWB "MFWB",
    Tr "TR", TrC "TRC" partly, TrX "TRX", TrP "TRP", TrXD "TRXD" partly, TrPD "TRPD" partly, TrD "TRD", TrF "TRF" partly, Rm "RM", RmL "RML", RmQ "RMQ", CrQ "CRQ", RmF "RMF", RmD "RMD", RmFC "RMFC" partly,
    Fsy "FSY" device, Fds "FDS" device, FsyO "FSYO" device, FsyB "FSYB" device, FdsO "FDSO" device, FdsB "FDSB" device, FsyC "FSYC" device, FsyN "FSYN" device, FsyNR "FSYNR" partly, FsyP "FSYP" device, FsyRn "FSYRN" device,
    FsyRm "FSYRM" device, FsyD "FSYD" device, FsyDF "FSYDF" partly, FsyS "FSYS" device, FdsS "FDSS" device, FdsL "FDSL" device, FdsA "FDSA" device, FdsU "FDSU" device, FdsR "FDSR" device,
    FsyW "FSYW" device, FsyT "FSYT" partly, FsyTN "FSYTN" partly, FsyQ "FSYQ", RdSy "RDSY" device,
    Sync "SYNC" device, SynF "SYNF" device, SynD "SYND" device, SynO "SYNO" device, Dwo "DWO" device, Sfr "SFR" device, SfrW "SFRW", Dtr "DTR" device, Dtf "DTF" device,
    Mtw "MTW" device, Dfw "DFW", Btw "BTW" device,
}

impl Stem {
    /// The row of the table; `None` never happens (a test looks).
    pub fn family(self) -> Option<FamilyId> {
        metric::family(self.name())
    }

    /// Whether its time is spent waiting for the device, so that processes queue for it.
    pub fn at_device(self) -> bool {
        self.share() != Share::Never
    }

    /// Whether nearly all of its time is the device's, so that nothing that stays in memory can stand
    /// in for it.
    pub fn mostly_device(self) -> bool {
        self.share() == Share::Mostly
    }
}

/// Whether calls of that family wait for a device.
pub(crate) fn waits_for_device(family: FamilyId) -> bool {
    let mut stems = Stem::ALL.iter();
    stems.any(|s| s.at_device() && s.family() == Some(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stem_is_a_row_of_the_table() {
        for &stem in Stem::ALL {
            assert!(stem.family().is_some(), "{}", stem.name());
        }
    }
}
