//! What the flags of [`OpKind::Lock`](crate::OpKind::Lock) tell.
//!
//! | bits | |
//! | --- | --- |
//! | 0 to 7 | the operation of flock(2), or the command of fcntl(2) |
//! | 8, 9 | what is asked for: 1 a shared lock, 2 an exclusive one, 3 to give it up; 0 where nobody knows, as in traces of earlier releases |
//! | 10 | it was flock(2) |
//! | 11, 12 | `l_whence` of fcntl(2): what the row's offset counts from |

const ASKS_SHIFT: u32 = 8;
const ASKS_MASK: u32 = 3;
const BY_FLOCK: u32 = 1 << 10;
const WHENCE_SHIFT: u32 = 11;
const WHENCE_MASK: u32 = 3;

const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;
const LOCK_NB: u32 = 4;
const LOCK_UN: u32 = 8;

const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const F_RDLCK: u16 = 0;
const F_WRLCK: u16 = 1;
const F_UNLCK: u16 = 2;

/// Who a lock belongs to, and which others it is told apart from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockBy {
    /// flock(2): the open file, of all of it; locks of fcntl(2) are nothing to it.
    Flock,
    /// fcntl(2): the process, of a range.
    Process,
    /// fcntl(2) with `F_OFD_…`: the open file, of a range.
    OpenFile,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockAsks {
    /// A lock that others may share.
    Shared,
    /// One that nobody else may have.
    Exclusive,
    /// Nothing any more.
    Release,
}

/// What an offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockFrom {
    /// The file's beginning.
    Start,
    /// Where the open file stands.
    Position,
    /// The file's end.
    End,
}

/// One call on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockCall {
    /// Whose the lock is.
    pub by: LockBy,
    /// What is asked for.
    pub asks: LockAsks,
    /// Whether the call waits while others hold it.
    pub waits: bool,
    /// What the row's offset counts from.
    pub from: LockFrom,
}

impl LockCall {
    /// What flags tell; `None` where that is nothing, or the call only asks who holds a lock.
    pub fn of(flags: u32) -> Option<Self> {
        let asks = match flags >> ASKS_SHIFT & ASKS_MASK {
            1 => LockAsks::Shared,
            2 => LockAsks::Exclusive,
            3 => LockAsks::Release,
            _ => return None,
        };
        let command = flags & 0xff;
        let (by, waits) = match command {
            _ if flags & BY_FLOCK != 0 => (LockBy::Flock, command & LOCK_NB == 0),
            F_SETLK | F_SETLKW => (LockBy::Process, command == F_SETLKW),
            F_OFD_SETLK | F_OFD_SETLKW => (LockBy::OpenFile, command == F_OFD_SETLKW),
            _ => return None,
        };
        let from = match flags >> WHENCE_SHIFT & WHENCE_MASK {
            1 => LockFrom::Position,
            2 => LockFrom::End,
            _ => LockFrom::Start,
        };
        Some(Self {
            by,
            asks,
            waits,
            from,
        })
    }
}

/// Flags of flock(2) with this operation.
pub fn flock_flags(operation: u32) -> u32 {
    let asks = match operation & !LOCK_NB {
        LOCK_SH => 1,
        LOCK_EX => 2,
        LOCK_UN => 3,
        // The kernel refuses it.
        _ => return operation & 0xff | BY_FLOCK,
    };
    operation & 0xff | BY_FLOCK | asks << ASKS_SHIFT
}

/// Flags of fcntl(2) with this command and, where they are known, `l_type` and `l_whence`.
pub fn fcntl_lock_flags(command: u32, lock: Option<(u16, u16)>) -> u32 {
    let command = command & 0xff;
    let Some((kind, whence)) = lock.filter(|&(_, whence)| whence <= 2) else {
        return command;
    };
    let asks = match kind {
        F_RDLCK => 1,
        F_WRLCK => 2,
        F_UNLCK => 3,
        _ => return command,
    };
    command | asks << ASKS_SHIFT | u32::from(whence) << WHENCE_SHIFT
}

/// Whether the flags are of flock(2), its operation or fcntl's command, and fcntl's `l_type` and `l_whence` where known. Flags
/// of earlier releases are taken to be those of fcntl(2) where it has such a command.
pub fn lock_call_of(flags: u32) -> (bool, u32, Option<(u16, u16)>) {
    let command = flags & 0xff;
    let is_flock = if flags >> ASKS_SHIFT == 0 {
        !matches!(command, 5..=7 | 36..=38)
    } else {
        flags & BY_FLOCK != 0
    };
    let asks = (flags >> ASKS_SHIFT & ASKS_MASK) as u16;
    let whence = (flags >> WHENCE_SHIFT & WHENCE_MASK) as u16;
    let lock = asks.checked_sub(1).filter(|_| !is_flock);
    (is_flock, command, lock.map(|kind| (kind, whence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_what_was_asked() {
        let of = |flags| LockCall::of(flags).map(|lock| (lock.by, lock.asks, lock.waits));
        let exclusive = LockAsks::Exclusive;
        assert_eq!(
            of(flock_flags(LOCK_EX)),
            Some((LockBy::Flock, exclusive, true))
        );
        assert_eq!(
            of(flock_flags(LOCK_EX | LOCK_NB)),
            Some((LockBy::Flock, exclusive, false))
        );
        assert_eq!(
            of(flock_flags(LOCK_UN)),
            Some((LockBy::Flock, LockAsks::Release, true))
        );
        assert_eq!(
            of(fcntl_lock_flags(F_SETLK, Some((F_WRLCK, 0)))),
            Some((LockBy::Process, exclusive, false))
        );
        assert_eq!(
            of(fcntl_lock_flags(F_OFD_SETLKW, Some((F_RDLCK, 1)))),
            Some((LockBy::OpenFile, LockAsks::Shared, true))
        );
        // Who only asks holds nothing, and neither do calls of which nothing is known or that the kernel refuses.
        for flags in [
            fcntl_lock_flags(5, Some((F_WRLCK, 0))),
            fcntl_lock_flags(F_SETLK, None),
            fcntl_lock_flags(F_SETLK, Some((7, 0))),
            fcntl_lock_flags(F_SETLK, Some((F_WRLCK, 3))),
            flock_flags(LOCK_SH | LOCK_EX),
        ] {
            assert_eq!(of(flags), None, "{flags:#x}");
        }
    }

    #[test]
    fn flags_of_earlier_releases_tell_the_call_alone() {
        for (flags, is_flock) in [(1, true), (2, true), (6, false), (7, false), (38, false)] {
            assert_eq!(LockCall::of(flags), None);
            assert_eq!(lock_call_of(flags), (is_flock, flags, None));
        }
    }

    #[test]
    fn a_call_comes_back_from_its_flags() {
        for whence in 0..3 {
            let lock = Some((F_UNLCK, whence));
            let flags = fcntl_lock_flags(F_OFD_SETLK, lock);
            assert_eq!(lock_call_of(flags), (false, F_OFD_SETLK, lock));
        }
        let flags = flock_flags(LOCK_EX | LOCK_NB);
        assert_eq!(lock_call_of(flags), (true, 6, None));
    }
}
