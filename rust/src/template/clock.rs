//! `strftime_now`: any format of strftime, with the names of the C locale.

use minijinja::{Error, ErrorKind};

const LONGEST: usize = 4096; // bytes of a formatted date

/// The format without its %z and %Z.
fn without_zone(format: &str) -> String {
    let mut kept = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            kept.push(c);
            continue;
        }
        match rest.next() {
            Some('z' | 'Z') => {}
            Some(directive) => kept.extend(['%', directive]),
            None => kept.push('%'),
        }
    }
    kept
}

/// `now`: seconds since the epoch, already in local time.
pub fn format(now: i64, format: &str) -> Result<String, Error> {
    let fail =
        |reason: &str| Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {reason}")));
    if format.contains('\0') {
        return fail("the format holds a zero byte");
    }
    // A last character that is always written tells an empty result from one that did not fit.
    let pattern = format!("{format}.\0");
    let mut buffer = vec![0u8; LONGEST];
    // SAFETY: both structures are plain data; the buffer's size is passed on.
    let written = unsafe {
        let seconds = now as libc::time_t;
        let mut fields: libc::tm = std::mem::zeroed();
        if libc::gmtime_r(&seconds, &mut fields).is_null() {
            return fail("the time is out of range");
        }
        // Local time without a zone, as the reference has it: %z and %Z give nothing.
        let pattern = without_zone(&pattern);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), pattern.as_ptr().cast(), &fields)
    };
    if written == 0 {
        return fail("the result is too long");
    }
    buffer.truncate(written - 1);
    String::from_utf8(buffer).or_else(|_| fail("the result is not UTF-8"))
}
