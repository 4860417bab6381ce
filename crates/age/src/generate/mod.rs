//! Makes aging workloads: from snapshots, from a git history, from named usage profiles (the thesis, 3.2.1).
