#include <algorithm>

#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace pastkv::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// A token spelt <0xNN>: one byte, whose meaning depends on the bytes beside it.
bool is_byte_token(const std::optional<std::string>& token) {
  return token && token->size() == 6 && token->starts_with("<0x") && token->back() == '>';
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

// Decoding is not a sum over tokens: a leading space may be dropped, bytes join to characters. So the last piece of
// text already given out is decoded again together with what is new, and the difference is what the new ids mean.
std::string StreamDecoder::push(std::int32_t id) {
  ids_.push_back(id);
  if (is_byte_token(tokenizer_->token_of(id))) return {};
  const std::span<const std::int32_t> ids(ids_);
  const std::string text = tokenizer_->decode_raw(ids.subspan(window_begin_), skip_special_);
  if (text.ends_with(kReplacement)) return {};
  const std::string before =
      tokenizer_->decode_raw(ids.subspan(window_begin_, window_read_ - window_begin_), skip_special_);
  std::string fresh = text.substr(std::min(before.size(), text.size()));
  // The window may only begin at ids that say something: an empty text cannot show whether a space was dropped.
  if (!tokenizer_->decode_raw(ids.subspan(window_read_), skip_special_).empty()) window_begin_ = window_read_;
  window_read_ = ids_.size();
  return give(std::move(fresh), false);
}

std::string StreamDecoder::finish() {
  const std::span<const std::int32_t> ids(ids_);
  const std::string text = tokenizer_->decode_raw(ids.subspan(window_begin_), skip_special_);
  const std::string before =
      tokenizer_->decode_raw(ids.subspan(window_begin_, window_read_ - window_begin_), skip_special_);
  window_read_ = ids_.size();
  return give(text.substr(std::min(before.size(), text.size())), true);
}

std::string StreamDecoder::give(std::string fresh, bool last) {
  if (!tokenizer_->cleans_up()) return fresh;
  held_ += fresh;
  const std::size_t settled = last ? held_.size() : settled_before_clean_up(held_);
  std::string out = clean_up_spaces(held_.substr(0, settled));
  held_.erase(0, settled);
  return out;
}

}  // namespace pastkv::text
