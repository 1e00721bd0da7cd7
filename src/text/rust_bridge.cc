#include "text/rust_bridge.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace pastkv::text {
namespace {

std::string take(PastkvString string) {
  std::string text(string.data, string.size);
  pastkv_string_free(string);
  return text;
}

void check(int status, PastkvString error, const std::string& file) {
  if (status != 0) throw Error({.file = file, .reason = take(error)});
}

}  // namespace

RustTokenizer tokenizer_from_json(std::string_view json, const std::string& origin) {
  PastkvTokenizer* made = nullptr;
  PastkvString error{};
  check(pastkv_tokenizer_from_json(view_of(json), &made, &error), error, origin);
  return RustTokenizer(made);
}

RustTokenizer tokenizer_from_vocabulary(const PastkvVocabulary& vocabulary, const std::string& origin) {
  PastkvTokenizer* made = nullptr;
  PastkvString error{};
  check(pastkv_tokenizer_from_vocabulary(&vocabulary, &made, &error), error, origin);
  return RustTokenizer(made);
}

std::vector<std::int32_t> encode_with(const PastkvTokenizer& tokenizer, std::string_view text,
                                      const PastkvMatching& matching, bool add_special) {
  PastkvIds ids{};
  PastkvString error{};
  check(pastkv_tokenizer_encode(&tokenizer, view_of(text), &matching, add_special, &ids, &error), error, "");
  std::vector<std::int32_t> result(ids.data, ids.data + ids.size);
  pastkv_ids_free(ids);
  return result;
}

std::string decode_with(const PastkvTokenizer& tokenizer, std::span<const std::int32_t> ids, bool skip_special) {
  std::vector<std::uint32_t> known;
  known.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id >= 0) known.push_back(static_cast<std::uint32_t>(id));
  }
  PastkvString text{};
  PastkvString error{};
  check(pastkv_tokenizer_decode(&tokenizer, known.data(), known.size(), skip_special, &text, &error), error, "");
  return take(text);
}

std::vector<AddedToken> added_tokens_of(const PastkvTokenizer& tokenizer) {
  PastkvString text{};
  PastkvString error{};
  check(pastkv_tokenizer_added(&tokenizer, &text, &error), error, "");
  std::vector<AddedToken> tokens;
  for (const auto& token : nlohmann::json::parse(take(text))) {
    tokens.push_back(
        {token["id"].get<std::int32_t>(), token["content"].get<std::string>(), token["special"].get<bool>()});
  }
  return tokens;
}

Rendered render_with(std::string_view source, std::string_view context_json, std::int64_t now) {
  PastkvString text{};
  PastkvString error{};
  const int status = pastkv_template_render(view_of(source), view_of(context_json), now, &text, &error);
  if (status == 0) return {.text = take(text)};
  return {.text = take(error), .failed = true, .refused = status == PASTKV_RENDER_REFUSED};
}

}  // namespace pastkv::text
