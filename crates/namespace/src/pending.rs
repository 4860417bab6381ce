//! What calls do to descriptors, in the order in which the kernel does it.
//!
//! A stream has operations in the order of their starts, and threads overlap. close(2) frees a number as it begins:
//! that goes with its operation. What gives a number (open(2), dup(2)) does so as it ends, which may be after others
//! have begun that mean what the number stood for until then: until its end it is pending here. Ends are not exact
//! everywhere (ptrace takes the cost of its stops off them), so that what is given waits while its number is taken:
//! the close that freed it is still to come.

use fsage_core::{Fd, FileId, KindClass, Op, OpFlags, OpKind};

use crate::{Closed, Processes, SharedId};

/// Calls that give a descriptor and are under way at once; of more the one that ends first counts as over.
const MOST_PENDING: usize = 1024;

/// A descriptor that a call will have given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    at_ns: u64,
    pub(crate) task: u32,
    /// Who waits for the call; nobody for a request of io_uring.
    thread: Option<u32>,
    fd: Fd,
    /// `None`: what is no file.
    open: Option<SharedId>,
    close_on_exec: bool,
}

/// Whether the two are known to be different files. Who tells a file need not know its generation.
pub fn is_another(one: Option<FileId>, other: Option<FileId>) -> bool {
    let differ = |(one, other): (FileId, FileId)| (one.dev, one.ino) != (other.dev, other.ino);
    one.zip(other).is_some_and(differ)
}

/// Whether the call has ended as the operation begins. At one time on a coarse clock, what a close frees was
/// given after it.
fn is_over(pending: &Pending, op: &Op) -> bool {
    match op.kind {
        OpKind::Close => pending.at_ns < op.start_ns,
        _ => pending.at_ns <= op.start_ns,
    }
}

impl<O, D: Clone + Default, F: Copy> Processes<O, D, F> {
    /// The operation gives a descriptor as it ends: an open file that the caller holds until now, or, with none, what is
    /// no file. What was closed.
    pub fn give(
        &mut self,
        op: &Op,
        fd: Fd,
        open: Option<SharedId>,
        close_on_exec: bool,
    ) -> Vec<Closed<O>> {
        let pending = Pending {
            at_ns: op.end_ns(),
            task: op.pid.0,
            thread: (!op.record.contains(OpFlags::URING)).then_some(op.tid.0),
            fd,
            open,
            close_on_exec,
        };
        if op.latency_ns.is_none() {
            return self.given(pending).into_iter().collect();
        }
        // The next is the last. Of two that end at once the one that began first comes first.
        let at = self.pending.partition_point(|p| p.at_ns > pending.at_ns);
        self.pending.insert(at, pending);
        let full = self.pending.len() > MOST_PENDING;
        let first = self.pending.pop_if(|_| full);
        first.into_iter().filter_map(|p| self.given(p)).collect()
    }

    /// The same of a duplicate of `old`, dup(2); nothing happens where that is not known. A descriptor that it
    /// replaces stands for what it did until then: the kernel changes it in one step.
    pub fn give_duplicate(
        &mut self,
        op: &Op,
        old: Fd,
        new: Fd,
        close_on_exec: bool,
    ) -> Vec<Closed<O>> {
        let open = self.open_of(op.pid.0, old).filter(|_| old != new);
        match open.filter(|&open| self.share(open)) {
            Some(open) => self.give(op, new, Some(open), close_on_exec),
            None => Vec::new(),
        }
    }

