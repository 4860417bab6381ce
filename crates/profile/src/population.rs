//! Thousands of files of mixed sizes in many directories: what most procedures work on.

use std::ops::RangeInclusive;

use fsage_core::{Errno, FileSystem, FileType, OpenFlags};

use crate::error::Res;
use crate::lab::Lab;
use crate::probe::Components;

/// Sizes of a population's files in KiB; each is as frequent as the others. Most files are small.
const SIZES_KIB: [u32; 16] = [0, 1, 1, 1, 1, 4, 4, 4, 4, 4, 16, 16, 16, 16, 16, 64];
const MEAN_BYTES: u64 = 12 << 10;
/// Files and directories of the population on which names are made and removed: as large as those
/// of mail and web servers' benchmarks, so that trees are deep and directories have a few blocks.
pub(crate) const LIVE_FILES: usize = 5000;
pub(crate) const LIVE_DIRS: usize = 50;

/// In which order files are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Any directory next, as a mail or web server does.
    Scattered,
    /// Directory after directory, as an unpacked archive.
    ByDirectory,
}

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub path: Vec<u8>,
    pub size_kib: u32,
    /// Index of its directory.
    pub dir: usize,
    /// Its place in creation order.
    pub number: usize,
}

/// Directories and what is, or will be, in them, in creation order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Population {
    pub root: String,
    pub dirs: Vec<String>,
    pub items: Vec<Item>,
}

/// Components of the path of a population's file, and of its directory.
pub(crate) const FILE_COMPONENTS: Components = Components::elsewhere(4);
pub(crate) const DIR_COMPONENTS: Components = Components::elsewhere(3);

/// The next size: of each row of as many files as there are sizes every one has another, so that few files are of the
/// same mean as many.
fn dealt(lab: &mut Lab<'_>, left: &mut Vec<u32>) -> u32 {
    if left.is_empty() {
        left.extend(SIZES_KIB);
        lab.random.shuffle(left);
    }
    left.pop().unwrap_or(4)
}

impl Population {
    /// Makes the directories and plans the files; fewer where room is short.
    pub(crate) fn plan(lab: &mut Lab<'_>, files: usize, dirs: usize, order: Order) -> Res<Self> {
        let most = (lab.room_bytes() / MEAN_BYTES) as usize;
        let files = lab.files_in_time(files.min(most).max(1));
        let root = lab.fresh_dir("p")?;
        let mut made = Vec::with_capacity(dirs);
        for number in 0..dirs {
            let dir = format!("{root}/d{number:02}");
            lab.afford(0)?;
            lab.fs.mkdir(dir.as_bytes(), 0o755)?;
            made.push(dir);
        }
        let mut places: Vec<usize> = (0..files).map(|i| i * dirs / files).collect();
        if order == Order::Scattered {
            lab.random.shuffle(&mut places);
        }
        let mut sizes = Vec::new();
        let items = places
            .into_iter()
            .enumerate()
            .map(|(number, dir)| Item {
                path: format!("{}/f{number:05}", made.get(dir).map_or("", String::as_str))
                    .into_bytes(),
                size_kib: dealt(lab, &mut sizes),
                dir,
                number,
            })
            .collect();
        Ok(Self {
            root,
            dirs: made,
            items,
        })
    }

    /// Plans and creates.
    pub(crate) fn create(lab: &mut Lab<'_>, files: usize, dirs: usize, order: Order) -> Res<Self> {
        let population = Self::plan(lab, files, dirs, order)?;
        for (number, item) in population.items.iter().enumerate() {
            lab.make_file(&item.path, u64::from(item.size_kib) << 10)?;
            if number % 256 == 0 {
                lab.check()?;
            }
        }
        Ok(population)
    }

    /// Creates files of 4 KiB: the data of the next begins where that of one ends.
    pub(crate) fn create_dense(lab: &mut Lab<'_>, files: usize, dirs: usize) -> Res<Self> {
        let mut population = Self::plan(lab, files, dirs, Order::ByDirectory)?;
        for item in &mut population.items {
            item.size_kib = 4;
            lab.make_file(&item.path, 4 << 10)?;
        }
        lab.check()?;
        Ok(population)
    }

    /// Creates files of the sizes `kib`, and beside each another of `beside_kib` that is never read: what a
    /// drive reads ahead holds few of the files.
    pub(crate) fn create_apart(
        lab: &mut Lab<'_>,
        files: usize,
        dirs: usize,
        (kib, beside_kib): (RangeInclusive<u32>, u64),
    ) -> Res<Self> {
        let most = (lab.room_bytes() / (2 * MEAN_BYTES + (beside_kib << 10))) as usize;
        let files = lab.files_in_time(2 * files.min(most)) / 2;
        let mut population = Self::plan(lab, files, dirs, Order::ByDirectory)?;
        for (number, item) in population.items.iter_mut().enumerate() {
            item.size_kib = item.size_kib.clamp(*kib.start(), *kib.end());
            lab.make_file(&item.path, u64::from(item.size_kib) << 10)?;
            let mut beside = item.path.clone();
            beside.push(b'x');
            lab.make_file(&beside, beside_kib << 10)?;
            if number % 256 == 0 {
                lab.check()?;
            }
        }
        Ok(population)
    }

