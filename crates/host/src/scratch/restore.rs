//! The image of a file system, copied to where a scratch file system lies, in place of mkfs.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_format::image::{ImageHead, ImageReader, is_image};
use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;

use super::disk::{Disk, DiskProvider};
use super::spec::ScratchSpec;
use super::{Made, Scratch, superblock};
use crate::HostError;

/// What is read and written at once; what is zero in pieces of a block is left out.
const PIECE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 64 << 10;
/// No device wants what is read past the cache to lie at a multiple of more.
const ALIGNED: usize = 4096;

/// Places of a copy that are held against the image.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: usize = 4096;

/// An image that fits a scratch file system.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    source: Source,
    bytes: u64,
}

/// Where the bytes of an image come from.
#[derive(Debug)]
enum Source {
    /// A file system byte by byte, as dd makes it.
    Raw(File),
    /// One that fsage kept.
    Kept(Box<ImageReader>),
}

/// What an image holds, as far as it tells.
#[derive(Debug, Clone)]
pub struct ImageAbout {
    /// The type of the file system.
    pub kind: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// What else is known of one that fsage kept.
    pub head: Option<ImageHead>,
}

/// Looks at an image, whatever it is for.
pub fn about_image(path: &Path) -> Result<ImageAbout, HostError> {
    let file = open_regular(path)?;
    if is_image(&file) {
        let head = ImageReader::open(path).map_err(damaged)?.head().clone();
        return Ok(ImageAbout {
            kind: head.file_system.clone(),
            size_bytes: head.size_bytes,
            head: Some(head),
        });
    }
    let failed = |e| HostError::at("read the superblock of", path, e);
    let found = superblock::find(&file).map_err(failed)?;
    let found = found.ok_or_else(|| HostError::Refused {
        what: format!("use image {}", path.display()),
        why: format!(
            "it holds no file system that is known here, expected one of {}",
            superblock::KNOWN.join(" ")
        ),
    })?;
    let length = file.metadata().map_err(failed)?.len();
    Ok(ImageAbout {
        kind: found.kind.to_owned(),
        size_bytes: found.bytes.max(length),
        head: None,
    })
}

fn damaged(error: fsage_format::FormatError) -> HostError {
    let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
    HostError::io("use an image", error)
}

/// Opens what is a file: of a device an open can be too much already.
fn open_regular(path: &Path) -> Result<File, HostError> {
    let about = std::fs::metadata(path).map_err(|e| HostError::at("look at image", path, e))?;
    if !about.is_file() {
        return Err(HostError::Refused {
            what: format!("use image {}", path.display()),
            why: "it is no regular file, expected the image of a file system as dd or `fsage age keep` \
                  makes it"
                .into(),
        });
    }
    File::open(path).map_err(|e| HostError::at("open image", path, e))
}

impl Image {
    /// Opens the image of a file system, to be read only. Fails if it is not one that `spec` can be made
    /// of.
    pub fn open(spec: &ScratchSpec, path: &Path) -> Result<Self, HostError> {
        let refused = |why: String| HostError::Refused {
            what: format!("use image {}", path.display()),
            why,
        };
        let file = open_regular(path)?;
        let kind = spec.kind.as_str();
        if is_image(&file) {
            let reader = ImageReader::open(path).map_err(damaged)?;
            let (holds, bytes) = (reader.head().file_system.clone(), reader.head().size_bytes);
            if !superblock::takes(kind, &holds) {
                return Err(refused(format!("it holds {holds}, expected {kind}")));
            }
            if bytes > spec.size_bytes {
                return Err(refused(too_large(bytes, spec)));
            }
            let source = Source::Kept(Box::new(reader));
            return Ok(Self {
                path: path.to_owned(),
                source,
                bytes,
            });
        }
        let about = file
            .metadata()
            .map_err(|e| HostError::at("look at image", path, e))?;
        let found = superblock::find(&file)
            .map_err(|e| HostError::at("read the superblock of", path, e))?;
        let known = superblock::KNOWN.contains(&kind);
        match found {
            Some(found) if !superblock::takes(kind, found.kind) => {
                return Err(refused(format!("it holds {}, expected {kind}", found.kind)));
            }
            Some(found) if found.bytes > about.len() => {
                return Err(refused(format!(
                    "it is truncated: its {} has {} bytes, the file {}",
                    found.kind,
                    found.bytes,
                    about.len()
                )));
            }
            None if known => {
                return Err(refused(format!("no {kind} was found in it, expected one")));
            }
            // The kernel decides of what is not known here.
            Some(_) | None => {}
        }
        if about.len() > spec.size_bytes {
            return Err(refused(too_large(about.len(), spec)));
        }
        Ok(Self {
            path: path.to_owned(),
            bytes: about.len(),
            source: Source::Raw(file),
        })
    }

