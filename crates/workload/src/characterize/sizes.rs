//! Histograms of sizes in powers of two.

use super::SizeBucket;

/// Bucket 0 holds 0, bucket N sizes from 2^(N-1) to 2^N - 1.
#[derive(Debug, Clone)]
pub(super) struct SizeHistogram {
    counts: [(u64, u64); 65],
}

impl Default for SizeHistogram {
    fn default() -> Self {
        Self {
            counts: [(0, 0); 65],
        }
    }
}

impl SizeHistogram {
    pub fn add(&mut self, bytes: u64) {
        let bucket = 64 - bytes.leading_zeros() as usize;
        if let Some((count, total)) = self.counts.get_mut(bucket) {
            *count += 1;
            *total = total.saturating_add(bytes);
        }
    }

    /// The buckets from the first to the last that holds something.
    pub fn buckets(&self) -> Vec<SizeBucket> {
        let all = self
            .counts
            .iter()
            .enumerate()
            .map(|(bucket, &(count, total_bytes))| {
                let low_bytes = if bucket == 0 { 0 } else { 1u64 << (bucket - 1) };
                let high_bytes = if bucket == 0 {
                    0
                } else {
                    low_bytes.wrapping_mul(2).wrapping_sub(1)
                };
                SizeBucket {
                    low_bytes,
                    high_bytes,
                    count,
                    total_bytes,
                }
            });
        let mut buckets: Vec<SizeBucket> = all.skip_while(|bucket| bucket.count == 0).collect();
        while buckets.last().is_some_and(|bucket| bucket.count == 0) {
            buckets.pop();
        }
        buckets
    }
}
