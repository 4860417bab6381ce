//! The layout score and the like: how files and free space lie on a device (the thesis, 3.2.3).
