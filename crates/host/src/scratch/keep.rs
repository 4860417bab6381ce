//! Keeping a whole file system as an image, with what made it.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsage_core::Errno;
use fsage_format::image::{Aged, ImageHead, ImageWriter};
use fsage_format::{FormatError, whole};

use super::carrier::lies_on;
use super::restore::{about_image, data_of, unless};
use crate::{HostError, HostFs, HostOptions, freeze, machine};

/// `_IOWR('X', 121, struct fstrim_range)` of linux/fs.h.
const FITRIM: libc::Ioctl = 0xc018_5879_u32 as libc::Ioctl;

/// How long a file system stays frozen without a piece of it being kept. A write that waits for it shows itself by this
/// alone where what lies between cannot be seen; a device or a pipe that is slower than that is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps the file system that is mounted on a directory. A scratch file system of this process is unmounted
/// meanwhile, and mounted again; any other is frozen, so that nobody changes it. Returns the bytes of data.
pub fn keep(
    dir: &Path,
    target: &str,
    aged: Option<Aged>,
    to: &Path,
    stop: &AtomicBool,
) -> Result<u64, HostError> {
    let fs = HostFs::open(dir, HostOptions::default())?;
    let refused = |why: String| HostError::Refused {
        what: format!("keep {} as an image", dir.display()),
        why,
    };
    let made = fs.made();
    let mount = fs.mount().cloned();
    let mount = mount.ok_or_else(|| refused("what is mounted there cannot be told".into()))?;
    if made.is_none() && fs.dir() != mount.dir {
        return Err(refused(format!(
            "what is kept is a whole file system; expected {}, where it is mounted, or a scratch: target",
            mount.dir.display()
        )));
    }
    let mut head = ImageHead {
        fsage: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine::identity().kernel,
        file_system: mount.kind.clone(),
        target: target.to_owned(),
        aged,
        ..ImageHead::default()
    };
    let Some(made) = made else {
        return frozen(&fs, head, to, &mount.source, stop);
    };
    // The blocks of files that are gone hold what they held: as holes they cost nothing.
    trim(&fs);
    drop(fs);
    let record = made.record();
    (head.mkfs_options, head.mkfs) = (record.mkfs_options.clone(), record.mkfs_version.clone());
    head.size_bytes = record.spec.size_bytes;
    let mut written = Err(refused("its image was not reached".into()));
    made.apart(|device| written = write(device.image(), &head, to, stop))
        .map_err(|errno| refused(format!("it could not be unmounted for that: {errno}")))?;
    written
}

/// Keeps the raw image of a file system, as dd makes it.
pub fn keep_file(
    image: &Path,
    aged: Option<Aged>,
    to: &Path,
    stop: &AtomicBool,
) -> Result<u64, HostError> {
    let about = about_image(image)?;
    if about.head.is_some() {
        return Err(HostError::Refused {
            what: format!("keep {}", image.display()),
            why: "it is an image that was kept already, expected a target or one that dd made"
                .into(),
        });
    }
    let head = ImageHead {
        fsage: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine::identity().kernel,
        file_system: about.kind,
        size_bytes: about.size_bytes,
        target: image.display().to_string(),
        aged,
        ..ImageHead::default()
    };
    let from = File::open(image).map_err(|e| HostError::at("open image", image, e))?;
    write(&from, &head, to, stop)
}

