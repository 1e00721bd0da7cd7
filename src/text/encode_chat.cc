// Prompts from content that is not trusted.
//
// A spelling of a special token in a message must not become that token, or a user could close their own turn and open
// another. So characters of such spellings are hidden before rendering: each is replaced by a private code point, one
// for one, so that lengths, slices and trimming in the template stay what they were. The tokenizer finds added tokens
// in the hidden text, then puts the characters back, and everything else is encoded as the reference does.
//
// Hiding must not change what the template does. That is checked, not assumed: the hidden prompt with its characters
// put back must equal the plain prompt. A template that looks for such a spelling itself (</think>) fails the check;
// then less is hidden in the message concerned.

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/render.h"

namespace pastkv::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kFirstPrivate = 0xF0000;  // the two planes for private use
constexpr std::uint32_t kLastPrivate = 0x10FFFD;

// Calls body(code point, its bytes) for each character of UTF-8 text. Bad bytes come one at a time.
template <typename Body>
void each_character(std::string_view text, Body body) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    length = std::min(length, text.size() - at);
    std::uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3F);
    body(code, text.substr(at, length));
    at += length;
  }
}

void append_private(std::string& out, std::uint32_t code) {
  out += static_cast<char>(0xF0 | code >> 18);
  out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
  out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  out += static_cast<char>(0x80 | (code & 0x3F));
}

// Private code points and the characters they stand for.
class Cover {
 public:
  explicit Cover(std::string_view used_text) {
    each_character(used_text, [this](std::uint32_t code, std::string_view) {
      if (code >= kFirstPrivate) taken_.insert(code);
    });
  }

  void hide(std::string_view text, std::string& out) {
    each_character(text, [&](std::uint32_t code, std::string_view bytes) { append_private(out, cover(code, bytes)); });
  }

  std::string reveal(std::string_view text) const {
    std::string out;
    each_character(text, [&](std::uint32_t code, std::string_view bytes) {
      const auto found = meaning_.find(code);
      out += found == meaning_.end() ? bytes : std::string_view(found->second.bytes);
    });
    return out;
  }

  Matching matching() const {
    Matching result;
    for (const auto& [hidden, meaning] : meaning_) {
      result.hidden.push_back(hidden);
      result.meant.push_back(meaning.code);
    }
    return result;
  }

 private:
  struct Meaning {
    std::uint32_t code;
    std::string bytes;
  };

  std::uint32_t cover(std::uint32_t code, std::string_view bytes) {
    const auto [at, fresh] = covers_.try_emplace(code, 0);
    if (!fresh) return at->second;
    while (taken_.contains(next_)) ++next_;
    if (next_ > kLastPrivate) throw Error({.reason = "the messages use every private code point of Unicode"});
    at->second = next_;
    meaning_[next_] = {code, std::string(bytes)};
    return next_++;
  }

  std::set<std::uint32_t> taken_;
  std::map<std::uint32_t, std::uint32_t> covers_;
  std::unordered_map<std::uint32_t, Meaning> meaning_;
  std::uint32_t next_ = kFirstPrivate;
};

// Spellings that a message may not turn into tokens.
struct Markers {
  std::vector<std::string> special;
  std::vector<std::string> written;          // not special, but the template writes them
  std::vector<std::string> words;            // other added tokens: text like any other
  std::set<std::uint32_t> first_characters;  // of both
};

Markers markers_of(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  Markers markers{.special = tokenizer.added_tokens(true)};
  for (std::string& token : tokenizer.added_tokens(false)) {
    const bool blank = token.find_first_not_of(" \t\r\n") == std::string::npos;
    const bool written = !blank && chat.source.find(token) != std::string::npos;
    (written ? markers.written : markers.words).push_back(std::move(token));
  }
  for (const auto* list : {&markers.special, &markers.written}) {
    for (const std::string& token : *list) {
      bool first = true;
      each_character(token, [&](std::uint32_t code, std::string_view) {
        if (first) markers.first_characters.insert(code);
        first = false;
      });
    }
  }
  return markers;
}

// What is hidden in one string of the messages.
struct Plan {
  // The first character of every marker, wherever it stands: no text gets round that by making a marker of parts.
  bool first_characters = false;
  std::vector<std::string> whole;  // all occurrences of these
};

// Bytes of the longest of `tokens` that stands in `text` at `at`; 0 for none.
std::size_t longest_at(const std::string& text, std::size_t at, const std::vector<std::string>& tokens) {
  std::size_t longest = 0;
  for (const std::string& token : tokens) {
    if (token.size() > longest && text.compare(at, token.size(), token) == 0) longest = token.size();
  }
  return longest;
}

