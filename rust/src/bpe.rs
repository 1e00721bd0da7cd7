//! A byte pair encoder in compact form, for vocabularies that come as arrays.
//!
//! It merges exactly as `tokenizers::models::bpe::BPE` does (same queue order, same treatment of unknown characters),
//! but loads ten times faster: tokens lie in one string, a merge is three integers, and a vocabulary with scores needs
//! no table of merges at all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

use ahash::{AHashMap, RandomState};
use hashbrown::HashTable;
use tokenizers::{AddedToken, Model, Result, Token, Trainer};

/// A token's id and where its text lies: beside each other, since a look-up waits for memory and little else.
#[derive(Clone, Copy)]
struct Entry {
    id: u32,
    span: (u32, u32),
}

/// Token texts by id and ids by text.
pub struct Vocabulary {
    text: String,
    spans: Vec<(u32, u32)>, // start and length in `text`
    ids: HashTable<Entry>,
    hasher: RandomState,
    longest: usize,
}

impl Vocabulary {
    /// Ids are indices. Of two equal texts the first is found.
    pub fn new<'a>(tokens: impl Iterator<Item = &'a str> + Clone) -> Result<Self> {
        let total: usize = tokens.clone().map(str::len).sum();
        let count = tokens.clone().count();
        if u32::try_from(total).is_err() || u32::try_from(count).is_err() {
            return Err("the vocabulary is over 4 GiB".into());
        }
        let mut vocabulary = Vocabulary {
            text: String::with_capacity(total),
            spans: Vec::with_capacity(count),
            ids: HashTable::with_capacity(count),
            hasher: RandomState::new(),
            longest: 0,
        };
        for (id, token) in tokens.enumerate() {
            vocabulary.push(id as u32, token);
        }
        Ok(vocabulary)
    }

    fn push(&mut self, id: u32, token: &str) {
        let span = (self.text.len() as u32, token.len() as u32);
        self.text.push_str(token);
        self.spans.push(span);
        self.longest = self.longest.max(token.len());
        let (text, hasher) = (&self.text, &self.hasher);
        self.ids
            .entry(
                hasher.hash_one(token),
                |other| slice(text, other.span) == token,
                |other| hasher.hash_one(slice(text, other.span)),
            )
            .or_insert(Entry { id, span });
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        if token.len() > self.longest {
            return None;
        }
        let found = self.ids.find(self.hasher.hash_one(token), |entry| slice(&self.text, entry.span) == token);
        found.map(|entry| entry.id)
    }

    pub fn token(&self, id: u32) -> Option<&str> {
        let span = *self.spans.get(id as usize)?;
        Some(slice(&self.text, span))
    }
}

fn slice(text: &str, (start, length): (u32, u32)) -> &str {
    &text[start as usize..(start + length) as usize]
}

/// Which of two possible merges comes first.
pub enum Order {
    /// A pair of ids gives the merge's rank and the id it makes.
    Merges(AHashMap<(u32, u32), (u32, u32)>),
    /// Two neighbours merge when their joined text is a token; the higher score first. Equal scores: the longer left
    /// part, then the longer right part, then the lower id (the order in which SentencePiece vocabularies are turned
    /// into merges for tokenizer.json).
    Scores(Vec<u32>),
}

#[derive(Default)]
pub struct Options {
    pub unk_token: Option<String>,
    pub byte_fallback: bool,
    pub fuse_unk: bool,
    pub ignore_merges: bool,
}

pub struct Bpe {
    vocabulary: Vocabulary,
    closed: Vec<bool>, // by id: never the result of a merge
    order: Order,
    options: Options,
    unk: Option<u32>,
    byte_ids: [Option<u32>; 256], // the tokens <0x00> to <0xFF>
}

#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    start: u32,
    bytes: u32, // 0: merged away
    chars: u32, // 0: stands for bytes or the unknown, its text is no token
    prev: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

/// (rank, position, id made): the least is merged first.
type Candidate = Reverse<((u64, u64), u32, u32)>;

