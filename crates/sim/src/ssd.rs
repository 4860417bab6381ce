//! Flash: latency, channels that work at once, and one bus.

use crate::SECTOR_BYTES;
use crate::disk::{Command, Ends, RequestKind};
use crate::model::{Ssd, us};

/// The state of an SSD: until when its parts are busy, nanoseconds.
#[derive(Debug)]
pub(crate) struct SsdDevice {
    channels: Vec<u64>,
    bus_free: u64,
    last_write_end: u64,
    read_latency: u64,
    write_latency: u64,
    flush_latency: u64,
    /// Nanoseconds a byte.
    read_byte: f64,
    write_byte: f64,
    stripe_bytes: u64,
}

impl SsdDevice {
    pub fn new(ssd: &Ssd) -> Self {
        Self {
            channels: vec![0; ssd.channels.max(1) as usize],
            bus_free: 0,
            last_write_end: 0,
            read_latency: us(ssd.read_latency_us),
            write_latency: us(ssd.write_latency_us),
            flush_latency: us(ssd.flush_latency_us),
            read_byte: 1e3 / ssd.read_mb_s,
            write_byte: 1e3 / ssd.write_mb_s,
            stripe_bytes: u64::from(ssd.stripe_kib.max(1)) << 10,
        }
    }

    pub fn accept(&mut self, command: Command, now: u64, ends: &mut Ends) {
        let end = match command.kind {
            RequestKind::Flush => self.last_write_end.max(now) + self.flush_latency,
            RequestKind::Read => self.transfer(command, now, self.read_latency, self.read_byte),
            RequestKind::Write => {
                let end = self.transfer(command, now, self.write_latency, self.write_byte);
                self.last_write_end = self.last_write_end.max(end);
                end
            }
        };
        ends.push(end, command.id);
    }

    /// Each piece takes the channel that is free first, then the bus. Returns the end of the last.
    fn transfer(&mut self, command: Command, now: u64, latency: u64, byte: f64) -> u64 {
        let mut left = command.count * SECTOR_BYTES;
        let mut end = now;
        while left > 0 {
            let piece = left.min(self.stripe_bytes);
            left -= piece;
            let free = self.channels.iter_mut().min();
            let ready = match free {
                Some(channel) => {
                    *channel = (*channel).max(now) + latency;
                    *channel
                }
                None => now + latency,
            };
            self.bus_free = self.bus_free.max(ready) + (piece as f64 * byte) as u64;
            end = end.max(self.bus_free);
        }
        end
    }
}