    /// Copies it, sparse, into an empty file of the size of the file system; a reflink where both lie on
    /// one file system that has them. Returns how many bytes of data it took. The image is not written.
    fn copy_to(&mut self, to: &File, stop: &AtomicBool) -> Result<u64, HostError> {
        let failed = |e: std::io::Error| HostError::at("copy image", &self.path, e);
        let size = to.metadata().map_err(failed)?.size();
        let file = match &mut self.source {
            Source::Raw(file) => file,
            Source::Kept(reader) => {
                let copied = unpack(reader, to, stop)?;
                to.sync_all().map_err(failed)?;
                let _ = rustix::fs::fadvise(to.as_fd(), 0, None, Advice::DontNeed);
                return Ok(copied);
            }
        };
        let copied = if rustix::fs::ioctl_ficlone(to, &*file).is_ok() {
            // A clone has the size of its origin.
            to.set_len(size).map_err(failed)?;
            self.bytes
        } else {
            copy_data(file, to, self.bytes, stop).map_err(failed)?
        };
        to.sync_all().map_err(failed)?;
        // The pages of a file in memory stay, as they are the file.
        let _ = rustix::fs::fadvise(to.as_fd(), 0, None, Advice::DontNeed);
        let _ = rustix::fs::fadvise(file.as_fd(), 0, None, Advice::DontNeed);
        check(file, self.bytes, to).map_err(failed)?;
        Ok(copied)
    }
}

fn too_large(bytes: u64, spec: &ScratchSpec) -> String {
    format!(
        "it has {bytes} bytes, more than the {} of {spec}; expected size={bytes} or more",
        spec.size_bytes
    )
}

/// Writes the pieces of an image that fsage kept; whether they are whole is known at the last.
fn unpack(reader: &mut ImageReader, to: &File, stop: &AtomicBool) -> Result<u64, HostError> {
    let (mut piece, mut copied) = (Vec::new(), 0);
    while let Some(place) = reader.next(&mut piece).map_err(damaged)? {
        if stop.load(Ordering::Relaxed) {
            return Err(HostError::io(
                "copy an image",
                std::io::ErrorKind::Interrupted,
            ));
        }
        to.write_all_at(&piece, place)
            .map_err(|e| HostError::io("write the copy of an image", e))?;
        copied += piece.len() as u64;
    }
    Ok(copied)
}

/// Whether a copy of a file of so many bytes is one, at its beginning, its end and places between.
fn check(file: &File, bytes: u64, copy: &File) -> std::io::Result<()> {
    let last = bytes.saturating_sub(SAMPLE_BYTES as u64);
    let (mut ours, mut theirs) = ([0; SAMPLE_BYTES], [0; SAMPLE_BYTES]);
    for sample in 0..=SAMPLES {
        let at = last / SAMPLES * sample + last % SAMPLES * sample / SAMPLES;
        let read = file.read_at(&mut ours, at)?;
        let mut got = 0;
        while got < read {
            match copy.read_at(
                theirs.get_mut(got..read).unwrap_or_default(),
                at + got as u64,
            )? {
                0 => break,
                more => got += more,
            }
        }
        if got != read || ours.get(..read) != theirs.get(..read) {
            return Err(std::io::Error::other(format!(
                "the copy differs from it at byte {at}"
            )));
        }
    }
    Ok(())
}