impl Bpe {
    pub fn new(vocabulary: Vocabulary, closed: Vec<bool>, order: Order, options: Options) -> Result<Self> {
        let unk = match &options.unk_token {
            Some(token) => Some(
                vocabulary.id(token).ok_or_else(|| format!("the unknown token {token:?} is not in the vocabulary"))?,
            ),
            None => None,
        };
        let mut byte_ids = [None; 256];
        if options.byte_fallback {
            for (byte, id) in byte_ids.iter_mut().enumerate() {
                *id = vocabulary.id(&format!("<0x{byte:02X}>"));
            }
        }
        Ok(Bpe { vocabulary, closed, order, options, unk, byte_ids })
    }

    /// `merges`: "left right" each, in order of rank; the space is the first one after the first byte.
    pub fn merges<'a>(vocabulary: &Vocabulary, merges: impl ExactSizeIterator<Item = &'a str>) -> Result<Order> {
        let mut table = AHashMap::with_capacity(merges.len());
        let mut joined = String::new();
        for (rank, merge) in merges.enumerate() {
            let bytes = merge.as_bytes();
            let split = bytes
                .iter()
                .skip(1)
                .position(|&byte| byte == b' ')
                .map(|at| at + 1)
                .ok_or_else(|| format!("merge {rank} ({merge:?}) has no space between its two parts"))?;
            let (left, right) = (&merge[..split], &merge[split + 1..]);
            let find = |token: &str| {
                vocabulary.id(token).ok_or_else(|| {
                    format!("merge {rank} ({merge:?}) needs the token {token:?}, which the vocabulary lacks")
                })
            };
            joined.clear();
            joined.extend([left, right]);
            table.insert((find(left)?, find(right)?), (rank as u32, find(&joined)?));
        }
        Ok(Order::Merges(table))
    }

    /// Turns a score into an integer that is less for a higher score.
    pub fn scores(scores: &[f32]) -> Order {
        Order::Scores(
            scores
                .iter()
                .map(|score| {
                    let score = if score.is_nan() { f32::NEG_INFINITY } else { *score + 0.0 };
                    let bits = score.to_bits();
                    let ascending = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
                    !ascending
                })
                .collect(),
        )
    }

    fn merge_of(&self, word: &str, left: &Symbol, right: &Symbol) -> Option<((u64, u64), u32)> {
        match &self.order {
            Order::Merges(table) => {
                let &(rank, id) = table.get(&(left.id, right.id))?;
                Some(((rank.into(), 0), id))
            }
            Order::Scores(scores) => {
                if left.chars == 0 || right.chars == 0 {
                    return None;
                }
                let start = left.start as usize;
                let id = self.vocabulary.id(&word[start..start + (left.bytes + right.bytes) as usize])?;
                if self.closed[id as usize] {
                    return None;
                }
                let score = *scores.get(id as usize)?;
                let lengths = u64::from(!left.chars as u16) << 16 | u64::from(!right.chars as u16);
                Some(((u64::from(score) << 32 | lengths, id.into()), id))
            }
        }
    }

    fn symbols(&self, word: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let mut add = |id: u32, start: usize, bytes: usize, chars: u32| {
            let at = symbols.len() as u32;
            symbols.push(Symbol {
                id,
                start: start as u32,
                bytes: bytes as u32,
                chars,
                prev: at.wrapping_sub(1),
                next: at + 1,
            });
        };
        let mut unknown: Option<(usize, usize)> = None; // start and bytes of a run that is not yet added
        for (start, character) in word.char_indices() {
            let bytes = character.len_utf8();
            let text = &word[start..start + bytes];
            if let Some(id) = self.vocabulary.id(text) {
                if let (Some((at, length)), Some(unk)) = (unknown.take(), self.unk) {
                    add(unk, at, length, 0);
                }
                add(id, start, bytes, 1);
                continue;
            }
            if self.options.byte_fallback && text.bytes().all(|byte| self.byte_ids[byte as usize].is_some()) {
                for (at, byte) in text.bytes().enumerate() {
                    add(self.byte_ids[byte as usize].unwrap_or(0), start + at, 1, 0);
                }
                continue;
            }
            let Some(unk) = self.unk else { continue };
            unknown = match unknown {
                Some((at, length)) if self.options.fuse_unk => Some((at, length + bytes)),
                Some((at, length)) => {
                    add(unk, at, length, 0);
                    Some((start, bytes))
                }
                None => Some((start, bytes)),
            };
        }
        if let (Some((at, length)), Some(unk)) = (unknown, self.unk) {
            add(unk, at, length, 0);
        }
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        symbols
    }

    fn merge(&self, word: &str) -> Vec<Symbol> {
        let mut symbols = self.symbols(word);
        let mut queue: BinaryHeap<Candidate> = BinaryHeap::with_capacity(symbols.len());
        for at in 1..symbols.len() {
            if let Some((rank, id)) = self.merge_of(word, &symbols[at - 1], &symbols[at]) {
                queue.push(Reverse((rank, at as u32 - 1, id)));
            }
        }
        while let Some(Reverse((_, at, made))) = queue.pop() {
            let left = symbols[at as usize];
            if left.bytes == 0 || left.next == NONE {
                continue;
            }
            let right = symbols[left.next as usize];
            // The entry is out of date when its two neighbours have changed since.
            if self.merge_of(word, &left, &right).is_none_or(|(_, id)| id != made) {
                continue;
            }
            symbols[left.next as usize].bytes = 0;
            let merged = Symbol {
                id: made,
                bytes: left.bytes + right.bytes,
                chars: left.chars + right.chars,
                next: right.next,
                ..left
            };
            symbols[at as usize] = merged;
            if merged.next != NONE {
                symbols[merged.next as usize].prev = at;
                if let Some((rank, id)) = self.merge_of(word, &merged, &symbols[merged.next as usize]) {
                    queue.push(Reverse((rank, at, id)));
                }
            }
            if merged.prev != NONE {
                if let Some((rank, id)) = self.merge_of(word, &symbols[merged.prev as usize], &merged) {
                    queue.push(Reverse((rank, merged.prev, id)));
                }
            }
        }
        symbols.retain(|symbol| symbol.bytes != 0);
        symbols
    }
}

