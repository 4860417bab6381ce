//! Against a plain model: each task has its own maps behind `Rc`, as the kernel's are behind counts.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fsage_core::{Fd, Op, OpKind, OpSource as _, any_ops};
use fsage_namespace::flags::{CLONE_FILES, CLONE_FS, CLONE_THREAD, O_CLOEXEC};
use fsage_namespace::{Closed, Processes};
use proptest::prelude::*;

type Files = BTreeMap<Fd, (Rc<Cell<u64>>, bool)>;

#[derive(Clone, Default)]
struct Task {
    process: u32,
    files: Rc<RefCell<Files>>,
    directory: Rc<Cell<u64>>,
}

/// What operations mean, told plainly.
#[derive(Default)]
struct Plain {
    tasks: BTreeMap<u32, Task>,
}

impl Plain {
    fn task(&mut self, number: u32) -> &mut Task {
        self.tasks.entry(number).or_insert_with(|| Task {
            process: number,
            ..Task::default()
        })
    }

    /// Open files that nobody has any more are counted by `Rc`; every one that goes is told.
    fn fork(&mut self, parent: u32, child: u32, flags: u32) {
        let from = self.task(parent).clone();
        self.tasks.entry(child).or_insert(Task {
            process: if flags & CLONE_THREAD != 0 {
                from.process
            } else {
                child
            },
            files: if flags & CLONE_FILES != 0 {
                from.files
            } else {
                Rc::new(RefCell::new(from.files.borrow().clone()))
            },
            directory: if flags & CLONE_FS != 0 {
                from.directory
            } else {
                Rc::new(Cell::new(from.directory.get()))
            },
        });
    }

    fn exec(&mut self, number: u32) {
        let task = self.task(number);
        let mut own = task.files.borrow().clone();
        own.retain(|_, (_, on_exec)| !*on_exec);
        task.files = Rc::new(RefCell::new(own));
    }
}

/// Both sides after one operation; open files are told apart by the number of the operation.
fn both(op: &Op, number: u64, plain: &mut Plain, tables: &mut Processes<u64, u64>) {
    let task = op.tid.0;
    // Whoever does anything is met by it.
    assert_eq!(tables.process(task), plain.task(task).process);
    let value = op.result.value().and_then(|v| i32::try_from(v).ok());
    match (op.kind, op.fd, value) {
        (OpKind::Open, _, Some(fd)) => {
            let on_exec = op.flags & O_CLOEXEC != 0;
            let file = (Rc::new(Cell::new(number)), on_exec);
            plain.task(task).files.borrow_mut().insert(Fd(fd), file);
            let open = tables.add(number);
            tables.install(task, Fd(fd), open, on_exec);
        }
        (OpKind::Dup, Some(old), Some(new)) => {
            let on_exec = op.flags & 1 != 0;
            let files = Rc::clone(&plain.task(task).files);
            let file = files.borrow().get(&old).cloned();
            if let Some((file, _)) = file.filter(|_| old.0 != new) {
                files.borrow_mut().insert(Fd(new), (file, on_exec));
            }
            tables.dup(task, old, Fd(new), on_exec);
        }
        (OpKind::Close, Some(fd), _) => {
            let gone = plain.task(task).files.borrow_mut().remove(&fd);
            let closed = tables.close(task, fd);
            let last = gone.as_ref().map(|(file, _)| Rc::strong_count(file) == 1);
            assert_eq!(closed.map(|c| c.last.is_some()), last, "{op:?}");
        }
        // A position is the open file's, not the descriptor's.
        (OpKind::Seek, Some(fd), _) => {
            if let Some((file, _)) = plain.task(task).files.borrow().get(&fd) {
                file.set(number);
            }
            if let Some(file) = tables.description(task, fd) {
                *file = number;
            }
        }
        (OpKind::Chdir, ..) => {
            plain.task(task).directory.set(number);
            tables.set_directory(task, number);
        }
        (OpKind::Fork, _, Some(child)) => {
            plain.fork(task, child as u32, op.flags);
            tables.fork(task, child as u32, op.flags);
        }
        (OpKind::Exec, ..) => {
            plain.exec(task);
            tables.exec(task);
        }
        (OpKind::Lock, Some(fd), _) => {
            if let Some((_, on_exec)) = plain.task(task).files.borrow_mut().get_mut(&fd) {
                *on_exec = op.flags & 1 != 0;
            }
            tables.set_close_on_exec(task, fd, op.flags & 1 != 0);
        }
        (OpKind::Exit, ..) => {
            let gone = plain.task(task).clone();
            plain.tasks.remove(&task);
            let members = plain.tasks.values().filter(|t| t.process == gone.process);
            let last = members.count() == 0;
            let ended = tables.exit(task);
            assert_eq!((ended.process, ended.last), (gone.process, last));
        }
        _ => {}
    }
}

