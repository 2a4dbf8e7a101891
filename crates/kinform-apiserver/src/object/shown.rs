//! Values as errors show them.
//!
//! ```text
//! value -> the beginning of its JSON
//! ```
//!
//! An error shows a part of its value only (`kinform_api::FieldError`), so no more is encoded: one
//! value can have a thousand errors, and be as large as its object.

use std::io;

use serde_json::Value;

/// BOUND: bytes of a value that are encoded for an error, more than an error shows.
const MOST_BYTES: usize = 20 << 10;

/// Returns the JSON of a value; of a large one, its beginning.
pub(crate) fn beginning_of(value: &Value) -> String {
    let mut text = Beginning(Vec::new());
    // A value that does not fit ends the encoding by an error of the writer.
    let _ = serde_json::to_writer(&mut text, value);
    String::from_utf8_lossy(&text.0).into_owned()
}

struct Beginning(Vec<u8>);

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MOST_BYTES - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        match bytes.len() > room {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_value_is_encoded_as_far_as_errors_show_it() {
        let small = json!({"a": ["b", 1.5, null]});
        assert_eq!(beginning_of(&small), small.to_string());
        let large = json!(vec!["ü"; 1 << 20]);
        let text = beginning_of(&large);
        assert!(large.to_string().starts_with(&text[..MOST_BYTES - 10]));
        assert!(text.len() < MOST_BYTES + 10, "{}", text.len());
    }
}
