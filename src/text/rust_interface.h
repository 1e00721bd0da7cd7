// The C interface of the crate `pastkv-text`: the reference tokenizer (crate `tokenizers`) and the template engine
// (crate `minijinja`). Used by src/text alone.
//
// Every string is a pointer and a length, UTF-8, without a final zero. What a function writes to `error` or to an
// output is owned by the caller and given back to the function named `..._free`. No function lets a panic out; a
// panic becomes an error text. Handles may be used from several threads at once; they are not changed after creation.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* data;
  size_t size;
} PastkvView;  // borrowed

typedef struct {
  char* data;
  size_t size;
} PastkvString;  // owned

typedef struct {
  uint32_t* data;
  size_t size;
} PastkvIds;  // owned

typedef struct PastkvTokenizer PastkvTokenizer;

enum {
  PASTKV_TOKEN_ADDED = 1,     // matched in the text before the model sees it
  PASTKV_TOKEN_SPECIAL = 2,   // an added token that skip_special drops and untrusted text cannot spell
  PASTKV_TOKEN_RSTRIP = 4,    // takes the white space after it
  PASTKV_TOKEN_LSTRIP = 8,    // takes the white space before it
  PASTKV_TOKEN_NO_MERGE = 16  // never made by merging (byte tokens, unused ones)
};

// A vocabulary that has no tokenizer.json.
typedef struct {
  const PastkvView* tokens;  // [token_count], the token's id is its index
  const uint8_t* flags;      // [token_count], PASTKV_TOKEN_*
  const float* scores;       // [token_count], or null
  size_t token_count;
  const PastkvView* merges;  // [merge_count], "left right", in order of rank; used when the model is "BPE"
  size_t merge_count;
  // A JSON object in the words of tokenizer.json: "normalizer", "pre_tokenizer", "post_processor", "decoder", and
  // "model": {"type": "BPE" | "ScoredBPE" | "Unigram" | "WordPiece", "unk_token", "unk_id", "byte_fallback",
  // "fuse_unk", "ignore_merges"}.
  PastkvView parts;
} PastkvVocabulary;

// 0 is success; anything else left a text in `error`.
int pastkv_tokenizer_from_json(PastkvView json, PastkvTokenizer** out, PastkvString* error);
int pastkv_tokenizer_from_vocabulary(const PastkvVocabulary* vocabulary, PastkvTokenizer** out, PastkvString* error);
void pastkv_tokenizer_free(PastkvTokenizer* tokenizer);

// How the spelling of an added token in the text is read.
typedef struct {
  int special_as_text;     // special tokens stay text
  const uint32_t* hidden;  // [hidden_count] code points that stand for others ...
  const uint32_t* meant;   // [hidden_count] ... these, put back after added tokens have been matched
  size_t hidden_count;
} PastkvMatching;

int pastkv_tokenizer_encode(const PastkvTokenizer* tokenizer, PastkvView text, const PastkvMatching* matching,
                            int add_special, PastkvIds* out, PastkvString* error);
int pastkv_tokenizer_decode(const PastkvTokenizer* tokenizer, const uint32_t* ids, size_t count, int skip_special,
                            PastkvString* out, PastkvString* error);
uint32_t pastkv_tokenizer_size(const PastkvTokenizer* tokenizer);
// 1 when found.
int pastkv_tokenizer_id_of(const PastkvTokenizer* tokenizer, PastkvView token, uint32_t* out);
int pastkv_tokenizer_token_of(const PastkvTokenizer* tokenizer, uint32_t id, PastkvString* out);
// JSON: [{"id", "content", "special"}], by id.
int pastkv_tokenizer_added(const PastkvTokenizer* tokenizer, PastkvString* out, PastkvString* error);

enum { PASTKV_RENDER_REFUSED = 2 };  // the template itself raised: `error` holds its message

// `context`: a JSON object, the template's variables. `now`: seconds since the epoch, already in local time.
int pastkv_template_render(PastkvView source, PastkvView context, int64_t now, PastkvString* out, PastkvString* error);

void pastkv_string_free(PastkvString string);
void pastkv_ids_free(PastkvIds ids);

#ifdef __cplusplus
}
#endif
