//! A measurement beside other work says so. In a program of its own: that work disturbs other tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_format::profile::{Disturbance, Environment};
use fsage_host::{Confinement, HostFs, HostOptions};
use fsage_profile::{ProfileRequest, run};

#[test]
fn what_disturbed_is_reported_by_procedure_and_metric() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    let options = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    let fs = HostFs::open(dir.path(), options).unwrap();
    let request = ProfileRequest {
        quick: true,
        only: vec!["CR".to_owned()],
        max_time_ns: Some(5_000_000_000),
        host_dir: Some(fs.dir().to_owned()),
        ..ProfileRequest::default()
    };
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let profile = std::thread::scope(|scope| {
        // More than there are processors: the measuring thread has to wait.
        for _ in 0..2 * std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(0u64);
                }
            });
        }
        let profile = run(&request, &fs, Environment::default(), &mut |_| {}, &never);
        stop.store(true, Ordering::Relaxed);
        profile.unwrap()
    });
    let reported = |procedure: &str| {
        let of = |d: &&Disturbance| d.procedure == procedure;
        profile.disturbances.iter().find(of).unwrap()
    };
    let waited = "waited for a processor";
    assert!(reported("").marks.iter().any(|m| m.contains(waited)));
    assert!(reported("new files").waited_share.unwrap() > 0.05);
    // At whichever pause there was time for.
    let creates = profile.metrics.iter().filter(|m| m.name.starts_with("CR"));
    let marks: Vec<&String> = creates.flat_map(|m| &m.marks).collect();
    assert!(marks.iter().any(|m| m.contains(waited)), "{marks:?}");
}
