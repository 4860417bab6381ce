//! The named usage profiles: their parameters, and where these come from.

/// How a file that is there is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    /// Cut to nothing and written again.
    Again,
    /// Written beside and renamed over, as editors and mail servers do.
    Beside,
    /// Added to.
    Append,
}

/// Which file goes when something must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// Young ones while there are more than [`Profile::young_percent`] of them, any other then.
    Young,
    /// The oldest, in the night.
    Oldest,
}

/// When there is activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hours {
    /// Mostly from nine to six, some in the evening, little in the night.
    Office,
    /// Round the clock, with a slow swing.
    Always,
}

/// Weights of the day's hours.
pub(super) fn hours(hours: Hours) -> [u64; 24] {
    match hours {
        Hours::Office => [
            4, 3, 2, 1, 1, 1, 2, 6, 20, 40, 48, 46, 36, 42, 50, 50, 44, 32, 18, 14, 14, 12, 9, 6,
        ],
        Hours::Always => [
            20, 18, 17, 16, 16, 17, 19, 22, 26, 29, 31, 32, 31, 31, 32, 32, 31, 30, 29, 29, 28, 27,
            25, 22,
        ],
    }
}

/// A usage of a file system over months.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// What it is like.
    pub what: &'static str,
    /// Where its figures come from.
    pub sources: &'static str,
    /// Size of the file system, bytes.
    pub size_bytes: u64,
    /// Days.
    pub days: u32,
    /// Files made, removed and written again on all days, of a file system of that size.
    pub operations: u64,
    /// Bytes written on all days; as it comes where nobody says.
    pub written_bytes: Option<u64>,
    /// Utilisation: share of the days gone by, share of the size; straight between.
    pub fill: &'static [(f64, f64)],
    /// Sizes of files that stay: up to so many bytes, weight; even between.
    pub sizes: &'static [(u64, u64)],
    /// Files that stay to a directory.
    pub files_per_directory: u64,
    /// Of the files made, how many are gone the same day.
    pub short_percent: u64,
    /// How long these live on average, minutes.
    pub short_minutes: u64,
    /// Of the operations, how many write a file again.
    pub modify_percent: u64,
    /// How.
    pub save: Save,
    /// New files are written beside and renamed.
    pub deliver: bool,
    /// Which files go.
    pub victim: Victim,
    /// Files younger than thirty days are to be no more of those that are there.
    pub young_percent: u64,
    /// How often a file that goes takes all others of its directory with it.
    pub together_percent: u64,
    /// When.
    pub hours: Hours,
    /// Activity on Saturdays and Sundays against other days.
    pub weekend_percent: u64,
    /// Extensions of file names.
    pub extensions: &'static [&'static str],
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Mean 34 KB, half below 4 KB: with blocks of 4 KB the 313 MB in 8,774 files of the 1996 paper (5.2).
const HOME_SIZES: &[(u64, u64)] = &[
    (512, 1400),
    (1 << 10, 1200),
    (2 << 10, 1400),
    (4 << 10, 1500),
    (8 << 10, 1400),
    (16 << 10, 1100),
    (32 << 10, 800),
    (64 << 10, 500),
    (128 << 10, 300),
    (256 << 10, 180),
    (512 << 10, 100),
    (1 << 20, 60),
    (2 << 20, 30),
    (4 << 20, 15),
    (8 << 20, 5),
];

/// Mean about 190 KB, half below 4 KB.
const PERSONAL_SIZES: &[(u64, u64)] = &[
    (512, 1300),
    (1 << 10, 1000),
    (2 << 10, 1300),
    (4 << 10, 1450),
    (8 << 10, 1300),
    (16 << 10, 1100),
    (32 << 10, 900),
    (64 << 10, 650),
    (128 << 10, 400),
    (256 << 10, 250),
    (512 << 10, 140),
    (1 << 20, 80),
    (2 << 20, 60),
    (4 << 20, 40),
    (8 << 20, 20),
    (16 << 20, 7),
    (64 << 20, 3),
];