    /// Brings descriptors to where they are as the operation begins. What was closed, as something else took its number.
    ///
    /// `file_of` is the file of an open file, where that is known: which file an operation is on tells whether a call
    /// that gives its descriptor is over.
    #[inline]
    pub fn settle(&mut self, op: &Op, file_of: impl Fn(&O) -> Option<FileId>) -> Vec<Closed<O>> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        self.settle_pending(op, file_of)
    }

    fn settle_pending(
        &mut self,
        op: &Op,
        file_of: impl Fn(&O) -> Option<FileId>,
    ) -> Vec<Closed<O>> {
        let next_of = |p: &Pending| {
            // A thread's next call begins when its last one is over. Pages are touched within calls too.
            op.kind != OpKind::Fault && p.task == op.pid.0 && p.thread == Some(op.tid.0)
        };
        // Mostly one thread does one call after the other.
        if let [only] = *self.pending
            && next_of(&only)
        {
            self.pending.clear();
            return self.given(only).into_iter().collect();
        }
        let mut closed = Vec::new();
        let over = self.pending.partition_point(|p| !is_over(p, op));
        for at in (over..self.pending.len()).rev() {
            if let Some(&next) = self.pending.get(at)
                && self.open_of(next.task, next.fd).is_none()
            {
                self.pending.remove(at);
                closed.extend(self.given(next));
            }
        }
        closed.extend(self.settle_where(next_of));
        if let Some(at) = self.meant(op, file_of) {
            closed.extend(self.over(at));
        }
        closed
    }

    /// All that is pending of a task, whose calls are over.
    pub(crate) fn settle_task(&mut self, task: u32) -> Vec<Closed<O>> {
        self.settle_where(|p| p.task == task)
    }

    fn settle_where(&mut self, over: impl Fn(&Pending) -> bool) -> Vec<Closed<O>> {
        let mut closed = Vec::new();
        while let Some(at) = self.pending.iter().rposition(&over) {
            closed.extend(self.over(at));
        }
        closed
    }

    /// A call is over, and with it those that gave the same number before.
    fn over(&mut self, at: usize) -> Vec<Closed<O>> {
        let mut closed = Vec::new();
        let Some(&last) = self.pending.get(at) else {
            return closed;
        };
        let table = self.table_of(last.task);
        for index in (at..self.pending.len()).rev() {
            if let Some(&next) = self.pending.get(index)
                && next.fd == last.fd
                && (index == at || table.is_some() && self.table_of(next.task) == table)
            {
                self.pending.remove(index);
                closed.extend(self.given(next));
            }
        }
        closed
    }

    /// What is pending and the operation means by its descriptor.
    fn meant(&mut self, op: &Op, file_of: impl Fn(&O) -> Option<FileId>) -> Option<usize> {
        let fd = op.fd.filter(|_| !self.pending.is_empty())?;
        let table = self.table_of(op.pid.0)?;
        let of = |open: SharedId| self.open(open).and_then(&file_of);
        // What has a name is on that file, and its descriptor is a directory's.
        let named = op.kind.class() == KindClass::Name && op.path.is_some();
        let file = op.file.filter(|_| !named);
        let fits = |of: FileId| file.is_some() && !is_another(Some(of), file);
        if self.fd_in(table, fd).and_then(of).is_some_and(fits) {
            return None;
        }
        let means = |p: &Pending| match p.open.and_then(of).filter(|_| file.is_some()) {
            Some(given) => fits(given),
            None => is_over(p, op),
        };
        let here = |p: &Pending| p.fd == fd && self.table_of(p.task) == Some(table);
        self.pending.iter().position(|p| here(p) && means(p))
    }

    fn given(&mut self, pending: Pending) -> Option<Closed<O>> {
        let Pending { task, fd, .. } = pending;
        match pending.open {
            Some(open) => self.install(task, fd, open, pending.close_on_exec),
            None => self.close(task, fd),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use fsage_core::{DevId, Outcome, Pid, Tid};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Files = Processes<u64, ()>;

    /// Of process 1.
    fn op(kind: OpKind, thread: u32, (start_ns, end_ns): (u64, u64), fd: i32) -> Op {
        let mut op = Op::new(kind, Pid(1), Tid(thread), start_ns);
        op.latency_ns = Some(end_ns - start_ns);
        if kind == OpKind::Open {
            op.result = Outcome::ok(fd as u64);
        } else {
            op.fd = Some(Fd(fd));
        }
        op
    }

    fn id(file: u64) -> Option<FileId> {
        (file > 0).then_some(FileId {
            dev: DevId(1),
            ino: file,
            generation: 0,
        })
    }

    fn settle(files: &mut Files, op: &Op) -> Vec<u64> {
        let closed = files.settle(op, |&file| id(file));
        closed.into_iter().filter_map(|c| c.last).collect()
    }

    fn open(files: &mut Files, thread: u32, span: (u64, u64), fd: i32, file: u64) {
        let op = op(OpKind::Open, thread, span, fd);
        settle(files, &op);
        let open = files.add(file);
        assert_eq!(files.give(&op, Fd(fd), Some(open), false), []);
    }

    /// What a write at a time finds.
    fn found(files: &mut Files, thread: u32, at_ns: u64, fd: i32) -> Option<u64> {
        let op = op(OpKind::Write, thread, (at_ns, at_ns + 1), fd);
        settle(files, &op);
        files.description(1, Fd(fd)).copied()
    }

    fn close(files: &mut Files, thread: u32, span: (u64, u64), fd: i32) -> Option<u64> {
        let op = op(OpKind::Close, thread, span, fd);
        settle(files, &op);
        files.close(1, Fd(fd)).and_then(|closed| closed.last)
    }

    #[test]
    fn a_number_is_the_old_files_until_the_call_ends_that_gives_it_again() {
        let mut files = Files::default();
        open(&mut files, 1, (0, 5), 3, 7);
        // Begun before the close that frees the number.
        open(&mut files, 2, (10, 50), 3, 8);
        assert_eq!(found(&mut files, 1, 15, 3), Some(7));
        assert_eq!(close(&mut files, 1, (20, 60), 3), Some(7));
        assert_eq!(found(&mut files, 1, 40, 3), None);
        assert_eq!(found(&mut files, 2, 51, 3), Some(8));
        // Begun after it, and over before it.
        assert_eq!(close(&mut files, 2, (60, 90), 3), Some(8));
        open(&mut files, 1, (70, 80), 3, 9);
        assert_eq!(found(&mut files, 1, 81, 3), Some(9));
        assert_eq!(files.held(), (1, 1));
    }

    #[test]
    fn a_call_whose_end_is_told_too_early_waits_for_the_close_that_freed_its_number() {
        let on = |kind, thread, at_ns, file| {
            let mut op = op(kind, thread, (at_ns, at_ns + 1), 3);
            op.file = id(file);
            op
        };
        let mut files = Files::default();
        open(&mut files, 1, (0, 5), 3, 7);
        open(&mut files, 2, (10, 20), 3, 8);
        assert_eq!(settle(&mut files, &on(OpKind::Write, 1, 25, 7)), []);
        assert_eq!(files.description(1, Fd(3)), Some(&mut 7));
        assert_eq!(settle(&mut files, &on(OpKind::Close, 1, 30, 7)), []);
        let closed = files.close(1, Fd(3)).and_then(|closed| closed.last);
        assert_eq!(closed, Some(7));
        assert_eq!(found(&mut files, 1, 40, 3), Some(8));
        // Where nothing tells its file, it is what the times say.
        open(&mut files, 2, (50, 60), 3, 9);
        let unknown = op(OpKind::Write, 1, (70, 71), 3);
        assert_eq!(settle(&mut files, &unknown), [8]);
    }

    #[test]
    fn a_threads_next_call_and_one_on_the_file_itself_show_that_a_call_is_over() {
        let mut files = Files::default();
        open(&mut files, 1, (0, 5), 3, 7);
        open(&mut files, 2, (10, 50), 3, 8);
        let mut early = op(OpKind::Write, 1, (40, 41), 3);
        early.file = id(7);
        assert_eq!(settle(&mut files, &early), []);
        early.file = id(8);
        assert_eq!(settle(&mut files, &early), [7], "as its close was not told");
        open(&mut files, 2, (60, 90), 4, 9);
        assert_eq!(found(&mut files, 1, 80, 4), None);
        let fault = op(OpKind::Fault, 2, (80, 81), 0);
        assert_eq!(settle(&mut files, &fault), []);
        assert_eq!(files.open_of(1, Fd(4)), None, "it is one within the call");
        assert_eq!(found(&mut files, 2, 85, 4), Some(9));
        // A request is waited for by nobody.
        let mut request = op(OpKind::Open, 2, (100, 200), 5);
        request.record = OpFlags::URING;
        let open = files.add(10);
        files.give(&request, Fd(5), Some(open), false);
        assert_eq!(found(&mut files, 2, 150, 5), None);
        assert_eq!(found(&mut files, 2, 200, 5), Some(10));
    }

    #[test]
    fn what_is_pending_of_a_task_that_ends_or_runs_a_program_is_not_left_open() {
        let mut files = Files::default();
        open(&mut files, 1, (0, u64::MAX), 3, 7);
        assert_eq!(files.exit(1).closed.len(), 1);
        open(&mut files, 1, (10, u64::MAX), 3, 8);
        assert_eq!(files.exec(1), []);
        assert_eq!(files.description(1, Fd(3)), Some(&mut 8));
        for fd in 4..2 * MOST_PENDING as i32 {
            open(&mut files, fd as u32 + 9, (20, u64::MAX), fd, 9);
        }
        assert!(files.pending.len() <= MOST_PENDING);
        files.exit(1);
        assert_eq!(files.held(), (0, 0));
    }

    /// A call of a thread that is under way.
    #[derive(Clone, Copy)]
    struct Call {
        op: Op,
        /// Which file it is on, or gives.
        file: u64,
        made: bool,
    }

    /// What somebody may use: a call that has ended gave it, and none closes it.
    #[derive(Clone, Copy)]
    struct Known {
        fd: i32,
        file: u64,
        users: u32,
    }

    /// A kernel that does everything at an instant of its own within each call.
    #[derive(Default)]
    struct Kernel {
        fds: BTreeMap<i32, u64>,
        known: Vec<Known>,
        threads: [Option<Call>; 6],
        rows: Vec<(Op, u64)>,
        /// Whether there is dup2(2), and what that replaced.
        replaces: bool,
        replaced: usize,
        files: u64,
    }

    impl Kernel {
        /// A thread goes on: it begins a call, what that does is done, or it ends.
        fn step(&mut self, thread: usize, choice: usize, now_ns: u64) {
            self.threads[thread] = match self.threads[thread] {
                None => Some(self.begin(thread, choice, now_ns)),
                Some(call) if !call.made => Some(self.make(call)),
                Some(call) => {
                    self.end(call, now_ns);
                    None
                }
            };
        }

        fn use_one(&mut self, choice: usize) -> Option<Known> {
            let at = choice.checked_rem(self.known.len())?;
            self.known[at].users += 1;
            Some(self.known[at])
        }

        /// One that nobody uses, nobody's any more.
        fn take_one(&mut self, of_another: u64) -> Option<Known> {
            let free = |known: &Known| known.users == 0 && known.file != of_another;
            let at = self.known.iter().position(free)?;
            Some(self.known.swap_remove(at))
        }

        fn begin(&mut self, thread: usize, choice: usize, now_ns: u64) -> Call {
            let kind = [OpKind::Open, OpKind::Close, OpKind::Write, OpKind::Dup][choice % 4];
            let on = match kind {
                OpKind::Open => None,
                OpKind::Close => self.take_one(0),
                _ => self.use_one(choice / 4),
            };
            let kind = if on.is_some() { kind } else { OpKind::Open };
            let fd = on.map_or(-1, |known| known.fd);
            let mut op = op(kind, thread as u32, (now_ns, now_ns), fd);
            self.files += u64::from(on.is_none());
            let file = on.map_or(self.files, |known| known.file);
            if kind == OpKind::Dup {
                // dup2(2), where there is one to replace.
                let new = (self.replaces && choice / 4 % 2 == 1)
                    .then(|| self.take_one(file))
                    .flatten();
                op.length = new.map(|new| new.fd as u64);
                self.replaced += usize::from(new.is_some());
            }
            let made = false;
            Call { op, file, made }
        }

        fn make(&mut self, mut call: Call) -> Call {
            call.made = true;
            let given = match call.op.kind {
                OpKind::Close => {
                    assert_eq!(self.fds.remove(&call.op.fd.unwrap().0), Some(call.file));
                    return call;
                }
                OpKind::Write => {
                    assert_eq!(self.fds[&call.op.fd.unwrap().0], call.file);
                    return call;
                }
                _ => call.op.length.map(|fd| fd as i32),
            };
            let free = (0..1 << 20).find(|fd| !self.fds.contains_key(fd));
            let fd = given.or(free).unwrap();
            self.fds.insert(fd, call.file);
            call.op.result = Outcome::ok(fd as u64);
            call
        }

        fn end(&mut self, mut call: Call, now_ns: u64) {
            call.op.latency_ns = Some(now_ns - call.op.start_ns);
            let (fd, file) = (call.op.fd.map(|fd| fd.0), call.file);
            let uses = matches!(call.op.kind, OpKind::Write | OpKind::Dup);
            for known in &mut self.known {
                let same = uses && Some(known.fd) == fd && known.file == file;
                known.users -= u32::from(same);
            }
            if matches!(call.op.kind, OpKind::Open | OpKind::Dup) {
                let fd = call.op.result.value().unwrap() as i32;
                let users = 0;
                self.known.push(Known { fd, file, users });
            }
            self.rows.push((call.op, file));
        }
    }

    proptest! {
        #[test]
        fn every_call_finds_what_the_kernel_found(
            steps in proptest::collection::vec((0..6usize, 0..64usize), 0..400),
            early in any::<bool>(),
        ) {
            // What is replaced by a file that it was before looks like no change.
            let replaces = !early;
            let mut kernel = Kernel { replaces, ..Kernel::default() };
            let goes_on = steps.len();
            let ends = (0..6).cycle().take(12).map(|thread| (thread, 0));
            for (at, (thread, choice)) in steps.into_iter().chain(ends).enumerate() {
                if at < goes_on || kernel.threads[thread].is_some() {
                    kernel.step(thread, choice, at as u64);
                }
            }
            kernel.rows.sort_by_key(|(op, _)| op.start_ns);
            let mut files = Files::default();
            let mut replaced = 0;
            let least_ns = kernel.rows.iter().filter_map(|(op, _)| op.latency_ns).min();
            for (op, file) in &mut kernel.rows {
                if early {
                    // As ptrace has it: all ends are told too early, and files; else by the times alone.
                    op.latency_ns = op.latency_ns.map(|ns| ns - least_ns.unwrap_or(0));
                    op.file = id(*file);
                }
                let gone = files.settle(op, |&file| id(file).filter(|_| early));
                replaced += gone.len();
                let value = Fd(op.result.value().unwrap() as i32);
                match op.kind {
                    OpKind::Open => {
                        let open = files.add(*file);
                        prop_assert_eq!(files.give(op, value, Some(open), false), []);
                    }
                    OpKind::Close => {
                        let closed = files.close(1, op.fd.unwrap()).unwrap();
                        let open = closed.last.or_else(|| files.open(closed.open).copied());
                        prop_assert_eq!(open, Some(*file));
                    }
                    kind => {
                        let found = files.description(1, op.fd.unwrap()).copied();
                        prop_assert_eq!(found, Some(*file), "{:?}", op);
                        if kind == OpKind::Dup {
                            let gone = files.give_duplicate(op, op.fd.unwrap(), value, false);
                            prop_assert_eq!(gone, []);
                        }
                    }
                }
            }
            for thread in 0..6 {
                // Each of them does something more.
                let last = op(OpKind::Sync, thread, (1 << 40, 1 << 40), 0);
                let gone = files.settle(&last, |_| None);
                replaced += gone.len();
            }
            prop_assert_eq!(replaced, kernel.replaced);
            let left = files.descriptors(1).into_iter();
            let left: BTreeMap<i32, u64> =
                left.map(|fd| (fd.0, *files.description(1, fd).unwrap())).collect();
            prop_assert_eq!(left, kernel.fds);
        }
    }
}
