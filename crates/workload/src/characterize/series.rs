//! A time series whose resolution halves when the stream outgrows it.

use super::TimeSeries;

const PIECES: usize = 512;
const FIRST_PIECE_NS: u64 = 1000;

#[derive(Debug)]
pub(super) struct Series {
    piece_ns: u64,
    open_max: Vec<u64>,
    operations: Vec<u64>,
    open: u64,
    most: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            piece_ns: FIRST_PIECE_NS,
            open_max: Vec::new(),
            operations: Vec::new(),
            open: 0,
            most: 0,
        }
    }
}

impl Series {
    /// An operation started at `start_ns`; the pieces since the last one had as many files open.
    pub fn tick(&mut self, start_ns: u64) {
        while start_ns / self.piece_ns >= PIECES as u64 {
            self.halve();
        }
        let piece = (start_ns / self.piece_ns) as usize;
        while self.operations.len() <= piece {
            self.operations.push(0);
            self.open_max.push(self.open);
        }
        if let Some(count) = self.operations.get_mut(piece) {
            *count += 1;
        }
    }

    /// After the operation that last ticked, `open` descriptors are open.
    pub fn set_open(&mut self, open: u64) {
        self.open = open;
        self.most = self.most.max(open);
        if let Some(last) = self.open_max.last_mut() {
            *last = (*last).max(open);
        }
    }

    pub fn most(&self) -> u64 {
        self.most
    }

    fn halve(&mut self) {
        self.piece_ns = self.piece_ns.saturating_mul(2);
        let pairs = |values: &[u64], join: fn(u64, u64) -> u64| -> Vec<u64> {
            values
                .chunks(2)
                .map(|pair| pair.iter().copied().fold(0, join))
                .collect()
        };
        self.operations = pairs(&self.operations, |a, b| a + b);
        self.open_max = pairs(&self.open_max, u64::max);
    }

    pub fn finish(self) -> TimeSeries {
        TimeSeries {
            piece_ns: self.piece_ns,
            open_files_max: self.open_max,
            operations: self.operations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolution_adapts_and_nothing_is_lost() {
        let mut series = Series::default();
        for at in 0..10_000u64 {
            series.tick(at * 12_345);
            series.set_open(at % 7);
        }
        let all = series.finish();
        assert!(all.operations.len() <= PIECES && all.operations.len() > PIECES / 4);
        assert_eq!(all.operations.iter().sum::<u64>(), 10_000);
        assert!(all.open_files_max.iter().all(|&open| open == 6));
        let mut late = Series::default();
        late.tick(u64::MAX);
        assert_eq!(late.finish().operations.iter().sum::<u64>(), 1);
    }
}
