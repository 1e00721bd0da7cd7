//! Tokenizers and chat templates behind a C interface (src/text/rust_interface.h).

pub mod bpe;
mod ffi;
mod normalizer;
pub mod template;
pub mod tokenizer;
