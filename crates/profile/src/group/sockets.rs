//! `sendfile` to sockets: what a server of files does. The call's time is the socket's as much as the file's.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsage_core::Errno;
use rustix::fs::{Mode, OFlags};

use crate::error::{Halt, Res};
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;
use crate::together::no_thread;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "sendfile to sockets",
    stems: &["SND", "SNDU"],
    share: (8, 12),
    run: sockets,
}];

const SIZES_KIB: [u32; 4] = [4, 16, 64, 256];
/// Files of each size.
const FILES: usize = 6;
/// What a socket holds, so that no call waits for who reads.
const ROOM_BYTES: u32 = 4 << 20;
/// Pauses of successive rounds: half of them back to back.
const GAP_OF_ROUND: [usize; 8] = [0, 1, 0, 2, 0, 3, 0, 4];

fn sockets(lab: &mut Lab<'_>) -> Res {
    let Some(root) = lab.host_dir.clone() else {
        return Err(Halt::Absent(
            "the target is no directory of this machine".to_owned(),
        ));
    };
    let dir = lab.fresh_dir("k")?;
    let mut files = Vec::new();
    for kib in SIZES_KIB {
        for number in 0..FILES {
            let name = format!("{dir}/{kib}-{number}");
            lab.make_file(name.as_bytes(), u64::from(kib) << 10)?;
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::open(root.join(&name), flags, Mode::empty());
            files.push((kib, File::from(opened.map_err(errno)?)));
        }
    }
    lab.settle_in_time()?;
    lab.steady(&["SND", "SNDU"]);
    match tcp() {
        Ok((from, to)) => measure(lab, "SND", &files, from, to)?,
        Err(error) => lab.absent("SND", &format!("no TCP over loopback: {error}")),
    }
    match UnixStream::pair() {
        Ok((from, to)) => measure(lab, "SNDU", &files, from, to)?,
        Err(error) => lab.absent("SNDU", &format!("no sockets: {error}")),
    }
    lab.clear(&dir)
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

fn tcp() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let from = TcpStream::connect(listener.local_addr()?)?;
    from.set_nodelay(true)?;
    Ok((from, listener.accept()?.0))
}

/// What the thread that reads the other end has received, and whether it still does.
#[derive(Default)]
struct Received {
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl Received {
    fn all_of(&self, mut socket: impl Read) {
        let mut buffer = vec![0; 256 << 10];
        while let Ok(count @ 1..) = socket.read(&mut buffer) {
            self.bytes.fetch_add(count as u64, Ordering::Release);
        }
        self.ended.store(true, Ordering::Release);
    }

    /// Until all that was sent is there, and who reads waits again.
    fn wait_for(&self, sent: u64) {
        while self.bytes.load(Ordering::Acquire) < sent && !self.ended.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// Another thread reads what is sent, as a client does.
fn measure<S: AsFd>(
    lab: &mut Lab<'_>,
    stem: &str,
    files: &[(u32, File)],
    from: S,
    to: impl Read + Send,
) -> Res {
    fsage_host::socket::send_room(&from, ROOM_BYTES);
    let received = Received::default();
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().spawn_scoped(scope, || received.all_of(to));
        // Nobody would take what is sent.
        reading.map_err(|e| no_thread(&e))?;
        let mut sent = 0;
        let rounds = (lab.scale(8, 16), lab.scale(16, 60));
        let done = lab.rounds(&[stem], rounds, |lab, round| {
            let gap = GAP_OF_ROUND.get(round % 8).copied().unwrap_or(0);
            let mut order: Vec<usize> = (0..files.len()).collect();
            lab.random.shuffle(&mut order);
            lab.begin(Batch::Cached);
            for (kib, file) in order.iter().filter_map(|&at| files.get(at)) {
                received.wait_for(sent);
                let (mut offset, bytes) = (0, u64::from(*kib) << 10);
                sent += lab.call(Probe::at(stem, *kib), gap, || {
                    let done = rustix::fs::sendfile(&from, file, Some(&mut offset), bytes as usize);
                    done.map_err(errno)
                })? as u64;
            }
            lab.end().map(|_| ())
        });
        // Ends the thread that reads.
        drop(from);
        done
    })
}