/// Copies what is not a hole and not zero.
fn copy_data(from: &File, to: &File, bytes: u64, stop: &AtomicBool) -> std::io::Result<u64> {
    let mut copied = 0;
    data_of(from, bytes, &mut || unless(stop), &mut |at, block| {
        copied += block.len() as u64;
        to.write_all_at(block, at)
    })?;
    Ok(copied)
}

/// Fails once it is to stop.
pub(super) fn unless(stop: &AtomicBool) -> std::io::Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(std::io::ErrorKind::Interrupted.into());
    }
    Ok(())
}

/// Tells each block of a file that is not a hole and not zero. Before each piece that is read it asks whether to go on.
pub(super) fn data_of(
    from: &File,
    bytes: u64,
    goes_on: &mut dyn FnMut() -> std::io::Result<()>,
    each: &mut dyn FnMut(u64, &[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    // Where devices that are read past the cache put it.
    let mut room = vec![0u8; PIECE_BYTES + ALIGNED];
    let skip = room.as_ptr().align_offset(ALIGNED).min(ALIGNED);
    let buffer = room.get_mut(skip..).unwrap_or_default();
    let mut at = 0;
    while at < bytes {
        // File systems without holes have data everywhere.
        at = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => at,
            Err(e) => return Err(e.into()),
        };
        let end = match rustix::fs::seek(from, SeekFrom::Hole(at)) {
            Ok(hole) => hole.min(bytes),
            Err(_) => bytes,
        };
        while at < end {
            goes_on()?;
            let want = (end - at).min(PIECE_BYTES as u64) as usize;
            let piece = buffer.get_mut(..want).unwrap_or_default();
            from.read_exact_at(piece, at)?;
            for (index, block) in piece.chunks(BLOCK_BYTES).enumerate() {
                if block.iter().any(|&b| b != 0) {
                    each(at + (index * BLOCK_BYTES) as u64, block)?;
                }
            }
            at += want as u64;
        }
    }
    Ok(())
}

/// A scratch file system that is restored and not mounted yet.
#[derive(Debug)]
pub struct Restored {
    spec: ScratchSpec,
    disk: Option<Arc<dyn Disk>>,
    file: File,
    image: PathBuf,
    /// Bytes of data that were copied.
    pub copied_bytes: u64,
}

impl Restored {
    /// Copies an image to where a scratch file system lies. An emulated disk is at full speed meanwhile.
    pub fn copy(
        spec: &ScratchSpec,
        disks: Option<&dyn DiskProvider>,
        image: &Path,
        stop: &AtomicBool,
    ) -> Result<Self, HostError> {
        let mut source = Image::open(spec, image)?;
        let (disk, file) = super::backing(spec, disks)?;
        let copied_bytes = source.copy_to(&file, stop)?;
        Ok(Self {
            spec: spec.clone(),
            disk,
            file,
            image: image.to_owned(),
            copied_bytes,
        })
    }

    /// Mounts it.
    pub fn mount(self) -> Result<Scratch, HostError> {
        let image = self.image.clone();
        Scratch::stand(&self.spec, (self.disk, self.file), Made::Image(self.image))
            .map_err(|error| of_another_kernel(&image, error))
    }
}

/// Why an image cannot be mounted: one that another kernel wrote may have features that this one lacks.
fn of_another_kernel(image: &Path, error: HostError) -> HostError {
    let this = crate::machine::identity().kernel;
    let head = about_image(image).ok().and_then(|about| about.head);
    let kernel = head
        .map(|head| head.kernel)
        .filter(|kernel| !kernel.is_empty());
    let (Some(kernel), HostError::Refused { .. } | HostError::Io { .. }) = (kernel, &error) else {
        return error;
    };
    HostError::Refused {
        what: format!("use image {}", image.display()),
        why: format!("{error}; the image was written under kernel {kernel}, this is {this}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 MiB: data, a hole of 1 MiB, data with zeros, an end that is no whole block.
    fn source(dir: &Path) -> PathBuf {
        let path = dir.join("image");
        let file = File::create(&path).unwrap();
        let data: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
        file.write_all_at(&data, 0).unwrap();
        file.write_all_at(&data[..300_000], 2 << 20).unwrap();
        file.write_all_at(&vec![0; 400_000], (2 << 20) + 300_000)
            .unwrap();
        file.write_all_at(b"end", (3 << 20) - 3).unwrap();
        path
    }

    fn image(dir: &Path) -> Image {
        let path = source(dir);
        let file = File::open(&path).unwrap();
        let bytes = file.metadata().unwrap().len();
        let source = Source::Raw(file);
        Image {
            path,
            source,
            bytes,
        }
    }

    #[test]
    fn a_copy_is_the_same_and_sparse() {
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path());
        let from = File::open(&image.path).unwrap();
        let before = std::fs::read(&image.path).unwrap();
        let copy = tempfile::tempfile_in(dir.path()).unwrap();
        copy.set_len(8 << 20).unwrap();
        let copied = copy_data(&from, &copy, image.bytes, &AtomicBool::new(false)).unwrap();
        assert!(copied < 1 << 21, "{copied}: zeros are left out");
        check(&from, image.bytes, &copy).unwrap();
        let mut all = vec![1; 8 << 20];
        copy.read_exact_at(&mut all, 0).unwrap();
        assert!(all[..3 << 20] == before && all[3 << 20..].iter().all(|&b| b == 0));
        let size = |file: &File| file.metadata().unwrap().blocks() * 512;
        assert!(size(&copy) < 2 << 20, "{}", size(&copy));
        assert_eq!(std::fs::read(&image.path).unwrap(), before);
    }

    #[test]
    fn a_copy_that_differs_or_is_short_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let mut image = image(dir.path());
        let from = File::open(&image.path).unwrap();
        let copy = tempfile::tempfile_in(dir.path()).unwrap();
        assert!(check(&from, image.bytes, &copy).is_err(), "short");
        copy.set_len(8 << 20).unwrap();
        image.copy_to(&copy, &AtomicBool::new(false)).unwrap();
        copy.write_all_at(b"END", (3 << 20) - 3).unwrap();
        let error = check(&from, image.bytes, &copy).unwrap_err().to_string();
        assert!(error.contains("differs from it at byte"), "{error}");
        let stopped = copy_data(&from, &copy, image.bytes, &AtomicBool::new(true));
        assert_eq!(stopped.unwrap_err().kind(), std::io::ErrorKind::Interrupted);
    }

    #[test]
    fn what_is_no_image_for_it_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let reported = |spec: &str| {
            let error = Image::open(&spec.parse().unwrap(), &path).unwrap_err();
            error.to_string()
        };
        assert!(reported("ext4").contains("No such file"));
        let file = File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        assert!(reported("ext4").contains("no ext4 was found in it"));
        // An ext2 of 64 MiB.
        for (at, part) in [(0x38, &[0x53, 0xef][..]), (0x18, &[2]), (4, &[0, 0x40])] {
            file.write_all_at(part, 1024 + at).unwrap();
        }
        assert!(reported("xfs").contains("it holds ext2, expected xfs"));
        assert!(reported("ext4,size=32M").contains("more than the 33554432"));
        assert!(Image::open(&"ext4,size=64M".parse().unwrap(), &path).is_ok());
        file.set_len(63 << 20).unwrap();
        assert!(reported("ext2,size=64M").contains("truncated: its ext2 has 67108864 bytes"));
        let dir_itself = Image::open(&"ext4".parse().unwrap(), dir.path()).unwrap_err();
        assert!(dir_itself.to_string().contains("no regular file"));
    }
}
