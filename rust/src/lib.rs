//! Tokenizers and chat templates behind a C interface (include/pastkv_text.h).

pub mod bpe;
mod ffi;
pub mod template;
pub mod tokenizer;
