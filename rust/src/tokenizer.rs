//! A tokenizer of either origin (tokenizer.json, or arrays), and text to ids with some spellings kept as text.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use ahash::AHashMap;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{json, Value};
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::models::ModelWrapper;
use tokenizers::tokenizer::pre_tokenizer::OffsetType;
use tokenizers::{
    AddedToken, AddedVocabulary, DecoderWrapper, Model, PostProcessorWrapper, PreTokenizer, PreTokenizerWrapper,
    Result, Token, TokenizerBuilder, TokenizerImpl,
};

use crate::bpe::{Bpe, NoTrainer, Options, Vocabulary};
use crate::normalizer::CheckedNormalizer;

/// The crate's own models, or ours for vocabularies that come as arrays.
pub enum AnyModel {
    Reference(ModelWrapper),
    Compact(Bpe),
}

impl<'de> Deserialize<'de> for AnyModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            name: Option<String>,
        }
        // The crate's own way goes through a tree of JSON values; straight to the model halves the time.
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let model = match serde_json::from_str::<Kind>(raw) {
            Ok(Kind { name: Some(name) }) if name == "BPE" => serde_json::from_str::<BPE>(raw).map(ModelWrapper::BPE),
            _ => serde_json::from_str::<ModelWrapper>(raw),
        };
        model.map(AnyModel::Reference).map_err(serde::de::Error::custom)
    }
}

macro_rules! either {
    ($self:ident, $model:ident => $call:expr) => {
        match $self {
            AnyModel::Reference($model) => $call,
            AnyModel::Compact($model) => $call,
        }
    };
}

impl Model for AnyModel {
    type Trainer = NoTrainer;

    fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        either!(self, model => model.tokenize(word))
    }
    fn token_to_id(&self, token: &str) -> Option<u32> {
        either!(self, model => model.token_to_id(token))
    }
    fn id_to_token(&self, id: u32) -> Option<String> {
        either!(self, model => model.id_to_token(id))
    }
    fn get_vocab(&self) -> HashMap<String, u32> {
        either!(self, model => model.get_vocab())
    }
    fn get_vocab_size(&self) -> usize {
        either!(self, model => model.get_vocab_size())
    }
    fn save(&self, folder: &Path, prefix: Option<&str>) -> Result<Vec<PathBuf>> {
        either!(self, model => model.save(folder, prefix))
    }
    fn get_trainer(&self) -> NoTrainer {
        NoTrainer
    }
}

type Inner = TokenizerImpl<AnyModel, CheckedNormalizer, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

pub struct Tokenizer {
    inner: Inner,
    untrusted: AddedVocabulary, // as the inner's, but special tokens are not matched
    size: u32,
}

/// How the spelling of an added token in the text is read.
#[derive(Default)]
pub struct Matching {
    pub special_as_text: bool,
    /// Code points that stand for others until added tokens have been matched.
    pub hidden: AHashMap<char, char>,
}

pub const ADDED: u8 = 1;
pub const SPECIAL: u8 = 2;
pub const RSTRIP: u8 = 4;
pub const LSTRIP: u8 = 8;
pub const NO_MERGE: u8 = 16;

pub struct Arrays<'a> {
    pub tokens: Vec<&'a str>,
    pub flags: &'a [u8],
    pub scores: Option<&'a [f32]>,
    pub merges: Vec<&'a str>,
}

#[derive(Deserialize)]
pub struct Parts {
    model: ModelParts,
    normalizer: Option<CheckedNormalizer>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    decoder: Option<DecoderWrapper>,
}

#[derive(Deserialize)]
struct ModelParts {
    #[serde(rename = "type")]
    kind: String,
    unk_token: Option<String>,
    unk_id: Option<usize>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    ignore_merges: bool,
}

