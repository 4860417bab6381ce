//! The track buffer: segments of what was read, each followed by read-ahead while the arm rests.

use crate::disk::Command;

use super::arm::Arm;

/// A gap that the read-ahead passes over is read through, sectors (64 KiB).
const BRIDGED_GAP: u64 = 128;

/// Data that was read: sectors `first..end`.
#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    end: u64,
    used: u64,
}

/// Read-ahead that goes on: from `from` on since `since`, until `limit`.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    segment: usize,
    since: u64,
    from: u64,
    limit: u64,
}

/// Whether the data of a read is in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// All of it.
    There,
    /// The read-ahead under way will bring the rest.
    Coming,
    /// The arm must fetch it.
    Nowhere,
}

/// The segments and the read-ahead of one of them.
#[derive(Debug)]
pub(super) struct TrackBuffer {
    segments: Vec<Segment>,
    most: usize,
    read_ahead: u64,
    disk_end: u64,
    ahead: Option<Ahead>,
    clock: u64,
}

impl TrackBuffer {
    /// A buffer of so many segments; `read_ahead` and the disk's end in sectors.
    pub fn new(most: usize, read_ahead: u64, disk_end: u64) -> Self {
        Self {
            segments: Vec::new(),
            most,
            read_ahead,
            disk_end,
            ahead: None,
            clock: 0,
        }
    }

    fn limit_after(&self, end: u64) -> u64 {
        (end + self.read_ahead).min(self.disk_end).max(end)
    }

    /// The end of what a segment holds by now.
    fn filled(&self, at: usize, now: u64, arm: &Arm) -> u64 {
        let end = self.segments.get(at).map_or(0, |s| s.end);
        match self.ahead {
            Some(a) if a.segment == at => arm.reached(a.since, a.from, a.limit, now).max(end),
            _ => end,
        }
    }

    /// Where the data of a read is.
    pub fn find(&self, command: &Command, now: u64, arm: &Arm) -> Found {
        // Whichever holds it answers at once, be it under the arm's way or not.
        let held = |(at, segment): (usize, &Segment)| {
            segment.first <= command.first && command.end() <= self.filled(at, now, arm)
        };
        if self.segments.iter().enumerate().any(held) {
            return Found::There;
        }
        // What the read-ahead will reach is not worth a movement of the arm.
        let coming = self.ahead.is_some_and(|ahead| {
            let first = self.segments.get(ahead.segment).map(|s| s.first);
            let reach = ahead
                .limit
                .max(self.filled(ahead.segment, now, arm) + BRIDGED_GAP);
            first.is_some_and(|first| first <= command.first) && command.first <= reach
        });
        if coming {
            return Found::Coming;
        }
        Found::Nowhere
    }

    /// A read was served from a segment: its read-ahead moves on. A read-ahead that had stopped begins
    /// again once half of it is used up, if the arm rests.
    pub fn touch(&mut self, command: &Command, now: u64, arm: &Arm, rests: bool) {
        self.clock += 1;
        let held = |s: &Segment, filled: u64| s.first <= command.first && command.end() <= filled;
        let at = (0..self.segments.len()).find(|&i| {
            let filled = self.filled(i, now, arm);
            self.segments.get(i).is_some_and(|s| held(s, filled))
        });
        let Some(at) = at else { return };
        let limit = self.limit_after(command.end());
        let filled = self.filled(at, now, arm);
        if let Some(segment) = self.segments.get_mut(at) {
            segment.used = self.clock;
        }
        let Some(ahead) = self.ahead.as_mut().filter(|a| a.segment == at) else {
            return;
        };
        if filled < ahead.limit {
            ahead.limit = ahead.limit.max(limit);
        } else if rests && filled.saturating_sub(command.end()) * 2 < self.read_ahead {
            (ahead.since, ahead.from) = (now, filled);
            ahead.limit = limit.max(filled);
            if let Some(segment) = self.segments.get_mut(at) {
                segment.end = filled;
            }
        }
    }

    /// A read that the read-ahead brings; returns when its last sector has passed.
    pub fn follow(&mut self, command: &Command, now: u64, arm: &mut Arm) -> u64 {
        let Some(mut ahead) = self.ahead else {
            return now;
        };
        let filled = self.filled(ahead.segment, now, arm);
        if filled >= ahead.limit {
            // It had stopped: the heads wait over the track until the next sector comes round.
            (ahead.since, ahead.from) = (now, filled);
        }
        arm.stand_at(ahead.from);
        let end = arm.transfer(ahead.since, ahead.from, command.end() - ahead.from, false);
        self.clock += 1;
        if let Some(segment) = self.segments.get_mut(ahead.segment) {
            segment.end = command.end();
            segment.used = self.clock;
            // What was read long ago makes room.
            let oldest = command
                .end()
                .saturating_sub(2 * self.read_ahead.max(command.count));
            segment.first = segment.first.max(oldest.min(command.first));
        }
        let (since, from) = (end.max(now), command.end());
        self.ahead = Some(Ahead {
            since,
            from,
            limit: self.limit_after(from),
            ..ahead
        });
        end.max(now)
    }

    /// The arm is needed elsewhere: the read-ahead ends where it is.
    pub fn interrupt(&mut self, now: u64, arm: &mut Arm) {
        let Some(ahead) = self.ahead.take() else {
            return;
        };
        let reached = arm.reached(ahead.since, ahead.from, ahead.limit, now);
        if let Some(segment) = self.segments.get_mut(ahead.segment) {
            segment.end = segment.end.max(reached);
        }
        arm.stand_at(reached.saturating_sub(1).max(ahead.from));
    }

    /// A read that the arm fetched until `end` begins a segment, and the disk reads on after it.
    pub fn open(&mut self, command: &Command, end: u64) {
        self.clock += 1;
        let segment = Segment {
            first: command.first,
            end: command.end(),
            used: self.clock,
        };
        let at = if self.segments.len() < self.most {
            self.segments.push(segment);
            self.segments.len() - 1
        } else {
            let oldest = (0..self.segments.len())
                .min_by_key(|&i| self.segments.get(i).map(|s| s.used))
                .unwrap_or(0);
            if let Some(old) = self.segments.get_mut(oldest) {
                *old = segment;
            }
            oldest
        };
        self.ahead = Some(Ahead {
            segment: at,
            since: end,
            from: command.end(),
            limit: self.limit_after(command.end()),
        });
    }

    /// Sectors are overwritten: what the buffer holds of them is no longer true.
    pub fn forget(&mut self, first: u64, end: u64) {
        let limit = self.ahead.map(|a| (a.segment, a.limit));
        for (at, segment) in self.segments.iter_mut().enumerate() {
            let reach = match limit {
                Some((ahead, limit)) if ahead == at => limit.max(segment.end),
                _ => segment.end,
            };
            if first < reach && segment.first < end {
                *segment = Segment {
                    first: 0,
                    end: 0,
                    used: 0,
                };
                self.ahead = self.ahead.filter(|a| a.segment != at);
            }
        }
    }
}
