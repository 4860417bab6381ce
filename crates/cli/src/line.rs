//! The line of a terminal that a bar is drawn on.

use std::io;
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;

use crate::ui;

/// Stderr with the cursor at the beginning of the line that was drawn. Indicatif leaves it behind the last column: there
/// the `^C` that a terminal shows for Ctrl-C goes to the next line, which then is taken for the bar's and cleared in its
/// place.
#[derive(Debug, Default)]
pub struct Line {
    /// What is drawn gets out at once.
    drawn: Mutex<String>,
}

impl Line {
    fn add(&self, text: &str) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.push_str(text);
    }

    /// What moves the cursor by so many places.
    fn go(&self, n: usize, direction: char) {
        if n > 0 {
            self.add(&format!("\x1b[{n}{direction}"));
        }
    }
}

impl TermLike for Line {
    fn width(&self) -> u16 {
        ui::columns().unwrap_or(80)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.go(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.go(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.go(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.go(n, 'D');
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(text);
        self.add("\n");
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add("\r\x1b[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.add("\r");
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::mem::take(&mut *drawn);
        ui::draw(&text)
    }
}
