//! The configuration file: four lines of header, then time chunks of operation definitions (Figures 15 to 19).
//!
//! A definition has six values: process, operation, directory depth, I/O index, cached, iterations. The
//! dissertation's deletes leave one of the two zeros before the iterations out (Figures 19, 24 to 26), and a
//! seventh, in front, is the chunk's index as the structure of Figure 18 has it: all are read, and written as they
//! were.

use std::fmt;

use fsage_core::text::shown;

use super::operation::Operation;

/// The largest request that a call moves, as Linux has it.
pub(super) const MOST_REQUEST_BYTES: u64 = (1 << 31) - 4096;
/// The deepest directory: `000/` for each level stays a path.
const MOST_DEPTHS: u64 = 1000;
const MOST_ITERATIONS: u64 = 1 << 40;
const MOST_PROCESSES: u64 = 1 << 32;

/// Why a configuration was not understood or cannot be run; completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read {file}: line {line}: {message}")]
pub struct ConfigError {
    /// What the file is called.
    pub file: String,
    /// Its line, from 1; the last one and one more for what is missing at the end.
    pub line: u32,
    /// What is there, and what was expected.
    pub message: String,
}

/// How many values a definition is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// One of the zeros of a delete is left out.
    Five,
    /// As the text has it.
    #[default]
    Six,
    /// The index of the time chunk stands in front.
    Seven,
}

/// What one process does so many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// The process, from 0 in the order in which they appeared.
    pub process: u32,
    /// What it does.
    pub operation: Operation,
    /// Directories between the main one and the file.
    pub depth: u32,
    /// The request's size in I/O chunks, rounded down; 0 for what moves no data.
    pub io: u64,
    /// Whether a read finds its data in the cache.
    pub cached: bool,
    /// How often.
    pub iterations: u64,
    /// How it is written.
    pub form: Form,
    /// The line where it stands, from 1.
    pub line: u32,
}

/// What happens in one piece of the time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Its index. One that stands again goes on with the same chunk (Figure 28; Figure 32 compares indices).
    pub index: u32,
    /// What is done.
    pub definitions: Vec<Definition>,
}

/// A FileRunner configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The step in which sizes of requests are told, bytes.
    pub io_chunk_bytes: u64,
    /// Levels of directories, the main one among them: each depth is below it. Figure 15 has 1 where its text says a
    /// maximum depth of 2; everywhere else the number is that of the levels.
    pub depths: u32,
    /// Writes to a file that is written at all.
    pub repeat_write: f64,
    /// Reads of a file that is read at all.
    pub repeat_read: f64,
    /// The time chunks in their order.
    pub chunks: Vec<Chunk>,
}

/// The size of a request with that I/O index: the middle of the step, rounded down (Equation 1). The prose of Figures
/// 23 and 26 takes the step's lower end instead (“1 x 2048”); the worked example of Equation 1 does not.
pub fn size_of(io: u64, io_chunk_bytes: u64) -> u64 {
    let (io, chunk) = (u128::from(io), u128::from(io_chunk_bytes));
    u64::try_from(chunk * io + chunk / 2).unwrap_or(u64::MAX)
}

impl Config {
    /// The size of a definition's requests; 0 for what moves no data.
    pub fn size_bytes(&self, definition: &Definition) -> u64 {
        match definition.operation {
            Operation::READ | Operation::WRITE => size_of(definition.io, self.io_chunk_bytes),
            _ => 0,
        }
    }

    /// Bytes that all requests of an operation move.
    pub fn bytes(&self, operation: Operation) -> u128 {
        let definitions = self.chunks.iter().flat_map(|chunk| &chunk.definitions);
        let of = definitions.filter(|d| d.operation == operation);
        of.map(|d| u128::from(self.size_bytes(d)) * u128::from(d.iterations))
            .sum()
    }

    /// Reads a configuration; `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let mut reader = Reader {
            file,
            lines: text.lines(),
            line: 0,
        };
        let io_chunk_bytes = reader.header("IOChunkSize", 1, MOST_REQUEST_BYTES)?;
        let depths = reader.header("DirDepthIndex", 1, MOST_DEPTHS)? as u32;
        let mut config = Self {
            io_chunk_bytes,
            depths,
            repeat_write: reader.frequency("RepeatWrite")?,
            repeat_read: reader.frequency("RepeatRead")?,
            chunks: Vec::new(),
        };
        while let Some(line) = reader.next() {
            match (line.split_once('='), config.chunks.last_mut()) {
                (Some(_), last) => {
                    let least = last.map_or(0, |chunk| u64::from(chunk.index));
                    let index = reader.number_of(line, "TIndex", least, u64::from(u32::MAX))?;
                    config.chunks.push(Chunk {
                        index: index as u32,
                        definitions: Vec::new(),
                    });
                }
                (None, Some(chunk)) => {
                    let definition = reader.definition(line, chunk.index, depths)?;
                    let size = size_of(definition.io, io_chunk_bytes);
                    if size > MOST_REQUEST_BYTES {
                        return Err(reader.error(format!(
                            "I/O index {} is a request of {size} bytes, expected at most {MOST_REQUEST_BYTES}",
                            definition.io
                        )));
                    }
                    chunk.definitions.push(definition);
                }
                (None, None) => return Err(reader.found(line, "TIndex = N")),
            }
        }
        Ok(config)
    }
}

