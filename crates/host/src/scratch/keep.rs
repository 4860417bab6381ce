//! Keeping a whole file system as an image, with what made it.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fsage_format::FormatError;
use fsage_format::image::{Aged, ImageHead, ImageWriter};

use super::restore::{about_image, data_of};
use crate::{HostError, HostFs, HostOptions, freeze, machine};

/// `_IOWR('X', 121, struct fstrim_range)` of linux/fs.h.
const FITRIM: libc::Ioctl = 0xc018_5879_u32 as libc::Ioctl;

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
    let place = to.parent().filter(|p| !p.as_os_str().is_empty());
    let place = std::fs::metadata(place.unwrap_or(Path::new(".")));
    let own = std::fs::metadata(fs.dir());
    if matches!((&place, &own), (Ok(place), Ok(own)) if place.dev() == own.dev()) {
        return Err(refused(
            "the image would lie in it, expected another file system for -o",
        ));
    }
    // Of one that lies on none the mount table has a name there, or what serves it.
    let of_block = std::fs::metadata(device).is_ok_and(|about| about.file_type().is_block_device());
    if !of_block {
        return Err(refused(&format!(
            "{} lies on no block device, expected a file system that does, or a scratch: target",
            head.file_system
        )));
    }
    let from = File::open(device).map_err(|e| HostError::at("open device", device, e))?;
    head.size_bytes = rustix::fs::seek(&from, rustix::fs::SeekFrom::End(0))
        .map_err(|e| HostError::at("measure", device, e))?;
    freeze::while_frozen(fs.root().as_fd(), || write(&from, &head, to, stop))
        .map_err(|errno| refused(&format!("it cannot be frozen for that: {errno}")))?
}

fn write(from: &File, head: &ImageHead, to: &Path, stop: &AtomicBool) -> Result<u64, HostError> {
    let failed = |e: FormatError| {
        HostError::io(
            format!("keep {}", to.display()),
            std::io::Error::other(e.to_string()),
        )
    };
    let mut writer = ImageWriter::create(to, head).map_err(failed)?;
    let mut push = |at, block: &[u8]| {
        writer.push(at, block).map_err(|e| match e {
            FormatError::Io { source, .. } => source,
            other => std::io::Error::other(other.to_string()),
        })
    };
    data_of(from, head.size_bytes, stop, &mut push)
        .map_err(|e| HostError::at("write image", to, e))?;
    let data_bytes = writer.data_bytes;
    writer.finish().map_err(failed)?;
    Ok(data_bytes)
}

/// Lets the device forget what is free. Not every file system or device can.
fn trim(fs: &HostFs) {
    let mut range: [u64; 3] = [0, u64::MAX, 0];
    // SAFETY: reads and writes three numbers: start, length, the least length.
    unsafe { libc::ioctl(fs.root().as_raw_fd(), FITRIM, range.as_mut_ptr()) };
}
