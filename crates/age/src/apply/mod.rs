//! Carries an aging workload out on a target, day by day (the thesis, 3.2.2).