std::string hide(const std::string& text, const Plan& plan, const Markers& markers, Cover& cover) {
  std::string out;
  std::size_t kept_until = 0;    // inside an added token that is a word like any other
  std::size_t hidden_until = 0;  // inside a marker that is hidden whole
  std::size_t at = 0;
  each_character(text, [&](std::uint32_t code, std::string_view bytes) {
    if (at >= hidden_until && !plan.whole.empty()) hidden_until = at + longest_at(text, at, plan.whole);
    bool hidden = at < hidden_until;
    if (plan.first_characters && at >= kept_until && markers.first_characters.contains(code)) {
      const std::size_t word = longest_at(text, at, markers.words);
      hidden = word == 0 || longest_at(text, at, markers.special) > 0 || longest_at(text, at, markers.written) > 0;
      if (!hidden) kept_until = at + word;
    }
    if (hidden) {
      cover.hide(bytes, out);
    } else {
      out += bytes;
    }
    at += bytes.size();
  });
  return out;
}

// Calls body(text) for every string in `json`, keys too, always in the same order, and puts its result in place.
Json map_strings(const Json& json, const std::function<std::string(const std::string&)>& body) {
  if (json.is_string()) return body(json.get_ref<const std::string&>());
  Json result = json;
  if (json.is_array()) {
    for (Json& item : result) item = map_strings(item, body);
  } else if (json.is_object()) {
    result = Json::object();
    for (const auto& [name, value] : json.items()) {
      std::string key = body(name);
      result[std::move(key)] = map_strings(value, body);
    }
  }
  return result;
}

class Hiding {
 public:
  Hiding(const ChatTemplate& chat, const Json& messages, const RenderOptions& options, const Tokenizer& tokenizer)
      : chat_(chat), options_(options), markers_(markers_of(chat, tokenizer)) {
    // The names of extra variables are the caller's, not the content's.
    content_ = {{"messages", messages}, {"tools", options.tools}, {"extra", Json::array()}};
    for (const auto& [name, value] : options.extra.items()) content_["extra"].push_back(value);
    map_strings(content_, [this](const std::string& text) {
      strings_.push_back(text);
      return text;
    });
    const Rendered plain = try_render(chat, template_context(chat, messages, options), options);
    throw_if_failed(chat, plain);
    plain_ = plain.text;
  }

  // The prompt with what is hidden, and what that means.
  std::pair<std::string, Matching> prompt() {
    std::vector<Plan> plans(strings_.size(), Plan{.first_characters = true});
    auto result = attempt(plans);
    for (std::size_t i = 0; !result && i < strings_.size(); ++i) plans[i] = plan_for(i);
    if (!result) result = attempt(plans);
    if (!result) refuse();
    return *std::move(result);
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error({.file = chat_.origin,
                 .reason = "the messages spell special tokens, and the chat template treats these in a way that "
                           "cannot be told from its own",
                 .remedy = "take them out of the messages, or let special tokens in messages be parsed"});
  }

  std::optional<std::pair<std::string, Matching>> attempt(const std::vector<Plan>& plans) const {
    std::string used = plain_;
    for (const std::string& text : strings_) used += text;
    Cover cover(used);
    std::size_t next = 0;
    Json hidden =
        map_strings(content_, [&](const std::string& text) { return hide(text, plans[next++], markers_, cover); });
    RenderOptions options = options_;
    // By place: a key may be hidden too.
    auto part = hidden.begin();
    const Json messages = *part++;
    options.tools = *part++;
    std::size_t at = 0;
    for (auto& entry : options.extra.items()) entry.value() = (*part)[at++];
    const Rendered rendered = try_render(chat_, template_context(chat_, messages, options), options);
    if (rendered.failed || cover.reveal(rendered.text) != plain_) return std::nullopt;
    return std::pair(rendered.text, cover.matching());
  }

  bool works_alone(std::size_t i, const Plan& plan) const {
    std::vector<Plan> plans(strings_.size());
    plans[i] = plan;
    return attempt(plans).has_value();
  }

  // The most that can be hidden in string `i` without changing what the template does.
  Plan plan_for(std::size_t i) const {
    const Plan strongest{.first_characters = true};
    if (works_alone(i, strongest)) return strongest;
    const auto present = [&](const std::vector<std::string>& markers) {
      std::vector<std::string> found;
      std::copy_if(markers.begin(), markers.end(), std::back_inserter(found),
                   [&](const std::string& marker) { return strings_[i].find(marker) != std::string::npos; });
      return found;
    };
    Plan plan{.whole = present(markers_.special)};
    if (!works_alone(i, plan)) refuse();
    for (const std::string& marker : present(markers_.written)) {
      plan.whole.push_back(marker);
      if (!works_alone(i, plan)) plan.whole.pop_back();
    }
    return plan;
  }

  const ChatTemplate& chat_;
  const RenderOptions& options_;
  Markers markers_;
  Json content_;
  std::vector<std::string> strings_;  // every string of content_, in order
  std::string plain_;                 // the prompt as the reference renders it
};

}  // namespace

std::vector<std::int32_t> encode_chat(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                                      const RenderOptions& options, const Tokenizer& tokenizer,
                                      bool parse_special_in_content) {
  if (parse_special_in_content) return tokenizer.encode(render(chat, messages, options), false);
  const auto [prompt, matching] = Hiding(chat, messages, options, tokenizer).prompt();
  return tokenizer.encode(prompt, false, matching);
}

}  // namespace pastkv::text