fn same(plain: &Plain, tables: &mut Processes<u64, u64>) {
    let mut held = 0;
    let mut counted: Vec<*const RefCell<Files>> = Vec::new();
    let mut files: Vec<*const Cell<u64>> = Vec::new();
    for (&number, task) in &plain.tasks {
        let own = task.files.borrow();
        let descriptors: Vec<Fd> = own.keys().copied().collect();
        assert_eq!(tables.descriptors(number), descriptors);
        for (&fd, (file, _)) in &*own {
            assert_eq!(tables.description(number, fd).copied(), Some(file.get()));
            files.push(Rc::as_ptr(file));
        }
        let directory = tables.directory(number).copied().unwrap_or_default();
        assert_eq!(directory, task.directory.get());
        if !counted.contains(&Rc::as_ptr(&task.files)) {
            counted.push(Rc::as_ptr(&task.files));
            held += own.len();
        }
    }
    files.sort_unstable();
    files.dedup();
    assert_eq!(tables.held(), (held, files.len()));
}

proptest! {
    #[test]
    fn any_stream_means_what_the_plain_model_says(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        seed in any::<u64>(),
    ) {
        let mut source = any_ops::any_ops(&bytes, seed, 400, 1 << 40);
        let (mut plain, mut tables) = (Plain::default(), Processes::default());
        let (mut ops, mut number) = (Vec::new(), 0);
        while source.next_batch(&mut ops).unwrap() > 0 {
            for op in ops.drain(..) {
                number += 1;
                both(&op, number, &mut plain, &mut tables);
                if number % 16 == 0 {
                    same(&plain, &mut tables);
                }
            }
        }
        same(&plain, &mut tables);
        let tasks: Vec<u32> = tables.tasks().collect();
        for task in tasks {
            tables.exit(task);
        }
        prop_assert_eq!(tables.held(), (0, 0), "nothing is left behind");
    }
}

#[test]
fn offsets_are_shared_across_dup_and_fork() {
    let mut all: Processes<u64, u64> = Processes::default();
    let open = all.add(0);
    assert_eq!(all.install(1, Fd(3), open, true), None);
    assert_eq!(all.dup(1, Fd(3), Fd(4), false), None);
    all.fork(1, 2, 0);
    *all.description(2, Fd(4)).unwrap() = 7;
    assert_eq!(all.description(1, Fd(3)), Some(&mut 7));
    assert_eq!(all.exec(1), [Closed { open, last: None }]);
    assert_eq!(
        (all.open_of(1, Fd(3)), all.open_of(1, Fd(4))),
        (None, Some(open))
    );
    assert_eq!(all.exit(1).closed.len(), 1);
    let ended = all.exit(2);
    let last: Vec<Option<u64>> = ended.closed.iter().map(|c| c.last).collect();
    assert_eq!(last, [None, Some(7)]);
}

#[test]
fn threads_share_and_processes_do_not() {
    let mut all: Processes<u64, u64> = Processes::default();
    let open = all.add(0);
    all.install(1, Fd(3), open, false);
    all.fork(1, 2, CLONE_FILES | CLONE_THREAD | CLONE_FS);
    all.fork(1, 10, 0);
    all.close(2, Fd(3));
    assert_eq!(all.open_of(1, Fd(3)), None);
    assert_eq!(all.open_of(10, Fd(3)), Some(open));
    assert_eq!((all.process(2), all.process(10)), (1, 10));
    assert!(!all.exit(2).last && all.exit(1).last);
}

