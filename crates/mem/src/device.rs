//! One queue, one arm: requests are served in the order in which they are asked for.

use std::collections::VecDeque;

use fsage_core::DeviceCounters;

use crate::body::PAGE;
use crate::truth::{DeviceTruth, Point};

/// What is asked of the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub write: bool,
    /// The first block, of one page each.
    pub block: u64,
    pub blocks: u64,
    /// What it takes beside moving: making all stable.
    pub extra_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    request: Request,
    /// When its service begins and ends, once that is known.
    served: Option<(u64, u64)>,
}

/// Requests that are remembered after they were served: more than can be waited for at once.
const REMEMBERED: usize = 4096;

/// The device and its queue.
#[derive(Debug)]
pub(crate) struct Device {
    truth: DeviceTruth,
    /// When the last request is done.
    busy_until_ns: u64,
    /// Where it ended.
    at_block: u64,
    asked: VecDeque<Asked>,
    /// The number of the first of them.
    first: u64,
    pub counters: DeviceCounters,
}

impl Device {
    pub(crate) fn new(truth: DeviceTruth) -> Self {
        Self {
            truth,
            busy_until_ns: 0,
            at_block: u64::MAX,
            asked: VecDeque::new(),
            first: 0,
            counters: DeviceCounters::default(),
        }
    }

    /// Takes a request, to be served when it is asked for by its number.
    pub(crate) fn ask(&mut self, request: Request) -> u64 {
        while self.asked.len() >= REMEMBERED
            && self.asked.front().is_some_and(|a| a.served.is_some())
        {
            self.asked.pop_front();
            self.first += 1;
        }
        self.asked.push_back(Asked {
            request,
            served: None,
        });
        self.first + self.asked.len() as u64 - 1
    }

    /// Serves a request at `now_ns`, or finds out when it is done if it was asked for before.
    pub(crate) fn serve(&mut self, number: u64, now_ns: u64) -> u64 {
        let place = number.checked_sub(self.first).map(|n| n as usize);
        let Some(asked) = place.and_then(|n| self.asked.get(n)).copied() else {
            return now_ns;
        };
        if let Some((_, end)) = asked.served {
            return end.max(now_ns);
        }
        let start = self.busy_until_ns.max(now_ns);
        let end = start.saturating_add(self.service_ns(&asked.request));
        self.busy_until_ns = end;
        if asked.request.blocks > 0 {
            self.at_block = asked.request.block + asked.request.blocks;
        }
        let sectors = asked.request.blocks * (PAGE / 512);
        if sectors == 0 {
            // Making stable moves nothing.
        } else if asked.request.write {
            self.counters.writes += 1;
            self.counters.sectors_written += sectors;
        } else {
            self.counters.reads += 1;
            self.counters.sectors_read += sectors;
        }
        if let Some(asked) = place.and_then(|n| self.asked.get_mut(n)) {
            asked.served = Some((start, end));
        }
        end
    }

    /// Serves a request that nobody waits for now.
    pub(crate) fn background(&mut self, request: Request, now_ns: u64) -> u64 {
        let number = self.ask(request);
        self.serve(number, now_ns);
        number
    }

    /// Whether a request's service has not begun at `now_ns`, so that more can join it.
    pub(crate) fn waits(&self, number: u64, now_ns: u64) -> bool {
        self.find(number)
            .is_some_and(|a| a.served.is_none_or(|(start, _)| start > now_ns))
    }

    /// Whether a request is done at `now_ns`.
    pub(crate) fn done(&self, number: u64, now_ns: u64) -> bool {
        self.find(number)
            .is_none_or(|a| a.served.is_some_and(|(_, end)| end <= now_ns))
    }

    /// Adds blocks to a request that was not asked to be served yet.
    pub(crate) fn enlarge(&mut self, number: u64, blocks: u64) {
        let place = number.checked_sub(self.first).map(|n| n as usize);
        if let Some(asked) = place.and_then(|n| self.asked.get_mut(n))
            && asked.served.is_none()
        {
            asked.request.blocks += blocks;
        }
    }

    fn find(&self, number: u64) -> Option<&Asked> {
        let place = number.checked_sub(self.first)?;
        self.asked.get(place as usize)
    }

    /// Nothing is known of where the arm is.
    pub(crate) fn forget_place(&mut self) {
        self.at_block = u64::MAX;
    }

    fn service_ns(&self, request: &Request) -> u64 {
        if request.blocks == 0 {
            return request.extra_ns;
        }
        let distance_kib = self
            .at_block
            .abs_diff(request.block)
            .saturating_mul(PAGE / 1024);
        let to_place = match distance_kib {
            _ if self.at_block == u64::MAX => self.truth.far_ns,
            0 => 0,
            near if near <= self.truth.near_kib => self.truth.near_ns,
            _ => self.truth.far_ns,
        };
        let points = if request.write {
            &self.truth.write
        } else {
            &self.truth.read
        };
        to_place + moving_ns(points, request.blocks * (PAGE / 1024)) + request.extra_ns
    }
}

/// The time of a size between those that are stated, or along the last two.
fn moving_ns(points: &[Point], kib: u64) -> u64 {
    let after = points.iter().position(|p| p.kib >= kib);
    let after = after.unwrap_or(points.len().saturating_sub(1));
    match (points.get(after.wrapping_sub(1)), points.get(after)) {
        (Some(a), Some(b)) => {
            let part = u128::from(kib - a.kib) * u128::from(b.ns - a.ns);
            a.ns.saturating_add((part / u128::from(b.kib - a.kib)) as u64)
        }
        (None, Some(first)) => first.ns,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        let points = vec![Point { kib: 4, ns: 100 }, Point { kib: 8, ns: 140 }];
        Device::new(DeviceTruth {
            near_kib: 64,
            near_ns: 10,
            far_ns: 1000,
            read: points.clone(),
            write: points,
        })
    }

    fn read(block: u64, blocks: u64) -> Request {
        Request {
            write: false,
            block,
            blocks,
            extra_ns: 0,
        }
    }

    #[test]
    fn the_place_and_the_size_decide() {
        let mut device = device();
        let mut took = |request, now| {
            let number = device.ask(request);
            device.serve(number, now) - now
        };
        assert_eq!(took(read(10, 1), 0), 1100);
        assert_eq!(took(read(11, 2), 5000), 140);
        assert_eq!(took(read(20, 1), 10_000), 110);
        assert_eq!(took(read(0, 4), 20_000), 1000 + 220);
    }

    #[test]
    fn requests_wait_for_those_before_and_are_served_once() {
        let mut device = device();
        let (a, b) = (device.ask(read(0, 1)), device.ask(read(1, 1)));
        assert!(device.waits(a, 0) && !device.done(a, 0));
        assert_eq!((device.serve(a, 0), device.serve(b, 50)), (1100, 1200));
        assert!(device.waits(b, 60) && !device.waits(a, 60));
        assert_eq!((device.serve(a, 60), device.serve(a, 7000)), (1100, 7000));
        assert_eq!(
            (device.counters.reads, device.counters.sectors_read),
            (2, 16)
        );
    }
}
