//! The C interface. Pointers are trusted to be what the header says; nothing else is.

use std::any::Any;
use std::fmt::Display;
use std::os::raw::c_int;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe};
use std::slice;
use std::sync::Once;

use crate::template::{self, RenderError};
use crate::tokenizer::{Arrays, Matching, Tokenizer};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct OwnedString {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct OwnedIds {
    data: *mut u32,
    size: usize,
}

#[repr(C)]
pub struct RawVocabulary {
    tokens: *const View,
    flags: *const u8,
    scores: *const f32,
    token_count: usize,
    merges: *const View,
    merge_count: usize,
    parts: View,
}

#[repr(C)]
pub struct RawMatching {
    special_as_text: c_int,
    hidden: *const u32,
    meant: *const u32,
    hidden_count: usize,
}

/// `slice::from_raw_parts` that takes a null pointer for an empty slice.
unsafe fn array<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if data.is_null() || size == 0 {
        &[]
    } else {
        slice::from_raw_parts(data, size)
    }
}

impl View {
    unsafe fn text<'a>(self, what: &str) -> Result<&'a str, String> {
        std::str::from_utf8(array(self.data, self.size))
            .map_err(|error| format!("{what} is not UTF-8: bad byte at {}", error.valid_up_to()))
    }

    unsafe fn texts<'a>(views: &[View], what: &str) -> Result<Vec<&'a str>, String> {
        views.iter().enumerate().map(|(at, view)| view.text(&format_args!("{what} {at}").to_string())).collect()
    }
}

fn give_string(text: String) -> OwnedString {
    let bytes = text.into_bytes().into_boxed_slice();
    let size = bytes.len();
    OwnedString { data: Box::into_raw(bytes).cast(), size }
}

fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("internal error: {}", text.unwrap_or_default())
}

/// Runs `work`; its error or panic goes to `error`, and nothing is printed.
unsafe fn guarded<E: Into<Failure>>(error: *mut OwnedString, work: impl FnOnce() -> Result<(), E>) -> c_int {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| set_hook(Box::new(|_| ())));
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure.into(),
        Err(panic) => Failure { code: 1, text: panic_text(panic) },
    };
    *error = give_string(failure.text);
    failure.code
}

struct Failure {
    code: c_int,
    text: String,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure { code: 1, text }
    }
}

impl From<RenderError> for Failure {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Refused(text) => Failure { code: 2, text },
            RenderError::Failed(text) => Failure { code: 1, text },
        }
    }
}

fn text_of(error: impl Display) -> String {
    error.to_string()
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_from_json(
    json: View,
    out: *mut *mut Tokenizer,
    error: *mut OwnedString,
) -> c_int {
    guarded(error, || {
        let tokenizer = Tokenizer::from_json(json.text("the file")?).map_err(text_of)?;
        *out = Box::into_raw(Box::new(tokenizer));
        Ok::<(), String>(())
    })
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_from_vocabulary(
    vocabulary: *const RawVocabulary,
    out: *mut *mut Tokenizer,
    error: *mut OwnedString,
) -> c_int {
    guarded(error, || {
        let raw = &*vocabulary;
        let arrays = Arrays {
            tokens: View::texts(array(raw.tokens, raw.token_count), "token")?,
            flags: array(raw.flags, raw.token_count),
            scores: (!raw.scores.is_null()).then(|| array(raw.scores, raw.token_count)),
            merges: View::texts(array(raw.merges, raw.merge_count), "merge")?,
        };
        let parts = serde_json::from_str(raw.parts.text("parts")?).map_err(text_of)?;
        let tokenizer = Tokenizer::from_arrays(arrays, parts).map_err(text_of)?;
        *out = Box::into_raw(Box::new(tokenizer));
        Ok::<(), String>(())
    })
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: View,
    matching: *const RawMatching,
    add_special: c_int,
    out: *mut OwnedIds,
    error: *mut OwnedString,
) -> c_int {
    guarded(error, || {
        let raw = &*matching;
        let character = |code: &u32| char::from_u32(*code).unwrap_or(char::REPLACEMENT_CHARACTER);
        let hidden = array(raw.hidden, raw.hidden_count).iter().map(character);
        let meant = array(raw.meant, raw.hidden_count).iter().map(character);
        let matching = Matching { special_as_text: raw.special_as_text != 0, hidden: hidden.zip(meant).collect() };
        let ids = (*tokenizer).encode(text.text("the text")?, &matching, add_special != 0).map_err(text_of)?;
        let ids = ids.into_boxed_slice();
        let size = ids.len();
        *out = OwnedIds { data: Box::into_raw(ids).cast(), size };
        Ok::<(), String>(())
    })
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    count: usize,
    skip_special: c_int,
    out: *mut OwnedString,
    error: *mut OwnedString,
) -> c_int {
    guarded(error, || {
        let text = (*tokenizer).decode(array(ids, count), skip_special != 0).map_err(text_of)?;
        *out = give_string(text);
        Ok::<(), String>(())
    })
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_size(tokenizer: *const Tokenizer) -> u32 {
    (*tokenizer).size()
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_id_of(tokenizer: *const Tokenizer, token: View, out: *mut u32) -> c_int {
    let found = catch_unwind(AssertUnwindSafe(|| (*tokenizer).id_of(token.text("the token").ok()?)));
    match found {
        Ok(Some(id)) => {
            *out = id;
            1
        }
        _ => 0,
    }
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_token_of(
    tokenizer: *const Tokenizer,
    id: u32,
    out: *mut OwnedString,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| (*tokenizer).token_of(id))) {
        Ok(Some(token)) => {
            *out = give_string(token);
            1
        }
        _ => 0,
    }
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_tokenizer_added(
    tokenizer: *const Tokenizer,
    out: *mut OwnedString,
    error: *mut OwnedString,
) -> c_int {
    guarded(error, || {
        *out = give_string((*tokenizer).added().to_string());
        Ok::<(), String>(())
    })
}

/// # Safety
/// See src/text/rust_interface.h.
#[no_mangle]
pub unsafe extern "C" fn pastkv_template_render(
    source: View,
    context: View,
    now: i64,
    out: *mut OwnedString,
    error: *mut OwnedString,
) -> c_int {
    guarded(error, || {
        let source = source.text("the template").map_err(RenderError::Failed)?;
        let context = context.text("the messages").map_err(RenderError::Failed)?;
        *out = give_string(template::render(source, context, now)?);
        Ok::<(), RenderError>(())
    })
}

/// # Safety
/// `string` came from this library and has not been freed.
#[no_mangle]
pub unsafe extern "C" fn pastkv_string_free(string: OwnedString) {
    if !string.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(string.data, string.size)));
    }
}

/// # Safety
/// `ids` came from this library and have not been freed.
#[no_mangle]
pub unsafe extern "C" fn pastkv_ids_free(ids: OwnedIds) {
    if !ids.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
    }
}