#[test]
fn a_fork_bomb_is_bounded() {
    let mut all: Processes<u64, u64> = Processes::default();
    for fd in 0..20_000 {
        let open = all.add(0);
        all.install(1, Fd(fd), open, false);
    }
    for child in 2..100_000 {
        all.fork(child - 1, child, 0);
    }
    assert!(all.held().0 <= 1 << 22);
    assert_eq!(all.descriptors(99_999), [], "copies begin empty by then");
}

/// A thread whose table or directory is its own, one that it makes, and what becomes of both.
#[test]
fn threads_that_share_less_are_tasks_of_their_own() {
    let mut p = Processes::<u64, u64>::default();
    let open = p.add(1);
    p.install(7, Fd(3), open, false);
    p.set_directory(7, 70);
    let threads = CLONE_THREAD | CLONE_FILES | CLONE_FS;
    p.thread(7, 7, 8, threads);
    assert_eq!(p.task_of(7, 8), 7);
    p.thread(7, 8, 8, CLONE_FILES);
    let own = p.task_of(7, 8);
    assert_ne!(own, 7);
    assert_eq!(p.process_of(own, 8), 7);
    p.set_directory(own, 80);
    assert_eq!((p.directory(7), p.directory(own)), (Some(&70), Some(&80)));
    // Descriptors are still the process's.
    p.close(own, Fd(3));
    assert_eq!(p.open_of(7, Fd(3)), None);
    let open = p.add(2);
    p.install(own, Fd(4), open, false);
    p.thread(7, 8, 8, 0);
    p.close(own, Fd(4));
    assert!(p.open_of(7, Fd(4)).is_some());
    // What it makes shares with it, not with the process.
    p.thread(7, 8, 9, threads);
    assert_eq!(p.directory(p.task_of(7, 9)), Some(&80));
    assert_eq!(p.task_of(6, 9), 6);
    // A program that it runs takes over what is its own.
    p.exec_by(7, 8);
    assert_eq!((p.task_of(7, 8), p.directory(7)), (7, Some(&80)));
    p.end_thread(9);
    p.exit(7);
    assert_eq!(p.held(), (0, 0));
    assert_eq!(p.tasks().count(), 0);
}

/// Threads as the kernel has them: each with its own counts of a table and a directory. A process holds what it began with
/// until it ends.
#[derive(Default)]
struct Threads {
    processes: BTreeMap<u32, Task>,
    /// By number; `process` is whose thread it is.
    threads: BTreeMap<u32, Task>,
}

/// What a thread does: which one of them, which other number it names, what else it chooses.
type Step = (u8, u8, u32, u32);

impl Threads {
    fn begin() -> Self {
        let mut all = Self::default();
        let first = Task {
            process: 1,
            ..Task::default()
        };
        all.processes.insert(1, first.clone());
        all.threads.insert(1, first);
        all
    }

    fn is_free(&self, number: u32) -> bool {
        !self.threads.contains_key(&number) && !self.processes.contains_key(&number)
    }

    /// What shares with `from` by these flags, and has copies of the rest.
    fn sharing(from: &Task, flags: u32) -> Task {
        let mut plain = Plain::default();
        plain.tasks.insert(0, from.clone());
        plain.fork(0, 1, flags | CLONE_THREAD);
        plain.tasks.remove(&1).unwrap()
    }

    /// One step on both sides.
    fn step(
        &mut self,
        (what, who, other, flags): Step,
        number: u64,
        tables: &mut Processes<u64, u64>,
    ) {
        let Some((&tid, own)) = self
            .threads
            .iter()
            .nth(usize::from(who) % self.threads.len().max(1))
        else {
            return;
        };
        let own = own.clone();
        let task = tables.task_of(own.process, tid);
        let fd = Fd(other as i32 % 4);
        match what % 8 {
            0 => {
                let open = tables.add(number);
                tables.install(task, fd, open, flags & 1 != 0);
                let file = (Rc::new(Cell::new(number)), flags & 1 != 0);
                own.files.borrow_mut().insert(fd, file);
            }
            1 => {
                let closed = tables.close(task, fd).is_some();
                assert_eq!(closed, own.files.borrow_mut().remove(&fd).is_some());
            }
            2 => {
                tables.set_directory(task, number);
                own.directory.set(number);
            }
            3 if self.is_free(other) => {
                tables.thread(task, tid, other, flags | CLONE_THREAD);
                self.threads.insert(other, Self::sharing(&own, flags));
            }
            4 => {
                // It shares no more than this.
                tables.thread(task, tid, tid, flags);
                self.threads.insert(tid, Self::sharing(&own, flags));
            }
            5 if self.is_free(other) => {
                tables.fork(task, other, 0);
                let child = Task {
                    process: other,
                    ..Self::sharing(&own, 0)
                };
                self.processes.insert(other, child.clone());
                self.threads.insert(other, child);
            }
            6 => self.exec(tid, &own, tables),
            7 => self.end(tid, own.process, tables),
            _ => {}
        }
    }

