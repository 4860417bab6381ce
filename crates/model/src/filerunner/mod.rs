//! FileRunner's model, as the dissertation describes it (Farhat 2017, chapter 3).
