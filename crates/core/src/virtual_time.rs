//! Targets whose time is computed and not waited for.

/// What a call waits for before it is done; a call's demands are served one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// A processor for that many nanoseconds.
    Compute(u64),
    /// Something that the target knows by this number: a request that its device is to serve, or the end
    /// of one that another call has made ([`VirtualTime::serve`]).
    Serve(u64),
}

/// The time of a target that is computed.
///
/// What a call does to the target's files happens when it is made, and so does its result; how long it
/// takes is known once its demands have been served, among those of all streams and in the order of
/// time. Whoever drives several streams therefore makes each call between [`VirtualTime::begin`] and
/// [`VirtualTime::end`] and serves the demands itself. A call that is made outside of them serves its own
/// at once and moves the clock to its end: one stream alone sees a clock that goes on by itself.
pub trait VirtualTime: Send + Sync {
    /// Moves the clock to `now_ns`, never back; calls from here on only collect what they demand.
    fn begin(&self, now_ns: u64);

    /// Appends what the calls since [`VirtualTime::begin`] demand. Returns whether one of them needs the
    /// device before it is done.
    fn end(&self, demands: &mut Vec<Demand>) -> bool;

    /// Serves [`Demand::Serve`], asked at `now_ns`; calls of this come in the order of time. Returns when
    /// it is done, not before `now_ns`.
    fn serve(&self, number: u64, now_ns: u64) -> u64;

    /// Nothing is asked of the target until then; what it does by itself meanwhile, such as writing back,
    /// happens. Never goes back.
    fn rest_until(&self, then_ns: u64);

    /// How long calls that served their own demands have waited for the device so far, in nanoseconds; 0 where
    /// that is not known.
    fn waited_ns(&self) -> u64 {
        0
    }
}
