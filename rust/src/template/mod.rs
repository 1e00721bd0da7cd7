//! Chat templates: Jinja2 as `transformers` sets it up, rendered by minijinja.

mod clock;
mod lazy;
mod methods;
mod prepare;
mod python;
mod values;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};

pub enum RenderError {
    /// The template called raise_exception: its own message.
    Refused(String),
    Failed(String),
}

const MOST_INSTRUCTIONS: u64 = 10_000_000;
const MOST_OUTPUT: usize = 64 << 20; // bytes

/// Takes no more than `MOST_OUTPUT` bytes: a hostile template must not fill the memory.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_OUTPUT {
            return Err(io::Error::other(format!("the prompt is over {} MiB", MOST_OUTPUT >> 20)));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn environment(now: i64, refusal: Arc<Mutex<Option<String>>>) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_fuel(Some(MOST_INSTRUCTIONS));
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(|out, _, value| {
        out.write_str(&python::text(value))?;
        Ok(())
    });
    env.set_unknown_method_callback(methods::call);
    env.add_function("raise_exception", move |message: &Value| -> Result<Value, Error> {
        let message = python::text(message);
        *refusal.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(message.clone());
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    env.add_function("strftime_now", move |format: &str| clock::format(now, format));
    env.add_filter("tojson", python::tojson);
    env.add_filter(prepare::ITERATED, values::iterated);
    env.add_test("iterable", values::is_iterable);
    lazy::add_filters(&mut env);
    env.add_filter("max", |values: Value, named: Kwargs| values::extreme(values, named, true));
    env.add_filter("min", |values: Value, named: Kwargs| values::extreme(values, named, false));
    env.add_filter("int", python::int);
    env.add_filter("float", python::float_or);
    env.add_filter("string", |value: &Value| python::text(value));
    env
}

/// `context_json`: an object, the template's variables. `now`: seconds since the epoch in local time.
pub fn render(source: &str, context_json: &str, now: i64) -> Result<String, RenderError> {
    let failed = |error: &dyn std::fmt::Display| RenderError::Failed(error.to_string());
    let variables: serde_json::Value = serde_json::from_str(context_json).map_err(|error| failed(&error))?;
    let source = prepare::prepare(source);
    let refusal = Arc::new(Mutex::new(None));
    let env = environment(now, refusal.clone());
    let template = env.template_from_named_str("chat_template", &source).map_err(|error| failed(&describe(&error)))?;
    let mut out = Bounded(Vec::new());
    let outcome = template.render_captured_to(values::from_json(&variables), &mut out).map(drop);
    match outcome {
        Ok(()) => String::from_utf8(out.0).map_err(|error| failed(&error)),
        Err(error) => match refusal.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            Some(message) => Err(RenderError::Refused(message)),
            None => Err(failed(&describe(&error))),
        },
    }
}

/// One line: what, and on which line of the template.
fn describe(error: &Error) -> String {
    let mut text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    if let Some(line) = error.line() {
        text += &format!(" (line {line})");
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
