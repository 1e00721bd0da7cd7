//! Python's methods of strings, lists and dicts: those of minijinja-contrib, and what it lacks or does otherwise.

use minijinja::value::{from_args, Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::python;

pub fn call(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if let (ValueKind::String, Some(text)) = (value.kind(), value.as_str()) {
        if let Some(result) = string(text, method, args) {
            return result;
        }
    }
    unknown_method_callback(state, value, method, args)
}

fn string(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match method {
        "removeprefix" => one(args).map(|part| text.strip_prefix(&part).unwrap_or(text).into()),
        "removesuffix" => one(args).map(|part| text.strip_suffix(&part).unwrap_or(text).into()),
        "rsplit" => split(text, args, true),
        "split" => split(text, args, false),
        "partition" => one(args).map(|part| match text.split_once(&part) {
            Some((before, after)) => list([before, &part, after]),
            None => list([text, "", ""]),
        }),
        "rpartition" => one(args).map(|part| match text.rsplit_once(&part) {
            Some((before, after)) => list([before, &part, after]),
            None => list(["", "", text]),
        }),
        "join" => join(text, args),
        "index" => one(args).and_then(|part| match text.find(&part) {
            Some(at) => Ok(text[..at].chars().count().into()),
            None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
        }),
        "find" if args.len() == 1 => one(args).map(|part| position(text, text.find(&part))),
        "rfind" if args.len() == 1 => one(args).map(|part| position(text, text.rfind(&part))),
        _ => return None,
    })
}

/// Python counts characters, not bytes; -1 for nothing found.
fn position(text: &str, at: Option<usize>) -> Value {
    match at {
        Some(at) => text[..at].chars().count().into(),
        None => (-1).into(),
    }
}

fn list<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    parts.into_iter().map(Value::from).collect()
}

fn one(args: &[Value]) -> Result<String, Error> {
    let (part,): (String,) = from_args(args)?;
    Ok(part)
}

/// `split` and `rsplit`, with `sep` and `maxsplit` also by name.
fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator, most, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.or(named.get("sep")?).filter(|separator| !separator.is_none());
    let most = most.or(named.get("maxsplit")?).and_then(|most| usize::try_from(most).ok());
    named.assert_all_used()?;
    let Some(separator) = separator else {
        return Ok(split_at_space(text, most, from_right).into());
    };
    let separator = separator
        .as_str()
        .filter(|separator| !separator.is_empty())
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "split needs a separator that is not empty"))?;
    let pieces = most.map_or(usize::MAX, |most| most.saturating_add(1));
    if from_right {
        let mut parts: Vec<&str> = text.rsplitn(pieces, separator).collect();
        parts.reverse();
        return Ok(list(parts));
    }
    Ok(list(text.splitn(pieces, separator)))
}

fn split_at_space(text: &str, most: Option<usize>, from_right: bool) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let cut = if from_right { rest.rfind(char::is_whitespace) } else { rest.find(char::is_whitespace) };
        let Some(at) = cut.filter(|_| most.is_none_or(|most| parts.len() < most)) else {
            parts.push(rest.to_owned());
            break;
        };
        if from_right {
            parts.push(rest[at..].trim_start().to_owned());
            rest = rest[..at].trim_end();
        } else {
            parts.push(rest[..at].to_owned());
            rest = rest[at..].trim_start();
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

fn join(separator: &str, args: &[Value]) -> Result<Value, Error> {
    let (values,): (Value,) = from_args(args)?;
    let parts: Vec<String> = values.try_iter()?.map(|value| python::text(&value)).collect();
    Ok(parts.join(separator).into())
}
