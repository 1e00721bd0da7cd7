//! The crate's normalizers, with one check before: the crate allocates what the header of a character map asks for.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, Result};

pub struct CheckedNormalizer(NormalizerWrapper);

impl Normalizer for CheckedNormalizer {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        self.0.normalize(text)
    }
}

impl<'de> Deserialize<'de> for CheckedNormalizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        check(&value).map_err(D::Error::custom)?;
        serde_json::from_value(value).map(CheckedNormalizer).map_err(D::Error::custom)
    }
}

/// Looks at every character map in the description of a normalizer.
fn check(value: &Value) -> std::result::Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(entries) => entries.iter().try_for_each(|(name, value)| match value.as_str() {
            Some(map) if name == "precompiled_charsmap" => check_map(map.as_bytes()),
            _ => check(value),
        }),
        _ => Ok(()),
    }
}

/// A map, in base64, begins with the size of its trie in bytes, in 32 bits from the lowest byte on.
fn check_map(base64: &[u8]) -> std::result::Result<(), String> {
    let bytes = base64.len() / 4 * 3;
    let digits = base64.get(..6).ok_or("precompiled_charsmap is too short")?;
    let mut header = 0u64;
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err("precompiled_charsmap is not base64".to_owned()),
        };
        header = header << 6 | u64::from(value);
    }
    let size = ((header >> 4) as u32).swap_bytes() as usize;
    if size > bytes.saturating_sub(4) {
        return Err(format!("precompiled_charsmap says that its trie has {size} bytes, but it has {bytes} in all"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_map;

    #[test]
    fn the_size_of_the_trie_is_checked() {
        assert!(check_map(b"BAAAAAAAAAAA").is_ok()); // 4 of 9 bytes
        assert!(check_map(b"BQAAAAAAAAAA").is_ok()); // 5 of 9
        assert!(check_map(b"BgAAAAAAAAAA").is_err()); // 6 of 9
        assert!(check_map(b"////fwAA").is_err());
        assert!(check_map(b"AAAA").is_err());
        assert!(check_map(b"AAA=AAAA").is_err());
    }
}
