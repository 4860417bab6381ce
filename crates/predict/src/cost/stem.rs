//! The families of metrics that rules speak of, as a dense number.

use fsage_core::metric::{self, FamilyId};

macro_rules! stems {
    ($($variant:ident $name:literal,)*) => {
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
        }
    };
}

stems! {
    LusBc "LUS_BC", LurBc "LUR_BC", LusNc "LUS_NC", LunNc "LUN_NC", LufNc "LUF_NC", LurNc "LUR_NC",
    LusAc "LUS_AC", LurAc "LUR_AC", Lud "LUD", Lum "LUM", Lumr "LUMR", LumNc "LUM_NC",
    Open "OPEN", OpenM "OPENM", OpenC "OPENC", OpenD "OPEND", Cr "CR", CrF "CRF", CrC "CRC",
    Close "CLOSE", CloseW "CLOSEW", CloseT "CLOSET", CloseU "CLOSEU",
    Stat "STAT", StatM "STATM", Obj "OBJ", ObjN "OBJN", ObjR "OBJR", ObjU "OBJU", Fstat "FSTAT", Access "ACCESS", Seek "SEEK", Dup "DUP", Lock "LOCK",
    Advise "ADVISE", Mkdir "MKDIR", MkdirC "MKDIRC", Rmdir "RMDIR", RmdirB "RMDIRB", Rename "RENAME",
    RenameR "RENAMER", Chmod "CHMOD", Chown "CHOWN", Utimens "UTIMENS", Link "LINK",
    Symlink "SYMLINK", Readlink "READLINK", Statfs "STATFS", Getxattr "GETXATTR",
    Setxattr "SETXATTR", Listxattr "LISTXATTR", Chdir "CHDIR", Mknod "MKNOD",
    RDir "RDIR", RDirE "RDIRE", RDirC "RDIRC", RDirCE "RDIRCE",
    RdO "RDO", Rdc "RDC", Rc "RC", RcF "RCF", RcR "RCR", REof "REOF", RHo "RHO", WrO "WRO", Wrc "WRC",
    Wf "WF", Wn "WN", Wd "WD", We "WE", Wa "WA", Wo "WO", Wk "WK", Wu "WU", Wp "WP", Wh "WH",
    Falloc "FALLOC",
    Rd "RD", RRd "RRD", RfN "RFN", RfS "RFS", RfF "RFF", RfO "RFO", Rx "RX", Rf "RF",
    Mmap "MMAP", Munmap "MUNMAP", MfR "MFR", MfW "MFW", MfRC "MFRC",
    Tr "TR", TrC "TRC", TrX "TRX", TrP "TRP", Rm "RM", RmF "RMF", RmD "RMD", RmFC "RMFC",
    Fsy "FSY", Fds "FDS", FsyO "FSYO", FdsO "FDSO", FsyC "FSYC", FsyN "FSYN", FsyRn "FSYRN",
    FsyRm "FSYRM", FsyD "FSYD", FsyDF "FSYDF", FsyS "FSYS", FdsS "FDSS", FsyQ "FSYQ",
    Sync "SYNC", Sfr "SFR", Dtr "DTR",
}

impl Stem {
    /// The row of the table; `None` never happens (a test looks).
    pub fn family(self) -> Option<FamilyId> {
        metric::family(self.name())
    }

    /// Whether its time is spent waiting for the device, so that processes queue for it.
    #[allow(clippy::enum_glob_use, reason = "half of the list")]
    pub fn at_device(self) -> bool {
        use Stem::*;
        matches!(
            self,
            LusNc
                | LunNc
                | LufNc
                | LurNc
                | LusAc
                | LurAc
                | LumNc
                | CrC
                | MkdirC
                | RDirC
                | RDirCE
                | Rd
                | RRd
                | RfN
                | RfS
                | RfF
                | RfO
                | Rx
                | Rf
                | Wp
                | MfRC
                | TrC
                | RmFC
                | Fsy
                | Fds
                | FsyO
                | FdsO
                | FsyC
                | FsyN
                | FsyRn
                | FsyRm
                | FsyD
                | FsyDF
                | FsyS
                | FdsS
                | Sync
                | Dtr
                | Sfr
        )
    }

    /// Whether nearly all of its time is the device's, so that nothing that stays in memory can stand
    /// in for it.
    #[allow(clippy::enum_glob_use, reason = "nearly all of at_device")]
    pub fn mostly_device(self) -> bool {
        use Stem::*;
        // These are means of many calls without an access and some with one, or of what a commit
        // before has paid.
        let sometimes = matches!(self, CrC | MkdirC | RDirCE | TrC | RmFC | FsyDF);
        self.at_device() && !sometimes
    }
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
