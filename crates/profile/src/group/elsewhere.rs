//! A drive's own buffer: no remount empties it, and what a procedure reads again and again would come from there, where a
//! program's first reads after a cold start do not.

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::lab::Lab;

/// Places that are read, and how far they are from each other: more places than drives remember, and farther apart than
/// they read on.
const PLACES: u64 = 24;
const APART: u64 = 4 << 20;

/// A file of which places are read so that a drive remembers those and nothing else.
pub(super) struct Elsewhere(Option<Vec<u8>>);

impl Elsewhere {
    /// There is one where an arm has to move and there is room.
    pub fn create(lab: &mut Lab<'_>) -> Res<Self> {
        let moves = lab.stalls.slow_device && lab.fs.virtual_time().is_none();
        if !moves || lab.room_bytes() < 4 * PLACES * APART {
            return Ok(Self(None));
        }
        let path = lab.fresh("po").into_bytes();
        lab.make_file(&path, PLACES * APART)?;
        lab.settle()?;
        Ok(Self(Some(path)))
    }

    /// Makes everything cold, what the drive holds too.
    pub fn make_cold(&self, lab: &mut Lab<'_>) -> Res {
        lab.make_cold()?;
        let Some(path) = &self.0 else {
            return Ok(());
        };
        lab.with_open(path, OpenFlags::READ, |lab, handle| {
            let mut buffer = [0; 4096];
            (0..PLACES).try_for_each(|number| {
                lab.fs.pread(handle, &mut buffer, number * APART)?;
                Ok(())
            })
        })
    }

    pub fn discard(self, lab: &Lab<'_>) -> Res {
        match self.0 {
            Some(path) => Ok(lab.fs.unlink(&path)?),
            None => Ok(()),
        }
    }
}