const MESSAGE_SIZES: &[(u64, u64)] = &[
    (1 << 10, 500),
    (2 << 10, 1500),
    (4 << 10, 3000),
    (8 << 10, 2300),
    (16 << 10, 1200),
    (32 << 10, 600),
    (64 << 10, 350),
    (256 << 10, 300),
    (1 << 20, 180),
    (4 << 20, 60),
    (10 << 20, 10),
];

const BUILD_SIZES: &[(u64, u64)] = &[
    (512, 500),
    (2 << 10, 2000),
    (4 << 10, 1800),
    (8 << 10, 1800),
    (16 << 10, 1500),
    (32 << 10, 1000),
    (64 << 10, 700),
    (128 << 10, 400),
    (512 << 10, 220),
    (2 << 20, 60),
    (16 << 20, 20),
];

const ARTICLE_SIZES: &[(u64, u64)] = &[
    (1 << 10, 2000),
    (2 << 10, 4200),
    (4 << 10, 2600),
    (8 << 10, 800),
    (32 << 10, 280),
    (64 << 10, 120),
];

const DATABASE_SIZES: &[(u64, u64)] = &[
    (8 << 10, 3500),
    (64 << 10, 2500),
    (512 << 10, 1500),
    (4 << 20, 1200),
    (16 << 20, 900),
    (64 << 20, 400),
];

