//! The variables of a template: lists and dicts that print as Python prints them, wherever a string is made of them.

use std::fmt;
use std::sync::Arc;

use ahash::AHashMap;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::python;

#[derive(Debug)]
struct List(Vec<Value>);

#[derive(Debug)]
struct Dict {
    keys: Vec<Value>, // in the order of the file
    values: AHashMap<String, Value>,
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&python::text(&Value::from_dyn_object(self.clone())))
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.values.get(key.as_str()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys.clone())
    }

    fn render(self: &Arc<Self>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&python::text(&Value::from_dyn_object(self.clone())))
    }
}

pub fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Array(items) => Value::from_object(List(items.iter().map(from_json).collect())),
        serde_json::Value::Object(entries) => Value::from_object(Dict {
            keys: entries.keys().map(|key| Value::from(key.as_str())).collect(),
            values: entries.iter().map(|(key, value)| (key.clone(), from_json(value))).collect(),
        }),
        plain => Value::from_serialize(plain),
    }
}

/// What a `for` runs over. minijinja takes none for an empty list, Python does not.
pub fn iterated(value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable"));
    }
    Ok(value)
}

pub fn is_iterable(value: &Value) -> bool {
    value.kind() != ValueKind::None && value.try_iter().is_ok()
}

/// Jinja2's `max` and `min`, by `attribute`; of equal ones the first. Undefined for an empty list.
pub fn extreme(values: Value, arguments: Kwargs, largest: bool) -> Result<Value, Error> {
    let attribute: Option<String> = arguments.get("attribute")?;
    arguments.assert_all_used()?;
    let mut best: Option<(Value, Value)> = None;
    for value in values.try_iter()? {
        let key = match &attribute {
            Some(name) => name.split('.').try_fold(value.clone(), |item, part| item.get_attr(part))?,
            None => value.clone(),
        };
        if best.as_ref().is_none_or(|(least, _)| if largest { key > *least } else { key < *least }) {
            best = Some((key, value));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, value)| value))
}
