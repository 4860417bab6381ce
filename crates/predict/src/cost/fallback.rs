//! What stands in for a family that a profile lacks: one table, nearest substitute first.
//!
//! The last resorts lead to metrics of Table 4.4 of the thesis, so that a profile that holds only
//! those predicts as the thesis did: an unlink is RM and TR of the file's size (4.4.3.2.3), a read
//! that misses is RRD (4.4.5.3), a cached transfer is eq. 3.

#![allow(clippy::enum_glob_use, reason = "the table names nearly all")]
#![allow(clippy::match_same_arms, reason = "a row for each group of families")]

use super::stem::Stem::{self, *};

/// One term of a substitute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    /// The other family, of the same size.
    Same(Stem),
    /// The other family, of this many KiB.
    Sized(Stem, f64),
    /// A rate, for this many KiB each time.
    Each(Stem, f64),
    /// The other family this many times.
    Times(Stem, f64),
}

impl Term {
    /// The family of the term.
    pub fn stem(self) -> Stem {
        match self {
            Term::Same(s) | Term::Sized(s, _) | Term::Each(s, _) | Term::Times(s, _) => s,
        }
    }
}

use Term::{Each, Same, Sized, Times};

/// The substitutes of a family, nearest first; each is a sum.
pub fn substitutes(stem: Stem) -> &'static [&'static [Term]] {
    lookups(stem)
        .or_else(|| calls(stem))
        .or_else(|| data(stem))
        .or_else(|| sync(stem))
        .unwrap_or(&[])
}

/// What stands in first where there is no device: what is cached is all there is.
pub fn without_device(stem: Stem) -> &'static [&'static [Term]] {
    match stem {
        Rd | RRd | RfN | RfS | RfF | RfO | Rf => &[&[Same(RcF)], &[Same(Rc)]],
        Rx => &[&[Sized(Rc, 4.0)]],
        LusNc | LunNc | LufNc | LurNc => &[&[Same(LusBc)], &[Same(LurBc)]],
        LumNc => &[&[Same(Lum)], &[Same(Lumr)]],
        Wp => &[&[Same(Wk)], &[Same(Wo)]],
        RDirC => &[&[Same(RDir)]],
        _ => &[],
    }
}

type Chain = Option<&'static [&'static [Term]]>;

/// What stands in for a block of metadata that is not in memory, after the lookups that are nearest to it: one random
/// access of the device; then, where no read of the device was measured, as in a profile that had little time, one write
/// that is made stable. That takes longer than a read wherever both were measured: it bounds what a few of them cost.
macro_rules! cold {
    ($($near:expr,)* ; $($cached:expr),*) => {
        &[
            $(&[$near],)*
            &[Sized(RRd, 4.0)],
            &[Sized(RfO, 4.0)],
            &[Sized(RfF, 4.0)],
            &[Sized(RfN, 4.0)],
            &[Sized(Fds, 4.0)],
            &[Sized(Fsy, 4.0)],
            $(&[$cached],)*
        ]
    };
}

fn lookups(stem: Stem) -> Chain {
    Some(match stem {
        LusBc => &[&[Same(LurBc)]],
        LurBc | Lud => &[&[Same(LusBc)], &[Same(LurBc)]],
        // Where no name can be made cold, as without privileges.
        LusNc => cold!(Same(LufNc), Same(LurNc), ; Same(LusBc)),
        LunNc | LufNc => cold!(Same(LusNc), Same(LurNc), ; Same(LusBc)),
        LurNc => cold!(Same(LufNc), Same(LusNc), ; Same(LurBc)),
        LusAc => cold!(Same(LurAc), ; Same(LusBc)),
        LurAc => cold!(Same(LusAc), ; Same(LurBc)),
        Lum => &[&[Same(Lumr)], &[Same(LusBc)], &[Same(LurBc)]],
        Lumr => &[&[Same(Lum)], &[Same(LusBc)], &[Same(LurBc)]],
        LumNc => cold!(Same(LurNc), Same(LusNc), ; Same(Lum), Same(Lumr), Same(LusBc)),
        _ => return None,
    })
}

