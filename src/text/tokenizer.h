// Text to token ids and back, exact to the reference: the `tokenizers` crate does the work behind a C interface
// (rust/).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/hf_folder.h"

namespace pastkv::text {

enum class SpecialText : std::uint8_t {
  parse,  // the spelling of a special token in the text becomes its id, as the reference does
  // It stays ordinary text: for content that is not trusted. Added tokens that are not special (runs of spaces, words)
  // are part of how the model writes text and are found as before; encode_chat knows more and goes further.
  as_text,
};

// How added tokens are found in a text. `hidden` and `meant` are code points, one for one: a hidden one cannot spell an
// added token, and is put back to what is meant once these have been found.
struct Matching {
  bool special_as_text = false;
  std::vector<std::uint32_t> hidden;
  std::vector<std::uint32_t> meant;
};

class Tokenizer {
 public:
  // From tokenizer.json, with the rules of tokenizer_config.json (which BOS and EOS to add, clean-up).
  static Tokenizer from_hf(const formats::HfFolder& folder);
  static Tokenizer from_file(const std::filesystem::path& tokenizer_json);
  // Rebuilt from tokenizer.ggml.* (or tokenizer.huggingface.json when present). Throws Error for an unknown
  // tokenizer.ggml.model or pre; says which are known.
  static Tokenizer from_gguf(const formats::GgufFile& file);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special`: the BOS and EOS that the files ask for, each once.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special,
                                   SpecialText special = SpecialText::parse) const;
  std::vector<std::int32_t> encode(std::string_view text, bool add_special, const Matching& matching) const;
  // UTF-8; bytes that are no valid UTF-8 become U+FFFD. Unknown ids decode to nothing.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;

  std::int32_t size() const;  // ids are below it
  std::optional<std::int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(std::int32_t id) const;  // as spelt in the vocabulary
  bool is_special(std::int32_t id) const;
  std::vector<std::string> added_tokens(bool special) const;  // how they are spelt in a text
  std::optional<std::int32_t> bos() const;
  std::vector<std::int32_t> eos_ids() const;  // of tokenizer_config, or the GGUF's eos, eot, eom
  const std::string& bos_source() const;      // which file decided whether a BOS is added, for --verbose

 private:
  friend class StreamDecoder;
  struct Parts;
  std::string decode_raw(std::span<const std::int32_t> ids, bool skip_special) const;  // before clean-up
  bool cleans_up() const;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Decodes ids as they come and gives out only text that can no longer change: incomplete UTF-8 is held back.
// The concatenation of everything given out equals Tokenizer::decode of all ids.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);
  std::string push(std::int32_t id);
  std::string finish();  // what is still held; invalid bytes become U+FFFD

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string give(std::string fresh, bool last);

  std::vector<std::int32_t> ids_;
  std::size_t window_begin_ = 0;  // ids from here on are decoded together ...
  std::size_t window_read_ = 0;   // ... and those before this one have been given out
  std::string held_;              // text that clean-up may still change
};

}  // namespace pastkv::text
