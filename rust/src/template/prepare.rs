//! What Jinja2 with transformers' extension understands and minijinja does not, put into words that it does.
//!
//! - `{% generation %} ... {% endgeneration %}` marks what the model writes. For rendering it is a block with a scope
//!   of its own, which is what `{% with %}` is.
//! - `{% for x in none %}` is an error in Python and an empty loop here: what a loop runs over goes through a filter
//!   that raises the error.
//!
//! Text, comments, string literals and raw blocks are kept as they are, and so are line numbers.

use std::borrow::Cow;
use std::ops::Range;

pub const ITERATED: &str = "_iterated";

/// The template with these tags changed.
pub fn prepare(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let tail = &rest[open..];
        let end = match tail.as_bytes().get(1) {
            Some(b'#') => tail.find("#}").map_or(tail.len(), |at| at + 2),
            Some(b'{') => tag_end(tail, "}}"),
            Some(b'%') => tag_end(tail, "%}"),
            _ => 1,
        };
        let (tag, after) = tail.split_at(end);
        out.push_str(&prepared(tag));
        rest = after;
        if matches!(block_name(tag), Some((_, "raw"))) {
            let raw = raw_length(rest);
            out.push_str(&rest[..raw]);
            rest = &rest[raw..];
        }
    }
    out.push_str(rest);
    out
}

fn prepared(tag: &str) -> Cow<'_, str> {
    let replaced = |range: Range<usize>, by: &str| [&tag[..range.start], by, &tag[range.end..]].concat();
    match block_name(tag) {
        Some((name, "generation")) => replaced(name, "with").into(),
        Some((name, "endgeneration")) => replaced(name, "endwith").into(),
        Some((name, "for")) => match iterated(tag, name.end) {
            Some(range) => replaced(range.clone(), &format!(" ({})|{ITERATED} ", &tag[range])).into(),
            None => tag.into(),
        },
        _ => tag.into(),
    }
}

/// Walks over the code of a tag from byte `at`: every byte outside string literals, with the depth of brackets.
/// Stops when `visit` says so.
fn walk(tag: &str, mut at: usize, mut visit: impl FnMut(usize, i32) -> bool) {
    let bytes = tag.as_bytes();
    let (mut quote, mut depth) = (None, 0);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, byte) => {
                match byte {
                    b'"' | b'\'' => quote = Some(byte),
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth -= 1,
                    _ => {}
                }
                if visit(at, depth) {
                    return;
                }
            }
        }
        at += 1;
    }
}

/// Where the tag at the start of `text` ends; closing marks inside string literals do not count.
fn tag_end(text: &str, close: &str) -> usize {
    let mut end = text.len();
    let mut depth_of_braces = 0;
    walk(text, 2, |at, _| {
        // `{{ {'a': {}} }}`: a brace that closes a dict does not close the tag.
        let byte = text.as_bytes()[at];
        if depth_of_braces == 0 && text[at..].starts_with(close) {
            end = at + close.len();
            return true;
        }
        match byte {
            b'{' => depth_of_braces += 1,
            b'}' => depth_of_braces -= 1,
            _ => {}
        }
        false
    });
    end
}

/// The first word of a `{% ... %}` and where it is.
fn block_name(tag: &str) -> Option<(Range<usize>, &str)> {
    let inner = tag.strip_prefix("{%")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let word = inner.trim_start();
    let start = tag.len() - word.len();
    let length = word.find(|c: char| !is_word(c as u32)).unwrap_or(word.len());
    Some((start..start + length, &word[..length]))
}

fn is_word(code: u32) -> bool {
    u8::try_from(code).is_ok_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The expression between `in` and what ends it: `if`, `recursive` or the tag's end.
fn iterated(tag: &str, from: usize) -> Option<Range<usize>> {
    let bytes = tag.as_bytes();
    let (mut start, mut end) = (None, None);
    let body = tag.strip_suffix("%}")?;
    let limit = body.strip_suffix(['-', '+']).unwrap_or(body).len();
    walk(&tag[..limit], from, |at, depth| {
        if depth != 0 || is_word(bytes[at - 1].into()) || bytes[at - 1] == b'.' || !is_word(bytes[at].into()) {
            return false;
        }
        let length = tag[at..].find(|c: char| !is_word(c as u32)).unwrap_or(tag.len() - at);
        match (start, &tag[at..at + length]) {
            (None, "in") => start = Some(at + length),
            (Some(_), "if" | "recursive") => end = Some(at),
            _ => {}
        }
        end.is_some()
    });
    Some(start?..end.unwrap_or(limit))
}

/// Bytes up to the `{% endraw %}` that ends a raw block.
fn raw_length(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%").map(|at| at + from) {
        if matches!(block_name(&text[at..]), Some((_, "endraw"))) {
            return at;
        }
        from = at + 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::prepare;

    #[test]
    fn only_real_tags_change() {
        let cases = [
            ("{%- generation -%}a{%endgeneration+%}", "{%- with -%}a{%endwith+%}"),
            ("{# {% generation %} #}{{ '{% generation %}' }}", "{# {% generation %} #}{{ '{% generation %}' }}"),
            (
                "{% raw %}{% generation %}{% endraw %}{% generation %}",
                "{% raw %}{% generation %}{% endraw %}{% with %}",
            ),
            ("{% set x = '%}' %}{% generation %}", "{% set x = '%}' %}{% with %}"),
            ("{% if add_generation_prompt %}{ generation", "{% if add_generation_prompt %}{ generation"),
            ("{{ 'it\\'s }}' }}{% generation %}", "{{ 'it\\'s }}' }}{% with %}"),
            ("{{ {'a': {}} }}{% generation %}", "{{ {'a': {}} }}{% with %}"),
            ("{%- for x in y -%}", "{%- for x in ( y )|_iterated -%}"),
            (
                "{% for a, b in f('in', [1 if c else 2]) if a in d %}",
                "{% for a, b in ( f('in', [1 if c else 2]) )|_iterated if a in d %}",
            ),
            ("{% for min in in_all recursive %}", "{% for min in ( in_all )|_iterated recursive %}"),
            ("{% for", "{% for"),
        ];
        for (source, wanted) in cases {
            assert_eq!(prepare(source), wanted);
        }
    }
}