fn calls(stem: Stem) -> Chain {
    Some(match stem {
        Open => &[&[Same(OpenC)], &[Same(Stat)]],
        OpenC | OpenD => &[&[Same(Open)]],
        // The thesis charges a call that fails its lookups and nothing more (4.4.5.1); profiles without
        // OBJ measured calls over many files and have it in their costs.
        OpenM | StatM | Obj | ObjU | CrP => &[&[]],
        ObjN | ObjR => &[&[Same(Obj)]],
        Cr => &[&[Same(Mknod)], &[Same(Mkdir)]],
        CrF | CrC | Link | Symlink | Mknod | Mkdir => &[&[Same(Cr)]],
        MkdirC => &[&[Same(Mkdir)], &[Same(CrC)]],
        Close => &[&[Same(Fstat)], &[Same(Seek)], &[Same(RdO)]],
        CloseW => &[&[Same(Close)]],
        CloseT => &[&[Same(CloseW)], &[Same(Close)]],
        CloseU => &[&[Same(Close), Same(Tr)], &[Same(Close)]],
        Stat => &[&[Same(Access)], &[Same(Fstat)]],
        Fstat | Access | Readlink | Statfs => &[&[Same(Stat)]],
        Seek => &[&[Same(Dup)], &[Same(Fstat)], &[Same(RdO)]],
        Dup | Lock | Advise => &[&[Same(Seek)], &[Same(Fstat)], &[Same(RdO)]],
        Rmdir => &[&[Same(RmdirB)], &[Same(Rm)]],
        RmdirB => &[&[Same(Rmdir)], &[Same(Rm)]],
        LinkR => &[&[Same(Link)]],
        Rename => &[&[Same(RenameR)], &[Same(Link)], &[Same(Cr)]],
        RenameR => &[&[Same(Rename)]],
        RenameD => &[&[Same(RenameR)], &[Same(Rename)]],
        Chmod => &[&[Same(Utimens)], &[Same(Chown)], &[Same(Stat)]],
        Chown | Utimens | Setxattr => &[&[Same(Chmod)]],
        Getxattr => &[&[Same(Stat)]],
        Listxattr => &[&[Same(Getxattr)], &[Same(Stat)]],
        Chdir => &[&[Same(Access)], &[Same(Stat)]],
        RDir => &[&[Same(RdO)]],
        // An entry of a name of about ten bytes takes 32 bytes of the buffer.
        RDirE => &[&[Each(Rdc, 1.0 / 32.0)]],
        RDirC => cold!(; Same(RDir)),
        RDirCE => &[&[Same(RDirE)]],
        _ => return None,
    })
}