/// Keeps what lies on the device of a file system that others use.
fn frozen(
    fs: &HostFs,
    mut head: ImageHead,
    to: &Path,
    device: &Path,
    stop: &AtomicBool,
) -> Result<u64, HostError> {
    let refused = |why: &str| HostError::Refused {
        what: format!("keep {} as an image", fs.dir().display()),
        why: why.to_owned(),
    };
    if fs.holds_machine_root() {
        return Err(refused(
            "it is the machine's root, which is never frozen; expected another file system",
        ));
    }
    // Before it is begun: an image that stands there may have to be emptied for that.
    let end = whole::end_of(to).map_err(|e| HostError::at("write image", to, e))?;
    let place = end.parent().filter(|p| !p.as_os_str().is_empty());
    let place = place.unwrap_or(Path::new("."));
    let lies_in_it = "the image would lie in it, expected another file system for -o";
    if File::open(place).is_ok_and(|dir| lies_on(dir.as_fd(), place, fs)) {
        return Err(refused(lies_in_it));
    }
    // Of one that lies on none the mount table has a name there, or what serves it.
    let of_block = std::fs::metadata(device).is_ok_and(|about| about.file_type().is_block_device());
    if !of_block {
        return Err(refused(&format!(
            "{} lies on no block device, expected a file system that does, or a scratch: target",
            head.file_system
        )));
    }
    let from = past_cache(device).map_err(|e| HostError::at("open device", device, e))?;
    head.size_bytes = rustix::fs::seek(&from, rustix::fs::SeekFrom::End(0))
        .map_err(|e| HostError::at("measure", device, e))?;
    let mut writer = begin(to, &head)?;
    if lies_on(writer.file().as_fd(), &end, fs) {
        return Err(refused(lies_in_it));
    }
    let filled = freeze::while_frozen(fs.root().as_fd(), PATIENCE, |sign| {
        let goes_on = &mut || unless(stop).and_then(|()| sign.give());
        fill(&mut writer, &from, &head, to, goes_on)
    });
    match filled {
        Err(Errno::ETIMEDOUT) => Err(refused(&format!(
            "nothing of it was kept for {} s, and it was thawed; expected -o where no write waits for it",
            PATIENCE.as_secs()
        ))),
        Err(errno) => Err(refused(&format!("it cannot be frozen for that: {errno}"))),
        Ok(filled) => filled.and_then(|()| end_of(writer, to)),
    }
}

/// Opens the device of a mounted file system. Of a device the cache has what was read of it before, as by this, and not
/// what files were given since.
fn past_cache(device: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    let direct = options.custom_flags(libc::O_DIRECT).open(device);
    direct.or_else(|_| File::open(device))
}

fn write(from: &File, head: &ImageHead, to: &Path, stop: &AtomicBool) -> Result<u64, HostError> {
    let mut writer = begin(to, head)?;
    fill(&mut writer, from, head, to, &mut || unless(stop))?;
    end_of(writer, to)
}

fn begin(to: &Path, head: &ImageHead) -> Result<ImageWriter, HostError> {
    ImageWriter::create(to, head).map_err(|e| failed(to, &e))
}

/// Puts the image under its name; returns its bytes of data.
fn end_of(writer: ImageWriter, to: &Path) -> Result<u64, HostError> {
    let data_bytes = writer.data_bytes;
    writer.finish().map_err(|e| failed(to, &e))?;
    Ok(data_bytes)
}

fn failed(to: &Path, error: &FormatError) -> HostError {
    HostError::io(
        format!("keep {}", to.display()),
        std::io::Error::other(error.to_string()),
    )
}

/// Writes all data; before each piece that is read it asks whether to go on.
fn fill(
    writer: &mut ImageWriter,
    from: &File,
    head: &ImageHead,
    to: &Path,
    goes_on: &mut dyn FnMut() -> std::io::Result<()>,
) -> Result<(), HostError> {
    let mut push = |at, block: &[u8]| {
        writer.push(at, block).map_err(|e| match e {
            FormatError::Io { source, .. } => source,
            other => std::io::Error::other(other.to_string()),
        })
    };
    data_of(from, head.size_bytes, goes_on, &mut push)
        .map_err(|e| HostError::at("write image", to, e))
}

/// Lets the device forget what is free. Not every file system or device can.
fn trim(fs: &HostFs) {
    let mut range: [u64; 3] = [0, u64::MAX, 0];
    // SAFETY: reads and writes three numbers: start, length, the least length.
    unsafe { libc::ioctl(fs.root().as_raw_fd(), FITRIM, range.as_mut_ptr()) };
}