impl Model for Bpe {
    type Trainer = NoTrainer;

    fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        if word.is_empty() {
            return Ok(Vec::new());
        }
        if u32::try_from(word.len()).is_err() {
            return Err("a piece of text over 4 GiB cannot be tokenized".into());
        }
        if self.options.ignore_merges {
            if let Some(id) = self.vocabulary.id(word).filter(|&id| !self.closed[id as usize]) {
                return Ok(vec![Token::new(id, word.to_owned(), (0, word.len()))]);
            }
        }
        let symbols = self.merge(word);
        let mut end = 0;
        Ok(symbols
            .iter()
            .map(|symbol| {
                let start = end;
                end += symbol.bytes as usize;
                let token = self.vocabulary.token(symbol.id).unwrap_or_default();
                Token::new(symbol.id, token.to_owned(), (start, end))
            })
            .collect())
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.vocabulary.token(id).map(str::to_owned)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        (0..self.vocabulary.len() as u32).filter_map(|id| Some((self.vocabulary.token(id)?.to_owned(), id))).collect()
    }

    fn get_vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    fn save(&self, _: &Path, _: Option<&str>) -> Result<Vec<PathBuf>> {
        Err("a tokenizer rebuilt from arrays is not written to files".into())
    }

    fn get_trainer(&self) -> NoTrainer {
        NoTrainer
    }
}

/// The trait `Model` asks for a trainer; these vocabularies are only read.
pub struct NoTrainer;

impl Trainer for NoTrainer {
    type Model = Bpe;

    fn should_show_progress(&self) -> bool {
        false
    }

    fn train(&self, _: &mut Bpe) -> Result<Vec<AddedToken>> {
        Err("vocabularies are only read, not trained".into())
    }

    fn feed<I, S, F>(&mut self, _: I, _: F) -> Result<()>
    where
        I: Iterator<Item = S> + Send,
        S: AsRef<str> + Send,
        F: Fn(&str) -> Result<Vec<String>> + Sync,
    {
        Err("vocabularies are only read, not trained".into())
    }
}