fn data(stem: Stem) -> Chain {
    Some(match stem {
        // Nothing beyond what any write takes.
        Wfc => &[&[Sized(Wn, 4.0)]],
        Rc => &[&[Times(RdO, 1.0), Same(Rdc)]],
        RcF => &[&[Same(Rc)]],
        RcR => &[&[Same(RcF)], &[Same(Rc)]],
        RcH => &[&[Same(Rc)]],
        RdO => &[&[Sized(Rc, 1.0)]],
        REof => &[&[Same(RdO)], &[Sized(Rc, 1.0)]],
        RHo => &[&[Same(Rc)]],
        Skd => &[&[Same(Seek)]],
        Snd => &[&[Same(Rc)]],
        SndU => &[&[Same(Rc)]],
        Wf | Wh => &[&[Same(Wn)], &[Same(Wk)], &[Same(WrO), Same(Wrc)]],
        Wn => &[&[Same(Wf)], &[Same(Wk)], &[Same(WrO), Same(Wrc)]],
        Wd => &[&[Same(Wo)], &[Same(Wk)], &[Same(WrO), Same(Wrc)]],
        We => &[&[Same(Wd)], &[Same(Wk)], &[Same(WrO), Same(Wrc)]],
        Wa => &[
            &[Same(Wo)],
            &[Same(Wk)],
            &[Same(Wn)],
            &[Same(WrO), Same(Wrc)],
        ],
        Wo => &[&[Same(Wk)], &[Same(Wd)], &[Same(WrO), Same(Wrc)]],
        Wk => &[&[Same(Wo)], &[Same(WrO), Same(Wrc)]],
        Wu => &[&[Same(Wk)], &[Same(Wn)], &[Same(WrO), Same(Wrc)]],
        // The block is read, then written as any other (6.1.3.1).
        Wp => &[&[Sized(RRd, 4.0), Same(Wk)]],
        WrO => &[&[Sized(Wk, 1.0)], &[Same(RdO)]],
        // It is measured wherever it is there. A file system that lacks it says so at once; what the program then does instead
        // the trace does not show.
        Falloc => &[&[Same(Fstat)], &[Same(Seek)], &[Same(RdO)]],
        Rd => &[&[Same(RRd)], &[Same(Rf)]],
        RRd => &[&[Same(RfO)], &[Same(Rf)], &[Same(Rd)]],
        RfN => &[&[Same(RfS)], &[Same(RfF)], &[Same(RfO)], &[Same(RRd)]],
        RfS => &[&[Same(RfF)], &[Same(RfO)], &[Same(RRd)]],
        RfF => &[&[Same(RfO)], &[Same(RfS)], &[Same(RRd)]],
        RfO => &[&[Same(Rf)], &[Same(RfF)], &[Same(RRd)]],
        Rf => &[&[Same(RRd)]],
        Rx => &[&[Sized(RRd, 4.0)]],
        Mmap => &[&[Same(Fstat)], &[Same(RdO)]],
        Munmap => &[&[Same(Mmap)]],
        MfR => &[&[Same(RdO)]],
        MfW => &[&[Same(MfR)], &[Same(WrO)]],
        MfWH => &[&[Same(MfW)]],
        MfRH => &[&[Same(MfWH)]],
        MfRB => &[&[Same(MfR)]],
        MfWB => &[&[Same(MfW)]],
        Tr => &[&[Same(RmF)], &[Same(TrP)]],
        TrC => &[&[Same(Tr)]],
        TrX => &[&[Sized(Tr, 1.0)], &[Same(Chmod)]],
        TrP => &[&[Same(Tr)]],
        TrXD => &[&[Same(TrX)]],
        TrD => &[&[Same(Tr)]],
        RmL => &[&[Same(Rm)]],
        // What held removals up is in their costs, or was left out.
        RmQ | CrQ => &[&[]],
        TrPD => &[&[Same(TrP)]],
        TrF => &[&[Sized(Tr, 4.0)]],
        Cps => &[&[Same(TrX)]],
        CpsD => &[&[Same(Cps)]],
        Rm => &[&[Sized(RmF, 1.0)]],
        RmF => &[&[Same(Rm), Same(Tr)]],
        RmD => &[&[Same(RmF)], &[Same(Rm), Same(Tr)]],
        RmFC => &[&[Same(Rm), Same(TrC)], &[Same(RmF)]],
        _ => return None,
    })
}

