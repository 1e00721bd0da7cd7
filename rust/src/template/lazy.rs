//! Filters that give a generator in Python: it can be run over, but has no length and is not JSON.

use std::borrow::Cow;

use minijinja::value::Rest;
use minijinja::{filters, Environment, Error, State, Value};

type Name<'a> = Option<Cow<'a, str>>;

fn generator(items: Vec<Value>) -> Value {
    Value::make_iterable(move || items.clone().into_iter())
}

fn map(state: &State, value: Value, args: Rest<Value>) -> Result<Value, Error> {
    filters::map(state, value, args).map(generator)
}

fn select(state: &State, value: Value, test: Name<'_>, args: Rest<Value>) -> Result<Value, Error> {
    filters::select(state, value, test, args).map(generator)
}

fn reject(state: &State, value: Value, test: Name<'_>, args: Rest<Value>) -> Result<Value, Error> {
    filters::reject(state, value, test, args).map(generator)
}

fn selectattr(
    state: &State,
    value: Value,
    attribute: Cow<'_, str>,
    test: Name<'_>,
    args: Rest<Value>,
) -> Result<Value, Error> {
    filters::selectattr(state, value, attribute, test, args).map(generator)
}

fn rejectattr(
    state: &State,
    value: Value,
    attribute: Cow<'_, str>,
    test: Name<'_>,
    args: Rest<Value>,
) -> Result<Value, Error> {
    filters::rejectattr(state, value, attribute, test, args).map(generator)
}

pub fn add_filters(env: &mut Environment) {
    env.add_filter("map", map);
    env.add_filter("select", select);
    env.add_filter("reject", reject);
    env.add_filter("selectattr", selectattr);
    env.add_filter("rejectattr", rejectattr);
}
