//! Values as Python writes them: `str`, `repr` and `json.dumps`.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// `str(value)`; undefined is empty.
pub fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_undefined() => String::new(),
        None => {
            let mut out = String::new();
            repr(value, &mut out);
            out
        }
    }
}

pub fn repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::String => repr_str(value.as_str().unwrap_or_default(), out),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float(number, ["inf", "nan"])),
            Err(_) => out.push_str(&value.to_string()),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in value.try_iter().into_iter().flatten().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                repr(&item, out);
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter().into_iter().flatten().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                repr(&key, out);
                out.push_str(": ");
                repr(&value.get_item(&key).unwrap_or_default(), out);
            }
            out.push('}');
        }
        ValueKind::Undefined => out.push_str("Undefined"),
        _ => out.push_str(&value.to_string()),
    }
}

fn repr_str(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => {
                out.push('\\');
                out.push(quote);
            }
            '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", character as u32);
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}

/// A float as Python spells it: shortest digits that give it back, an exponent below 1e-4 and from 1e16 on.
/// `special`: the words for infinity and not-a-number.
fn float(number: f64, special: [&str; 2]) -> String {
    if number.is_nan() {
        return special[1].to_owned();
    }
    if number.is_infinite() {
        return format!("{}{}", if number < 0.0 { "-" } else { "" }, special[0]);
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// Jinja2's `int(default=0, base=10)`: the default where there is no number.
pub fn int(value: &Value, default: Option<Value>, arguments: Kwargs) -> Result<Value, Error> {
    let default = default.or(arguments.get("default")?).unwrap_or_else(|| Value::from(0));
    let base: u32 = arguments.get::<Option<u32>>("base")?.unwrap_or(10);
    arguments.assert_all_used()?;
    if !(2..=36).contains(&base) {
        return Ok(default);
    }
    let number = match value.as_str() {
        Some(text) => {
            let text = text.trim();
            let whole =
                text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number.trunc() as i64);
            i64::from_str_radix(text, base).ok().or(whole)
        }
        None if value.kind() == ValueKind::Bool => Some(i64::from(value.is_true())),
        None if value.is_integer() => return Ok(value.clone()),
        None => {
            f64::try_from(value.clone()).ok().filter(|number| number.is_finite()).map(|number| number.trunc() as i64)
        }
    };
    Ok(number.map_or(default, Value::from))
}

/// Jinja2's `float(default=0.0)`.
pub fn float_or(value: &Value, default: Option<Value>, arguments: Kwargs) -> Result<Value, Error> {
    let default = default.or(arguments.get("default")?).unwrap_or_else(|| Value::from(0.0));
    arguments.assert_all_used()?;
    let number = match value.as_str() {
        Some(text) => text.trim().parse::<f64>().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(number.map_or(default, Value::from))
}

struct Json {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
}

fn fail(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

/// transformers' filter: json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False).
pub fn tojson(value: &Value, first: Option<Value>, arguments: Kwargs) -> Result<Value, Error> {
    let ascii = match first {
        Some(flag) => flag.is_true(),
        None => arguments.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    let indent = match arguments.get::<Option<Value>>("indent")?.filter(|indent| !indent.is_none()) {
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(indent).map(|width| width.min(64)).unwrap_or(0)),
        }),
        None => None,
    };
    let (item, key) = match arguments.get::<Option<Value>>("separators")?.filter(|pair| !pair.is_none()) {
        Some(pair) => {
            let parts: Vec<String> = pair.try_iter()?.map(|part| text(&part)).collect();
            let [item, key] = <[String; 2]>::try_from(parts).map_err(|_| fail("tojson: separators are two strings"))?;
            (item, key)
        }
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let sort = arguments.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    arguments.assert_all_used()?;
    let mut out = String::new();
    Json { ascii, indent, item, key, sort }.value(value, 0, &mut out)?;
    Ok(Value::from(out))
}

const DEEPEST: usize = 500;

impl Json {
    fn value(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(fail("tojson: nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => out.push_str(&float(f64::try_from(value.clone())?, ["Infinity", "NaN"])),
            ValueKind::Seq => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(['[', ']'], &items, depth, out, |item, out| self.value(item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort {
                    keys.sort();
                }
                self.list(['{', '}'], &keys, depth, out, |key, out| {
                    match key.as_str() {
                        Some(name) => self.string(name, out),
                        None => {
                            out.push('"');
                            self.value(key, depth + 1, out)?;
                            out.push('"');
                        }
                    }
                    out.push_str(&self.key);
                    self.value(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            kind => return Err(fail(format!("tojson: a value of type {kind} is not JSON"))),
        }
        Ok(())
    }

    fn list(
        &self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(&self.item);
            }
            self.line(depth + 1, out);
            write(item, out)?;
        }
        if !items.is_empty() {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                '\0'..='\x1f' => {
                    let _ = write!(out, "\\u{:04x}", character as u32);
                }
                '\x7f'.. if self.ascii && character != '\x7f' => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}
