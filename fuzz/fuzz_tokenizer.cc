// Any vocabulary, merges, scores and types as the metadata of a GGUF file: a tokenizer that encodes and decodes, or an
// Error. Encoding must give ids that the tokenizer has.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <deque>

#include "base/error.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer.h"

using namespace pastkv;

namespace {

class Metadata {
 public:
  explicit Metadata(FuzzedDataProvider& input) : input_(input) {
    file.path = "fuzz.gguf";
    set("model", input_.PickValueInArray<std::string>({"llama", "gpt2", "gemma4", "bert", "t5", "other"}));
    const auto known = text::pre_tokenizers();
    const auto& names = known[input_.ConsumeIntegralInRange<std::size_t>(0, known.size() - 1)].names;
    set("pre", std::string(names.front()));
    set("tokens", strings());
    if (input_.ConsumeBool()) set("merges", strings());
    if (input_.ConsumeBool()) set("scores", numbers<double>(-20.0, 20.0));
    if (input_.ConsumeBool()) set("token_type", numbers<std::int64_t>(-1, 9));
    for (const char* name :
         {"bos_token_id", "eos_token_id", "unknown_token_id", "cls_token_id", "seperator_token_id"}) {
      if (input_.ConsumeBool()) set(name, std::int64_t{input_.ConsumeIntegralInRange(-2, 40)});
    }
    for (const char* name : {"add_bos_token", "add_eos_token", "add_space_prefix", "remove_extra_whitespaces"}) {
      if (input_.ConsumeBool()) set(name, input_.ConsumeBool());
    }
    if (input_.ConsumeBool()) set("precompiled_charsmap", numbers<std::int64_t>(-128, 255));
  }

  formats::GgufFile file;

 private:
  void set(const std::string& name, formats::GgufValue value) {
    file.metadata["tokenizer.ggml." + name] = std::move(value);
  }

  std::vector<std::string_view> strings() {
    std::vector<std::string_view> views;
    for (int n = input_.ConsumeIntegralInRange(0, 40); n > 0; --n) {
      views.push_back(owned_.emplace_back(input_.ConsumeRandomLengthString(12)));
    }
    return views;
  }

  template <typename Number>
  std::vector<Number> numbers(Number least, Number most) {
    const auto& tokens = std::get<std::vector<std::string_view>>(file.metadata["tokenizer.ggml.tokens"]);
    std::size_t count = tokens.size();
    if (input_.ConsumeIntegralInRange(0, 15) == 0) count = input_.ConsumeIntegralInRange<std::size_t>(0, 64);
    std::vector<Number> values(count);
    for (Number& value : values) {
      if constexpr (std::is_floating_point_v<Number>) {
        value = input_.ConsumeFloatingPointInRange(least, most);
      } else {
        value = input_.ConsumeIntegralInRange(least, most);
      }
    }
    return values;
  }

  FuzzedDataProvider& input_;
  std::deque<std::string> owned_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const Metadata metadata(input);
  try {
    const text::Tokenizer tokenizer = text::Tokenizer::from_gguf(metadata.file);
    const std::string text = input.ConsumeRemainingBytesAsString();
    for (const auto special : {text::SpecialText::parse, text::SpecialText::as_text}) {
      const std::vector<std::int32_t> ids = tokenizer.encode(text, true, special);
      text::StreamDecoder stream(tokenizer, false);
      std::string streamed;
      for (const std::int32_t id : ids) {
        if (id < 0 || id >= tokenizer.size()) std::abort();
        streamed += stream.push(id);
      }
      streamed += stream.finish();
      if (streamed != tokenizer.decode(ids, false)) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
