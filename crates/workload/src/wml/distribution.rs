//! What a random variable draws from.

use std::f64::consts::PI;
use std::sync::Arc;

use crate::random::Random;

/// A distribution with the bounds that filebench puts around it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Distribution {
    pub(super) shape: Shape,
    /// What is added to each value.
    pub(super) base: f64,
    /// Smallest value.
    pub(super) min: f64,
    /// Largest value.
    pub(super) max: f64,
    /// Values are rounded to multiples of it; 0 for none.
    pub(super) round: f64,
}

/// Its shape; the parameters of version 1.5's custom variables and 1.4's random variables.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Uniform {
        lower: f64,
        upper: f64,
    },
    Normal {
        mean: f64,
        sigma: f64,
    },
    Lognormal {
        shape: f64,
        scale: f64,
    },
    Exponential {
        mean: f64,
    },
    Erlang {
        shape: f64,
        rate: f64,
    },
    Gamma {
        mean: f64,
        gamma: f64,
    },
    Triangular {
        lower: f64,
        upper: f64,
        mode: f64,
    },
    Weibull {
        shape: f64,
        scale: f64,
    },
    /// Upper ends of the cumulated shares, each with the range that it stands for.
    Tabular(Vec<(f64, f64, f64)>),
}

impl Distribution {
    /// A value that is not negative.
    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        let mut value = self.base + self.shape.draw(random);
        if self.round > 0.0 {
            value = (value / self.round).round() * self.round;
        }
        let value = value.max(self.min).min(self.max);
        if value.is_finite() {
            value.max(0.0)
        } else {
            0.0
        }
    }
}

impl Shape {
    fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Shape::Uniform { lower, upper } => lower + (upper - lower) * unit(random),
            Shape::Normal { mean, sigma } => mean + sigma * normal(random),
            Shape::Lognormal { shape, scale } => (scale + shape * normal(random)).exp(),
            Shape::Exponential { mean } => -mean * open_unit(random).ln(),
            Shape::Erlang { shape, rate } => {
                let sum: f64 = (0..shape as u64).map(|_| open_unit(random).ln()).sum();
                -sum / rate
            }
            Shape::Gamma { mean, gamma } => mean / gamma * standard_gamma(gamma, random),
            Shape::Triangular { lower, upper, mode } => {
                let u = unit(random);
                let width = upper - lower;
                if u * width < mode - lower {
                    lower + (u * width * (mode - lower)).sqrt()
                } else {
                    upper - ((1.0 - u) * width * (upper - mode)).sqrt()
                }
            }
            Shape::Weibull { shape, scale } => scale * (-open_unit(random).ln()).powf(1.0 / shape),
            Shape::Tabular(ref rows) => {
                let u = unit(random) * rows.last().map_or(0.0, |row| row.0);
                let row = rows.iter().find(|row| u < row.0).or(rows.last());
                row.map_or(0.0, |(_, low, high)| low + (high - low) * unit(random))
            }
        }
    }
}

/// Uniform from 0 to 1, 1 excluded.
fn unit(random: &mut Random) -> f64 {
    random.below(1 << 53) as f64 / (1_u64 << 53) as f64
}

/// Uniform from 0 to 1, 0 excluded.
fn open_unit(random: &mut Random) -> f64 {
    1.0 - unit(random)
}

/// Box and Muller 1958.
fn normal(random: &mut Random) -> f64 {
    (-2.0 * open_unit(random).ln()).sqrt() * (2.0 * PI * unit(random)).cos()
}

/// Marsaglia and Tsang 2000, with their boost for shapes under 1.
fn standard_gamma(shape: f64, random: &mut Random) -> f64 {
    let boost = if shape < 1.0 {
        open_unit(random).powf(1.0 / shape)
    } else {
        1.0
    };
    let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    // Each round is accepted with more than 95 %; the bound is for damaged parameters alone.
    for _ in 0..1000 {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && open_unit(random).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return boost * d * v;
        }
    }
    boost * d
}