/// As the dissertation's parser writes it (Figure 17).
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "IOChunkSize = {}", self.io_chunk_bytes)?;
        writeln!(f, "DirDepthIndex = {}", self.depths)?;
        writeln!(f, "RepeatWrite = {}", self.repeat_write)?;
        writeln!(f, "RepeatRead = {}", self.repeat_read)?;
        for chunk in &self.chunks {
            writeln!(f, "TIndex = {}", chunk.index)?;
            for d in &chunk.definitions {
                if d.form == Form::Seven {
                    write!(f, "{},", chunk.index)?;
                }
                write!(f, "{},{},{},", d.process, d.operation.number(), d.depth)?;
                if d.form == Form::Five {
                    writeln!(f, "0,{}", d.iterations)?;
                } else {
                    let cached = u8::from(d.cached);
                    writeln!(f, "{},{cached},{}", d.io, d.iterations)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads line by line.
struct Reader<'t> {
    file: &'t str,
    lines: std::str::Lines<'t>,
    line: u32,
}

impl<'t> Reader<'t> {
    /// The next line that is not empty.
    fn next(&mut self) -> Option<&'t str> {
        loop {
            self.line = self.line.saturating_add(1);
            let line = self.lines.next()?.trim();
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    fn error(&self, message: String) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            line: self.line,
            message,
        }
    }

    fn found(&self, line: &str, expected: &str) -> ConfigError {
        self.error(format!("'{}', expected {expected}", shown(line)))
    }

    fn value(&self, line: &'t str, key: &str, expected: &str) -> Result<&'t str, ConfigError> {
        let pair = line.split_once('=');
        let value = pair.filter(|(name, _)| name.trim() == key);
        let (_, value) = value.ok_or_else(|| self.found(line, expected))?;
        Ok(value.trim())
    }

    fn number_of(
        &self,
        line: &'t str,
        key: &str,
        least: u64,
        most: u64,
    ) -> Result<u64, ConfigError> {
        let expected = format!("{key} = N, N from {least} to {most}");
        let number = self.value(line, key, &expected)?.parse().ok();
        let number = number.filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| self.found(line, &expected))
    }

    /// The next line of the header.
    fn line_of(&mut self, key: &str) -> Result<&'t str, ConfigError> {
        let line = self.next();
        line.ok_or_else(|| self.error(format!("the end of the file, expected {key} = N")))
    }

    fn header(&mut self, key: &str, least: u64, most: u64) -> Result<u64, ConfigError> {
        let line = self.line_of(key)?;
        self.number_of(line, key, least, most)
    }

    fn frequency(&mut self, key: &str) -> Result<f64, ConfigError> {
        let expected = format!("{key} = N, N from 1 to 1e12");
        let line = self.line_of(key)?;
        let number = self.value(line, key, &expected)?.parse().ok();
        let number = number.filter(|n: &f64| (1.0..=1e12).contains(n));
        number.ok_or_else(|| self.found(line, &expected))
    }

    fn definition(&self, line: &str, chunk: u32, depths: u32) -> Result<Definition, ConfigError> {
        const EXPECTED: &str = "PROCESS,OPERATION,DEPTH,IO,CACHED,ITERATIONS";
        let values: Option<Vec<u64>> = line.split(',').map(|v| v.trim().parse().ok()).collect();
        let unlike = || self.found(line, EXPECTED);
        let mut values = values.ok_or_else(unlike)?;
        let delete = u64::from(Operation::DELETE.number());
        let form = match values.len() {
            5 if values.get(1) == Some(&delete) && values.get(3) == Some(&0) => {
                values.insert(4, 0);
                Form::Five
            }
            7 => {
                let index = values.remove(0);
                if index != u64::from(chunk) {
                    return Err(self.error(format!("time chunk {index} within chunk {chunk}")));
                }
                Form::Seven
            }
            _ => Form::Six,
        };
        let six = <[u64; 6]>::try_from(values).map_err(|_| unlike())?;
        let [process, operation, depth, io, cached, iterations] = six;
        let within = |what: &str, value: u64, least: u64, end: u64| {
            if (least..end).contains(&value) {
                return Ok(value);
            }
            let last = end - 1;
            Err(self.error(format!("{what} {value}, expected {least} to {last}")))
        };
        within("process", process, 0, MOST_PROCESSES)?;
        within("operation", operation, 1, 52)?;
        within("directory depth", depth, 0, depths.into())?;
        within("cached", cached, 0, 2)?;
        within("iterations", iterations, 1, MOST_ITERATIONS + 1)?;
        let operation =
            Operation::from_number(operation).ok_or_else(|| self.found(line, EXPECTED))?;
        if matches!(operation, Operation::CREATE | Operation::DELETE) && (io, cached) != (0, 0) {
            return Err(self.error(format!(
                "{} with I/O index {io} and cached {cached}: it moves no data, expected 0 and 0",
                operation.name()
            )));
        }
        Ok(Definition {
            process: process as u32,
            operation,
            depth: depth as u32,
            io,
            cached: cached == 1,
            iterations,
            form,
            line: self.line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn the_samples_are_read_and_written_byte_for_byte() {
        for (figure, text) in samples::ALL {
            let config = Config::parse(figure, text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(config.to_string(), *text, "{figure}");
        }
    }

    #[test]
    fn a_header_is_what_figure_15_says() {
        let config = Config::parse("figure 15", samples::FIGURE_15).unwrap();
        assert_eq!((config.io_chunk_bytes, config.depths), (512, 1));
        assert_eq!((config.repeat_write, config.repeat_read), (2.2, 1.1));
    }

    #[test]
    fn sizes_are_the_middle_of_their_step() {
        assert_eq!(size_of(1, 1000), 1500);
        assert_eq!(size_of(18, 100), 1850);
        assert_eq!(size_of(4096, 1), 4096);
        assert_eq!(size_of(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn seven_values_begin_with_the_chunk() {
        let text = samples::FIGURE_16.replace("\n0,19", "\n0,0,19");
        let config = Config::parse("seven", &text).unwrap();
        assert_eq!(config.to_string(), text);
        assert_eq!(config.chunks[0].definitions[0].iterations, 10);
    }

    #[test]
    fn errors_name_file_line_and_what_was_expected() {
        let header = "IOChunkSize = 512\nDirDepthIndex = 2\nRepeatWrite = 1\nRepeatRead = 1\n";
        let cases = [
            ("", "line 1: the end of the file, expected IOChunkSize = N"),
            (
                "IOChunkSize = 0\n",
                "line 1: 'IOChunkSize = 0', expected IOChunkSize = N, N from 1 to",
            ),
            (
                "DirDepthIndex = 2\n",
                "line 1: 'DirDepthIndex = 2', expected IOChunkSize",
            ),
            (
                "+RepeatRead = 1\n",
                "line 5: 'RepeatRead = 1', expected TIndex = N",
            ),
            (
                "+0,19,0,0,0,10\n",
                "line 5: '0,19,0,0,0,10', expected TIndex = N",
            ),
            (
                "+TIndex = 3\nTIndex = 2\n",
                "line 6: 'TIndex = 2', expected TIndex = N, N from 3",
            ),
            (
                "+TIndex = 0\n\n0,52,0,0,0,1\n",
                "line 7: operation 52, expected 1 to 51",
            ),
            (
                "+TIndex = 0\n0,19,2,0,0,1\n",
                "line 6: directory depth 2, expected 0 to 1",
            ),
            (
                "+TIndex = 0\n0,35,0,0,2,1\n",
                "line 6: cached 2, expected 0 to 1",
            ),
            (
                "+TIndex = 0\n0,35,0,0,0,0\n",
                "line 6: iterations 0, expected 1 to",
            ),
            (
                "+TIndex = 0\n0,35,0,0,-1\n",
                "line 6: '0,35,0,0,-1', expected PROCESS",
            ),
            (
                "+TIndex = 0\n0,35,0,0,1\n",
                "line 6: '0,35,0,0,1', expected PROCESS",
            ),
            (
                "+TIndex = 0\n1,0,35,0,0,0,1\n",
                "line 6: time chunk 1 within chunk 0",
            ),
            (
                "+TIndex = 0\n0,22,0,7,0,1\n",
                "line 6: unlink with I/O index 7",
            ),
            (
                "+TIndex = 0\n0,34,0,9999999,0,1\n",
                "line 6: I/O index 9999999 is a request of",
            ),
            (
                "+TIndex = 0\n9999999999,34,0,1,0,1\n",
                "line 6: process 9999999999",
            ),
        ];
        for (text, expected) in cases {
            let text = text.replacen('+', header, 1);
            let error = Config::parse("m.cfg", &text).unwrap_err().to_string();
            assert!(error.starts_with("read m.cfg: line "), "{error}");
            assert!(error.contains(expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn a_frequency_is_one_or_more() {
        for frequency in ["0.5", "NaN", "inf", "-1", "", "2,2"] {
            let text = samples::FIGURE_16
                .replace("RepeatWrite = 1", &format!("RepeatWrite = {frequency}"));
            let error = Config::parse("m.cfg", &text).unwrap_err();
            assert_eq!(error.line, 3, "{error}");
        }
    }
}
