//! The dissertation's samples, in `figures/`, as they are printed. Figure 16 is a chunk without a header and Figure 28
//! has one line of it (`DirectoryDepth = 3`): they got one.

macro_rules! samples {
    ($($name:ident = $number:literal;)*) => {
        $(pub const $name: &str = include_str!(concat!("figures/figure-", $number, ".cfg"));)*
        pub const ALL: &[(&str, &str)] = &[$((concat!("figure ", $number), $name),)*];
    };
}

samples! {
    FIGURE_15 = 15;
    FIGURE_16 = 16;
    FIGURE_19 = 19;
    FIGURE_21 = 21;
    FIGURE_24 = 24;
    FIGURE_25 = 25;
    FIGURE_26 = 26;
    FIGURE_28 = 28;
}
