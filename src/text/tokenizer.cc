#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/tokenizer_parts.h"

namespace pastkv::text {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;
constexpr std::array<Replacement, 10> kCleanUp = {{{" .", "."},
                                                   {" ?", "?"},
                                                   {" !", "!"},
                                                   {" ,", ","},
                                                   {" ' ", "'"},
                                                   {" n't", "n't"},
                                                   {" 'm", "'m"},
                                                   {" 's", "'s"},
                                                   {" 've", "'ve"},
                                                   {" 're", "'re"}}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string clean_up_spaces(std::string text) {
  for (const auto& [from, to] : kCleanUp) replace_all(text, from, to);
  return text;
}

std::size_t settled_before_clean_up(std::string_view text) {
  // Every pattern begins with a space and is at most four bytes long: only a space near the end can begin one that is
  // not yet complete.
  const std::size_t from = text.size() > 3 ? text.size() - 3 : 0;
  for (std::size_t at = text.find(' ', from); at != std::string_view::npos; at = text.find(' ', at + 1)) {
    const std::string_view tail = text.substr(at);
    for (const auto& [pattern, unused] : kCleanUp) {
      if (tail.size() >= pattern.size() || !pattern.starts_with(tail)) continue;
      // This space may also be the end of " ' ", which must not be cut.
      while (at >= 2 && text.substr(at - 2, 2) == " '") at -= 2;
      return at;
    }
  }
  return text.size();
}

Tokenizer::Parts::Parts(RustTokenizer tokenizer, std::string file)
    : rust(std::move(tokenizer)), origin(std::move(file)), added(added_tokens_of(*rust)) {
  for (const AddedToken& token : added) {
    if (token.special) special.insert(token.id);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special, SpecialText special) const {
  return encode(text, add_special, {.special_as_text = special == SpecialText::as_text});
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special, const Matching& matching) const {
  const PastkvMatching rust_matching{.special_as_text = matching.special_as_text,
                                     .hidden = matching.hidden.data(),
                                     .meant = matching.meant.data(),
                                     .hidden_count = matching.hidden.size()};
  auto ids = encode_with(*parts_->rust, text, rust_matching, add_special && parts_->use_post_processor);
  if (add_special && parts_->prefix) ids.insert(ids.begin(), *parts_->prefix);
  if (add_special && parts_->suffix) ids.push_back(*parts_->suffix);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text = decode_raw(ids, skip_special);
  return parts_->clean_up ? clean_up_spaces(std::move(text)) : text;
}

std::string Tokenizer::decode_raw(std::span<const std::int32_t> ids, bool skip_special) const {
  return decode_with(*parts_->rust, ids, skip_special);
}

bool Tokenizer::cleans_up() const {
  return parts_->clean_up;
}

std::int32_t Tokenizer::size() const {
  // A hostile file may name an id of any size.
  return static_cast<std::int32_t>(
      std::min<std::uint32_t>(pastkv_tokenizer_size(parts_->rust.get()), std::numeric_limits<std::int32_t>::max()));
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  std::uint32_t id = 0;
  if (pastkv_tokenizer_id_of(parts_->rust.get(), view_of(token), &id) == 0) return std::nullopt;
  return static_cast<std::int32_t>(id);
}

std::optional<std::string> Tokenizer::token_of(std::int32_t id) const {
  PastkvString token{};
  if (id < 0 || pastkv_tokenizer_token_of(parts_->rust.get(), static_cast<std::uint32_t>(id), &token) == 0) {
    return std::nullopt;
  }
  std::string result(token.data, token.size);
  pastkv_string_free(token);
  return result;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return parts_->special.contains(id);
}

std::vector<std::string> Tokenizer::added_tokens(bool special) const {
  std::vector<std::string> contents;
  for (const AddedToken& token : parts_->added) {
    if (token.special == special) contents.push_back(token.content);
  }
  return contents;
}

std::optional<std::int32_t> Tokenizer::bos() const {
  return parts_->bos;
}
std::vector<std::int32_t> Tokenizer::eos_ids() const {
  return parts_->eos;
}
const std::string& Tokenizer::bos_source() const {
  return parts_->bos_source;
}

}  // namespace pastkv::text
