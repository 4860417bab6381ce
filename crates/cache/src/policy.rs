//! Names of policies and starting states.

/// How the page cache chooses what to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// The page used longest ago goes first (Smith 2001, 4.4.5.2).
    Lru,
    /// Linux's inactive and active list: a page touched twice survives a scan, one touched once does
    /// not; a page that comes back soon after its eviction goes straight to the active list.
    #[default]
    Linux,
}

impl Policy {
    /// Every policy.
    pub const ALL: &'static [Policy] = &[Policy::Lru, Policy::Linux];

    /// The name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::Linux => "linux",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Policy> {
        Policy::ALL.iter().copied().find(|p| p.name() == name)
    }
}

/// What the caches hold before the first access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Start {
    /// Nothing (Smith 2001, 4.4.5.2).
    #[default]
    Cold,
    /// Everything: what was never touched counts as present until it is evicted.
    Warm,
}

impl Start {
    /// The name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Start::Cold => "cold",
            Start::Warm => "warm",
        }
    }

    /// The start of that name.
    pub fn from_name(name: &str) -> Option<Start> {
        [Start::Cold, Start::Warm]
            .into_iter()
            .find(|s| s.name() == name)
    }
}