    /// Ends all threads of a process but one.
    fn end_others(&mut self, process: u32, but: Option<u32>, tables: &mut Processes<u64, u64>) {
        let ends = |tid: &u32, task: &Task| task.process == process && Some(*tid) != but;
        for (&tid, _) in self.threads.iter().filter(|(tid, task)| ends(tid, task)) {
            tables.end_thread(tid);
        }
        self.threads.retain(|tid, task| !ends(tid, task));
    }

    /// The thread that runs a program is its process's only one from there on, and its first.
    fn exec(&mut self, tid: u32, own: &Task, tables: &mut Processes<u64, u64>) {
        let process = own.process;
        self.end_others(process, Some(tid), tables);
        tables.exec_by(tables.task_of(process, tid), tid);
        let task = Self::sharing(own, CLONE_FS);
        task.files.borrow_mut().retain(|_, (_, on_exec)| !*on_exec);
        self.threads.remove(&tid);
        self.processes.insert(process, task.clone());
        self.threads.insert(process, task);
    }

    fn end(&mut self, tid: u32, process: u32, tables: &mut Processes<u64, u64>) {
        tables.end_thread(tid);
        self.threads.remove(&tid);
        if self.threads.values().all(|task| task.process != process) {
            tables.exit(process);
            self.processes.remove(&process);
        }
    }

    fn same(&self, tables: &mut Processes<u64, u64>) {
        let (mut all, mut files) = (Vec::new(), Vec::new());
        for (&tid, own) in &self.threads {
            let task = tables.task_of(own.process, tid);
            assert_eq!(tables.process_of(task, tid), own.process);
            let descriptors: Vec<Fd> = own.files.borrow().keys().copied().collect();
            assert_eq!(tables.descriptors(task), descriptors, "of thread {tid}");
            for (&fd, (file, _)) in &*own.files.borrow() {
                assert_eq!(tables.description(task, fd).copied(), Some(file.get()));
            }
            let directory = tables.directory(task).copied().unwrap_or_default();
            assert_eq!(directory, own.directory.get(), "of thread {tid}");
        }
        for own in self.threads.values().chain(self.processes.values()) {
            all.push(Rc::clone(&own.files));
        }
        all.sort_by_key(Rc::as_ptr);
        all.dedup_by_key(|table| Rc::as_ptr(table));
        for table in &all {
            files.extend(table.borrow().values().map(|(file, _)| Rc::as_ptr(file)));
        }
        let held = files.len();
        files.sort_unstable();
        files.dedup();
        assert_eq!(tables.held(), (held, files.len()));
    }
}

proptest! {
    #[test]
    fn threads_that_share_less_mean_what_the_kernel_says(
        steps in proptest::collection::vec(
            (
                any::<u8>(),
                any::<u8>(),
                2..12u32,
                proptest::sample::select(vec![0, CLONE_FILES, CLONE_FS, CLONE_FILES | CLONE_FS]),
            ),
            0..200,
        ),
    ) {
        let (mut threads, mut tables) = (Threads::begin(), Processes::default());
        for (step, number) in steps.into_iter().zip(1..) {
            threads.step(step, number, &mut tables);
            threads.same(&mut tables);
        }
        while let Some((&tid, task)) = threads.threads.iter().next() {
            let process = task.process;
            threads.end(tid, process, &mut tables);
        }
        prop_assert_eq!(tables.held(), (0, 0), "nothing is left behind");
        prop_assert_eq!(tables.tasks().count(), 0);
    }
}