/// Every profile.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "home-1996",
        what: "home directories of a professor and three students, ten months",
        sources: "Smith and Seltzer 1996, 3.1: size, 9 % full at first, over 70 % most of the time, at most 90 %, \
                  800,000 operations, 48.6 GB; 5.2: 8,774 files at the end, 10.5 % of them of the last month, 313 MB. \
                  Four fifths of new files live less than a day (Baker 1991). Hours, names and the course of the \
                  utilisation between these points are fsage's",
        size_bytes: 502 * MIB,
        days: 304,
        operations: 800_000,
        written_bytes: Some(48_600_000_000),
        fill: &[
            (0.0, 0.09),
            (0.1, 0.5),
            (0.18, 0.71),
            (0.35, 0.8),
            (0.5, 0.76),
            (0.65, 0.84),
            (0.8, 0.9),
            (0.93, 0.78),
            (1.0, 0.62),
        ],
        sizes: HOME_SIZES,
        files_per_directory: 14,
        short_percent: 80,
        short_minutes: 12,
        modify_percent: 8,
        save: Save::Again,
        deliver: false,
        victim: Victim::Young,
        young_percent: 10,
        together_percent: 3,
        hours: Hours::Office,
        weekend_percent: 35,
        extensions: &[".c", ".h", ".o", ".tex", ".ps", "", ".txt", "~"],
    },
    Profile {
        name: "home-2001",
        what: "home directories of students of parallel computing, seven months from their file system's first day",
        sources: "Smith 2001, 3.2.3: size, 215 days, 1.3 million operations, 87.3 GB, 65 % full at the end, made new \
                  at the beginning; outputs of large simulations. Sizes of files, their lives and hours as in \
                  home-1996; the course of the utilisation is fsage's",
        size_bytes: 1024 * MIB,
        days: 215,
        operations: 1_300_000,
        written_bytes: Some(87_300_000_000),
        fill: &[
            (0.0, 0.02),
            (0.2, 0.22),
            (0.4, 0.4),
            (0.6, 0.48),
            (0.8, 0.61),
            (1.0, 0.65),
        ],
        sizes: HOME_SIZES,
        files_per_directory: 14,
        short_percent: 80,
        short_minutes: 12,
        modify_percent: 8,
        save: Save::Again,
        deliver: false,
        victim: Victim::Young,
        young_percent: 12,
        together_percent: 3,
        hours: Hours::Office,
        weekend_percent: 45,
        extensions: &[".c", ".h", ".o", ".out", ".dat", "", ".txt", ".ps"],
    },
    Profile {
        name: "mail",
        what: "a mail spool of one file a message, delivered beside and renamed",
        sources: "fsage's: messages come in round the clock, half are gone the same day (read and removed, or passed \
                  on), the others within weeks; sizes mostly of 2 to 8 KB with attachments of megabytes. Hold it \
                  against your own by snapshots",
        size_bytes: 4 * GIB,
        days: 180,
        operations: 2_200_000,
        written_bytes: None,
        fill: &[(0.0, 0.05), (0.3, 0.6), (0.7, 0.74), (1.0, 0.78)],
        sizes: MESSAGE_SIZES,
        files_per_directory: 250,
        short_percent: 50,
        short_minutes: 90,
        modify_percent: 4,
        save: Save::Beside,
        deliver: true,
        victim: Victim::Young,
        young_percent: 45,
        together_percent: 0,
        hours: Hours::Always,
        weekend_percent: 55,
        extensions: &[""],
    },
    Profile {
        name: "build",
        what: "a build server: trees of sources and objects that come and go as a whole",
        sources: "fsage's: most objects live for minutes, whole directories go at once, sources are written beside \
                  and renamed as version control does",
        size_bytes: 8 * GIB,
        days: 120,
        operations: 3_000_000,
        written_bytes: None,
        fill: &[
            (0.0, 0.05),
            (0.15, 0.5),
            (0.5, 0.72),
            (0.75, 0.6),
            (1.0, 0.75),
        ],
        sizes: BUILD_SIZES,
        files_per_directory: 22,
        short_percent: 70,
        short_minutes: 25,
        modify_percent: 6,
        save: Save::Beside,
        deliver: false,
        victim: Victim::Young,
        young_percent: 60,
        together_percent: 100,
        hours: Hours::Office,
        weekend_percent: 30,
        extensions: &[".c", ".h", ".o", ".o", ".d", ".a", ".log"],
    },
    Profile {
        name: "news",
        what: "a news spool: small articles, the oldest expired every night, nearly full",
        sources: "fsage's, after what the thesis says of news servers (3.2.3, note 8: extreme fragmentation): a file \
                  an article, mostly 1 to 4 KB, a seventh of them new every day, expiry by age",
        size_bytes: 2 * GIB,
        days: 90,
        operations: 7_600_000,
        written_bytes: None,
        fill: &[(0.0, 0.05), (0.1, 0.88), (1.0, 0.88)],
        sizes: ARTICLE_SIZES,
        files_per_directory: 160,
        short_percent: 2,
        short_minutes: 30,
        modify_percent: 1,
        save: Save::Append,
        deliver: false,
        victim: Victim::Oldest,
        young_percent: 100,
        together_percent: 0,
        hours: Hours::Always,
        weekend_percent: 80,
        extensions: &[""],
    },
    Profile {
        name: "database",
        what: "tables that grow, and logs and sorts that come and go",
        sources: "fsage's: two thirds of the operations add to files, most files made are sorts and log segments of \
                  the same day",
        size_bytes: 16 * GIB,
        days: 120,
        operations: 240_000,
        written_bytes: None,
        fill: &[(0.0, 0.2), (1.0, 0.85)],
        sizes: DATABASE_SIZES,
        files_per_directory: 60,
        short_percent: 80,
        short_minutes: 60,
        modify_percent: 65,
        save: Save::Append,
        deliver: false,
        victim: Victim::Young,
        young_percent: 40,
        together_percent: 0,
        hours: Hours::Always,
        weekend_percent: 70,
        extensions: &[".dat", ".idx", ".log"],
    },
    Profile {
        name: "personal",
        what: "a personal computer: documents, caches, pictures, packages replaced",
        sources: "sizes: a mean of 189 KB and a median of 4 KB (Agrawal 2007, the year 2004); the rest is fsage's: \
                  caches that turn over, documents written beside and renamed, packages replaced directory by \
                  directory",
        size_bytes: 32 * GIB,
        days: 365,
        operations: 2_600_000,
        written_bytes: None,
        fill: &[(0.0, 0.15), (0.4, 0.45), (0.7, 0.62), (1.0, 0.7)],
        sizes: PERSONAL_SIZES,
        files_per_directory: 12,
        short_percent: 75,
        short_minutes: 40,
        modify_percent: 15,
        save: Save::Beside,
        deliver: false,
        victim: Victim::Young,
        young_percent: 15,
        together_percent: 4,
        hours: Hours::Office,
        weekend_percent: 110,
        extensions: &["", ".jpg", ".txt", ".db", ".so", ".html", ".pdf", ".py"],
    },
];