    /// The indices of the files of one directory, in creation order.
    pub(crate) fn of_dir(&self, dir: usize) -> Vec<usize> {
        self.items
            .iter()
            .enumerate()
            .filter(|(_, i)| i.dir == dir)
            .map(|(n, _)| n)
            .collect()
    }

    /// Asks for every file once, so that names and inodes are cached.
    pub(crate) fn warm_names(&self, lab: &Lab<'_>) -> Res {
        for item in &self.items {
            // Cold, each may wait for a busy disk.
            lab.afford(0)?;
            lab.fs.stat(&item.path)?;
        }
        Ok(())
    }

    /// Reads every file once.
    pub(crate) fn warm_data(&self, lab: &Lab<'_>) -> Res {
        let mut buffer = vec![0u8; 64 << 10];
        for item in &self.items {
            lab.afford(0)?;
            let handle = lab.fs.open(&item.path, OpenFlags::READ, 0)?;
            let read = lab.fs.pread(handle, &mut buffer, 0);
            lab.fs.close(handle)?;
            read?;
        }
        Ok(())
    }

    /// Removes what is left of it.
    pub(crate) fn remove(&self, lab: &Lab<'_>) -> Res {
        lab.clear(&self.root)
    }

    /// Leaves what is left of it for the end.
    pub(crate) fn discard(&self, lab: &Lab<'_>) -> Res {
        lab.discard(&self.root)
    }

    /// Some of its files, each in another directory than the one before, looked at once: what is
    /// called on them again and again finds everything in the CPU's caches.
    pub(crate) fn few(&self, lab: &mut Lab<'_>, count: usize) -> Res<Vec<&Item>> {
        let mut few: Vec<&Item> = Vec::with_capacity(count);
        for index in lab.random.order(self.items.len()) {
            if few.len() >= count {
                break;
            }
            if let Some(item) = self.items.get(index)
                && few.iter().all(|f| f.dir != item.dir)
            {
                lab.fs.stat(&item.path)?;
                few.push(item);
            }
        }
        Ok(few)
    }
}

impl Lab<'_> {
    /// Leaves a tree that is not needed any more for the end, when all goes together; where room is
    /// short it goes now.
    pub(crate) fn discard(&self, root: &str) -> Res {
        let roomy = self
            .fs
            .statfs()
            .is_ok_and(|s| s.available_bytes > s.total_bytes / 2);
        if roomy { Ok(()) } else { self.clear(root) }
    }

    /// Removes a tree, or leaves it for the end if the time is over.
    pub(crate) fn clear(&self, root: &str) -> Res {
        if self.spent() {
            return Ok(());
        }
        let start = self.clock.now_ns();
        let entries = remove_tree(self.fs, root.as_bytes())?;
        let took_ns = self.clock.now_ns().saturating_sub(start);
        self.costs.removed(entries, took_ns);
        Ok(())
    }

    /// Space that may be used, in bytes: a fourth of what is free.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.fs.statfs().map_or(u64::MAX, |s| s.available_bytes / 4)
    }
}

/// Removes a directory and everything below it and says how many entries that were; what is gone already
/// is no error.
pub(crate) fn remove_tree(fs: &dyn FileSystem, path: &[u8]) -> Result<u64, Errno> {
    let handle = match fs.open(
        path,
        OpenFlags {
            no_follow: true,
            ..OpenFlags::DIRECTORY
        },
        0,
    ) {
        Ok(handle) => handle,
        Err(Errno::ENOENT) => return Ok(0),
        Err(errno) => return Err(errno),
    };
    let entries = fs.read_dir(handle);
    fs.close(handle)?;
    let mut removed = 1;
    for entry in entries? {
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        let mut child = path.to_vec();
        child.push(b'/');
        child.extend_from_slice(&entry.name);
        let is_dir = match entry.file_type {
            Some(kind) => kind == FileType::Directory,
            None => fs.lstat(&child)?.file_type == FileType::Directory,
        };
        if is_dir {
            removed += remove_tree(fs, &child)?;
        } else {
            match fs.unlink(&child) {
                Ok(()) | Err(Errno::ENOENT) => removed += 1,
                Err(errno) => return Err(errno),
            }
        }
    }
    match fs.rmdir(path) {
        Ok(()) | Err(Errno::ENOENT) => Ok(removed),
        Err(errno) => Err(errno),
    }
}