/// A number of a script: the same each time, or drawn each time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Fixed(f64),
    Drawn(Arc<Distribution>),
}

impl Number {
    /// Drawn from a gamma distribution.
    pub(super) fn gamma(mean: f64, gamma: f64) -> Self {
        Number::Drawn(Arc::new(Distribution {
            shape: Shape::Gamma { mean, gamma },
            base: 0.0,
            min: 0.0,
            max: f64::INFINITY,
            round: 0.0,
        }))
    }

    /// Its next value.
    pub(super) fn real(&self, random: &mut Random) -> f64 {
        match self {
            Number::Fixed(value) => *value,
            Number::Drawn(distribution) => distribution.draw(random),
        }
    }

    /// Its next value as a whole number.
    pub(super) fn whole(&self, random: &mut Random) -> u64 {
        self.real(random) as u64
    }
}

#[cfg(test)]
mod tests {
    use fsage_core::Seed;

    use super::*;

    fn moments(shape: Shape) -> (f64, f64) {
        let distribution = Distribution {
            shape,
            base: 0.0,
            min: 0.0,
            max: f64::INFINITY,
            round: 0.0,
        };
        let mut random = Random::new(Seed(7));
        let n = 40_000;
        let values: Vec<f64> = (0..n).map(|_| distribution.draw(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
        (mean, variance)
    }

    /// Each shape with the closed forms of its mean and variance.
    fn shapes() -> Vec<(Shape, f64, f64)> {
        let gamma = |k: f64| Shape::Gamma {
            mean: 100.0,
            gamma: k,
        };
        let e = std::f64::consts::E;
        vec![
            (
                Shape::Uniform {
                    lower: 10.0,
                    upper: 30.0,
                },
                20.0,
                400.0 / 12.0,
            ),
            (
                Shape::Normal {
                    mean: 50.0,
                    sigma: 5.0,
                },
                50.0,
                25.0,
            ),
            (Shape::Exponential { mean: 10.0 }, 10.0, 100.0),
            (
                Shape::Erlang {
                    shape: 3.0,
                    rate: 0.5,
                },
                6.0,
                12.0,
            ),
            (gamma(1.5), 100.0, 10_000.0 / 1.5),
            (gamma(0.5), 100.0, 20_000.0),
            (
                Shape::Triangular {
                    lower: 0.0,
                    upper: 10.0,
                    mode: 2.0,
                },
                4.0,
                84.0 / 18.0,
            ),
            (
                Shape::Weibull {
                    shape: 1.0,
                    scale: 10.0,
                },
                10.0,
                100.0,
            ),
            (
                Shape::Lognormal {
                    shape: 0.5,
                    scale: 1.0,
                },
                e.powf(1.125),
                (e.powf(0.25) - 1.0) * e.powf(2.25),
            ),
            (
                Shape::Tabular(vec![(80.0, 0.0, 10.0), (100.0, 20.0, 20.0)]),
                8.0,
                4.0 / 15.0 * 100.0 + 80.0 - 64.0,
            ),
        ]
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        for (shape, mean, variance) in shapes() {
            let text = format!("{shape:?}");
            let (m, v) = moments(shape);
            assert!(
                (m - mean).abs() < 0.03 * mean,
                "{text}: mean {m}, not {mean}"
            );
            assert!(
                (v - variance).abs() < 0.1 * variance,
                "{text}: variance {v}, not {variance}"
            );
        }
    }

    #[test]
    fn bounds_and_rounding_hold() {
        let distribution = Distribution {
            shape: Shape::Normal {
                mean: 0.0,
                sigma: 5000.0,
            },
            base: 0.0,
            min: 1000.0,
            max: 3000.0,
            round: 1000.0,
        };
        let mut random = Random::new(Seed(1));
        for _ in 0..1000 {
            let value = distribution.draw(&mut random);
            assert!([1000.0, 2000.0, 3000.0].contains(&value), "{value}");
        }
    }
}