fn sync(stem: Stem) -> Chain {
    Some(match stem {
        // Where nothing of the kind was measured: one random access of the device.
        Fsy => &[&[Same(Fds)], &[Same(FsyN)], &[Sized(RRd, 4.0), Same(WrO)]],
        Fds => &[&[Same(Fsy)]],
        FsyO => &[&[Same(FdsO)], &[Sized(Fsy, 4.0)]],
        FdsO => &[&[Same(FsyO)], &[Sized(Fds, 4.0)]],
        FsyB => &[&[Same(FsyO)], &[Same(FdsO)], &[Sized(Fsy, 4.0)]],
        FdsB => &[&[Same(FdsO)], &[Same(FsyO)], &[Sized(Fds, 4.0)]],
        FsyC => &[&[Sized(FsyN, 1.0)], &[Sized(Fsy, 0.0)]],
        FsyN => &[&[Same(Fsy)]],
        // Profiles without it tell of bytes alone.
        FsyNR => &[&[]],
        FsyP => &[&[Sized(FsyN, 4.0)], &[Same(FsyS)]],
        FsyRn | FsyRm | FsyD => &[&[Same(FsyC)], &[Sized(Fsy, 0.0)]],
        FsyDF => &[&[Same(FsyQ)], &[Same(FsyD)]],
        FsyS => &[&[Sized(FsyN, 16.0)], &[Sized(Fsy, 4.0)]],
        RdSy => &[&[Same(RfF)]],
        FdsS => &[&[Sized(Fds, 4.0)], &[Sized(Fsy, 4.0)]],
        FdsA => &[
            &[Same(FdsL)],
            &[Same(FdsS)],
            &[Sized(Fds, 4.0)],
            &[Sized(Fsy, 4.0)],
        ],
        FdsL | FdsU => &[&[Same(FdsS)], &[Sized(Fds, 4.0)], &[Sized(Fsy, 4.0)]],
        FdsR => &[&[Times(FdsO, 16.0)], &[Sized(Fds, 64.0)]],
        FsyT => &[&[Same(FsyDF)], &[Same(FsyQ)], &[Same(FsyC)]],
        FsyTN => &[&[Same(FsyT)], &[Same(FsyDF)], &[Same(FsyQ)], &[Same(FsyC)]],
        FsyW => &[&[Same(FsyS)], &[Sized(FsyN, 16.0)], &[Same(FsyC)]],
        FsyQ => &[&[Same(Seek)], &[Same(RdO)]],
        Sync => &[&[Sized(Fsy, 1024.0)]],
        Dwo => &[&[Same(FdsO)], &[Same(Fds)]],
        // Other files are written with the first: 16 KiB of the 1 MiB that SFR writes and waits for.
        SynF => &[
            &[Same(FsyNR)],
            &[Times(Sfr, 1.0 / 64.0)],
            &[Times(FdsR, 1.0 / 16.0)],
        ],
        // Metadata alone: about a third of a file's.
        SynD | SynO => &[&[Times(SynF, 0.3)]],
        Sfr => &[&[Sized(Fds, 1024.0)], &[Sized(Fsy, 1024.0)]],
        // To start is to find the pages and to hand them over: nothing waits.
        SfrW => &[&[Same(FsyQ), Same(Wn)], &[Same(Wn)], &[Same(Wk)]],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stays in memory says nothing of the device, and totals with it lack the family (`Plan::lacks`).
    #[test]
    fn a_cold_lookup_is_priced_where_only_stable_writes_were_measured_at_the_device() {
        for &stem in Stem::ALL {
            let name = stem.name();
            let is_lookup = name.ends_with("_NC") || name.ends_with("_AC") || name == "RDIRC";
            if !is_lookup {
                continue;
            }
            let terms = substitutes(stem).iter().flat_map(|sum| sum.iter());
            let measured = |t: &&Term| !t.stem().mostly_device() || matches!(t.stem(), Fds | Fsy);
            let first = terms.clone().find(measured).map(|t| t.stem());
            assert_eq!(first, Some(Fds), "{name}");
            let read = terms.clone().position(|t| t.stem() == RRd);
            let write = terms.clone().position(|t| t.stem() == Fds);
            assert!(read < write, "{name}: a read is nearer");
        }
    }

    #[test]
    fn every_family_but_the_rates_of_eq_3_has_a_substitute() {
        for &stem in Stem::ALL {
            let bare = matches!(stem, Rdc | Wrc | Dtr | Dtf | Mtw | Dfw | Btw);
            assert_eq!(substitutes(stem).is_empty(), bare, "{}", stem.name());
        }
    }
}
