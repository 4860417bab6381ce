//! Which descriptor a call is about.

use fsage_core::{Fd, KindClass, Op, OpKind, Outcome, Pid, Tid};
use fsage_namespace::flags::{O_CREAT, O_DIRECTORY};

use super::super::model::Type;
use super::super::names::Opened;
use super::{Call, Player, Who};

/// Where the numbers of descriptors begin that stand for mappings.
const FIRST_MAPPED: i32 = 1 << 29;
/// So many files of a process stay mapped; the next takes the place of the first.
const MAPPED: usize = 512;

impl Player {
    /// Which descriptor of the name a thread means; opens the file where nobody has it open for what is done.
    pub(super) fn descriptor(
        &mut self,
        op: &Op,
        name: u32,
        who: Who,
        out: &mut Vec<Call>,
    ) -> Option<usize> {
        let known = self.names.get(name)?;
        let writes = matches!(
            op.kind,
            OpKind::Write
                | OpKind::CopyOut
                | OpKind::SpliceOut
                | OpKind::Ftruncate
                | OpKind::Fallocate
        );
        let fits = |o: &Opened| match o.access {
            0 => !writes,
            1 => writes || op.kind.class() != KindClass::Data,
            _ => true,
        };
        let by = |f: &dyn Fn(&Opened) -> bool| known.opened.iter().rposition(|o| fits(o) && f(o));
        let found = by(&|o| o.tid == who.tid && o.pid == who.pid)
            .or_else(|| by(&|o| o.pid == who.pid))
            .or_else(|| by(&|_| true));
        // Nobody opens a file to end a mapping of it, or to advise on one.
        if found.is_some() || matches!(op.kind, OpKind::Munmap | OpKind::Advise) {
            return found;
        }
        let mut open = Op::new(OpKind::Open, op.pid, op.tid, 0);
        open.flags = match known.kind {
            Type::Directory => O_DIRECTORY,
            _ => 2 | if known.exists { 0 } else { O_CREAT },
        };
        let path = Some(self.names.path(name));
        self.open(&mut open, name, who);
        out.push(Call {
            op: open,
            path,
            path2: None,
        });
        self.names.get(name).map(|n| n.opened.len() - 1)
    }

    /// A process closes a file that is still mapped: another descriptor stands for the mapping, so that the close lets
    /// nothing go and page faults find the file open.
    pub(super) fn keep(&mut self, name: u32, who: Who, out: &mut Vec<Call>) {
        let close = Op::new(OpKind::Close, Pid(who.pid), Tid(who.tid), 0);
        let known = self.names.get_mut(name);
        let Some(known) = known.filter(|n| !n.opened.is_empty()) else {
            return;
        };
        let of_pid = |o: &Opened| o.pid == who.pid;
        let at = known
            .opened
            .iter()
            .rposition(|o| of_pid(o) && o.tid == who.tid);
        let at = at.or_else(|| known.opened.iter().rposition(of_pid));
        let open = known.opened.remove(at.unwrap_or(known.opened.len() - 1));
        let place = known
            .kept
            .iter()
            .position(of_pid)
            .map(|at| known.kept.remove(at).fd.0);
        let fd = place.unwrap_or_else(|| self.place(open.pid, name));
        let (pid, call) = (Pid(open.pid), |op| Call {
            op,
            path: None,
            path2: None,
        });
        let mut stands = Op {
            kind: OpKind::Dup,
            pid,
            fd: Some(Fd(open.fd.0)),
            ..close
        };
        stands.result = Outcome::ok(fd.unsigned_abs().into());
        out.push(call(stands));
        out.push(call(Op {
            pid,
            fd: Some(Fd(open.fd.0)),
            ..close
        }));
        self.free(&open);
        if let Some(known) = self.names.get_mut(name) {
            known.kept.push(Opened {
                fd: (fd, FIRST_MAPPED),
                ..open
            });
        }
    }

    /// What is done to a mapping is done by what stands for it, which is the last of the name's descriptors until it is
    /// taken back; where it is then.
    pub(super) fn lend(&mut self, kind: OpKind, name: u32, pid: u32) -> Option<usize> {
        if !matches!(kind, OpKind::Fault | OpKind::Msync | OpKind::Munmap) {
            return None;
        }
        let known = self.names.get_mut(name)?;
        let own = known.kept.iter().rposition(|o| o.pid == pid);
        let is_open = known.opened.iter().any(|o| o.pid == pid);
        let lives = |o: &Opened| self.mapped.contains_key(&o.pid);
        let any = || known.kept.iter().rposition(lives).filter(|_| !is_open);
        let at = own.or_else(any)?;
        let open = known.kept.remove(at);
        known.opened.push(open);
        Some(known.opened.len() - 1)
    }

    pub(super) fn take_back(&mut self, name: u32) {
        if let Some(known) = self.names.get_mut(name)
            && let Some(open) = known.opened.pop()
        {
            known.kept.push(open);
        }
    }

    /// A number for one more mapping of a process.
    fn place(&mut self, pid: u32, name: u32) -> i32 {
        let mapped = self.mapped.entry(pid).or_default();
        let at = mapped.len() % MAPPED;
        mapped.push(name);
        // What had the number is closed by what gets it.
        let gone = mapped
            .len()
            .checked_sub(MAPPED + 1)
            .and_then(|old| mapped.get(old));
        if let Some(known) = gone.and_then(|&gone| self.names.get_mut(gone)) {
            known.kept.retain(|o| o.pid != pid);
        }
        FIRST_MAPPED + at as i32
    }

    /// A process ends; whether it had something mapped.
    pub(super) fn unmap(&mut self, pid: u32) -> bool {
        let mapped = self.mapped.remove(&pid).unwrap_or_default();
        for &name in &mapped {
            if let Some(known) = self.names.get_mut(name) {
                known.kept.retain(|o| o.pid != pid);
            }
        }
        !mapped.is_empty()
    }

    /// The number of a descriptor can be given again.
    pub(super) fn free(&mut self, open: &Opened) {
        let taken = self.fds.get_mut(&(open.pid, open.fd.1));
        let place = taken.and_then(|t| t.get_mut((open.fd.0 - open.fd.1) as usize));
        if let Some(place) = place {
            *place = false;
        }
    }
}