fn model_from_arrays(arrays: &Arrays, parts: ModelParts) -> Result<AnyModel> {
    let scores = || arrays.scores.ok_or("the vocabulary has no scores");
    let tokens = || arrays.tokens.iter().copied();
    match parts.kind.as_str() {
        "BPE" | "ScoredBPE" => {
            let vocabulary = Vocabulary::new(tokens())?;
            let order = match parts.kind.as_str() {
                "BPE" => Bpe::merges(&vocabulary, arrays.merges.iter().copied())?,
                _ => Bpe::scores(scores()?),
            };
            let closed = arrays.flags.iter().map(|flags| flags & (SPECIAL | NO_MERGE) != 0).collect();
            let options = Options {
                unk_token: parts.unk_token,
                byte_fallback: parts.byte_fallback,
                fuse_unk: parts.fuse_unk,
                ignore_merges: parts.ignore_merges,
            };
            Ok(AnyModel::Compact(Bpe::new(vocabulary, closed, order, options)?))
        }
        "Unigram" => {
            let pieces = tokens().zip(scores()?).map(|(token, score)| (token.to_owned(), f64::from(*score)));
            let model = Unigram::from(pieces.collect(), parts.unk_id, parts.byte_fallback)?;
            Ok(AnyModel::Reference(ModelWrapper::Unigram(model)))
        }
        "WordPiece" => {
            let vocabulary: AHashMap<String, u32> =
                tokens().enumerate().map(|(id, token)| (token.to_owned(), id as u32)).collect();
            let unk = parts.unk_token.unwrap_or_else(|| "[UNK]".to_owned());
            let model = WordPiece::builder().vocab(vocabulary).unk_token(unk).build()?;
            Ok(AnyModel::Reference(ModelWrapper::WordPiece(model)))
        }
        other => Err(format!("unknown kind of model {other:?}").into()),
    }
}

impl Tokenizer {
    pub fn from_json(text: &str) -> Result<Self> {
        Self::new(serde_json::from_str(text)?)
    }

    pub fn from_arrays(mut arrays: Arrays, parts: Parts) -> Result<Self> {
        if arrays.flags.len() != arrays.tokens.len() {
            return Err("tokens and flags differ in number".into());
        }
        if arrays.scores.is_some_and(|scores| scores.len() != arrays.tokens.len()) {
            return Err("tokens and scores differ in number".into());
        }
        let model = model_from_arrays(&arrays, parts.model)?;
        let mut inner: Inner = TokenizerBuilder::new()
            .with_model(model)
            .with_normalizer(parts.normalizer)
            .with_pre_tokenizer(parts.pre_tokenizer)
            .with_post_processor(parts.post_processor)
            .with_decoder(parts.decoder)
            .build()?;
        let added = std::mem::take(&mut arrays.tokens).into_iter().zip(arrays.flags);
        inner.add_tokens(added.filter(|(_, flags)| *flags & ADDED != 0).map(|(token, flags)| {
            AddedToken::from(token, flags & SPECIAL != 0)
                .normalized(false)
                .rstrip(flags & RSTRIP != 0)
                .lstrip(flags & LSTRIP != 0)
        }))?;
        Self::new(inner)
    }

    fn new(mut inner: Inner) -> Result<Self> {
        // A prompt is never cut or padded, whatever the file was made for.
        inner.with_truncation(None)?;
        inner.with_padding(None);
        let mut untrusted = inner.get_added_vocabulary().clone();
        untrusted.set_encode_special_tokens(true);
        let highest_added = inner.get_added_vocabulary().get_added_tokens_decoder().keys().max().copied();
        let highest_model = match inner.get_model() {
            AnyModel::Compact(model) => (model.get_vocab_size() as u32).checked_sub(1),
            AnyModel::Reference(model) => model.get_vocab().into_values().max(),
        };
        let size = highest_added.max(highest_model).map_or(0, |id| id.saturating_add(1));
        Ok(Tokenizer { inner, untrusted, size })
    }

    /// The crate's own steps, with one more: hidden code points are put back after added tokens have been found.
    pub fn encode(&self, text: &str, matching: &Matching, add_special: bool) -> Result<Vec<u32>> {
        let added = if matching.special_as_text { &self.untrusted } else { self.inner.get_added_vocabulary() };
        let mut pieces = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if !matching.hidden.is_empty() {
            pieces.normalize(|piece| {
                piece.map(|character| *matching.hidden.get(&character).unwrap_or(&character));
                Ok(())
            })?;
        }
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| self.inner.get_model().tokenize(piece.get()))?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
        let encoding = self.inner.post_process(encoding, None, add_special)?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        self.inner.decode(ids, skip_special)
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    pub fn token_of(&self, id: u32) -> Option<String> {
        let added = self.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id);
        added.map(|token| token.content.clone()).or_else(|| self.inner.get_model().id_to_token(id))
    }

    pub fn added(&self) -> Value {
        let tokens: BTreeMap<_, _> = self.inner.get_added_vocabulary().get_added_tokens_decoder().iter().collect();
        tokens
            .into_iter()
            .map(|(id, token)| json!({"id": id, "content": token.content, "special": token.special}))
            .collect()
    }
}
