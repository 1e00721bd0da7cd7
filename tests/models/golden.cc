#include "models/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "formats/safetensors.h"

namespace pastkv::test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(PASTKV_TEST_DATA) / "models";
constexpr std::string_view kEnding = ".golden.safetensors";

template <class T>
std::vector<T> numbers(const formats::TensorSource& source, std::string_view name) {
  const formats::TensorEntry* entry = source.find(name);
  if (entry == nullptr) throw std::runtime_error("golden file without " + std::string(name));
  std::vector<T> out(entry->bytes.size() / sizeof(T));
  std::memcpy(out.data(), entry->bytes.data(), out.size() * sizeof(T));
  return out;
}

}  // namespace

std::span<const float> Golden::row(std::int64_t i) const {
  return std::span(logits).subspan(static_cast<std::size_t>(i * vocab), static_cast<std::size_t>(vocab));
}

std::span<const float> Golden::step(std::int64_t i) const {
  return std::span(step_logits).subspan(static_cast<std::size_t>(i * vocab), static_cast<std::size_t>(vocab));
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kEnding)) continue;
    name.resize(name.size() - kEnding.size());
    names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Golden load_golden(const std::string& name) {
  formats::TensorSource source;
  formats::read_safetensors(kFolder / (name + std::string(kEnding)), source);
  Golden golden;
  golden.name = name;
  golden.models.push_back(kFolder / name);
  if (fs::path gguf = kFolder / (name + ".gguf"); fs::exists(gguf)) golden.models.push_back(std::move(gguf));
  for (const std::int64_t id : numbers<std::int64_t>(source, "ids")) {
    golden.ids.push_back(static_cast<std::int32_t>(id));
  }
  golden.logits = numbers<float>(source, "logits");
  golden.vocab = static_cast<std::int64_t>(golden.logits.size() / golden.ids.size());
  golden.prefill = numbers<std::int64_t>(source, "prefill").at(0);
  golden.step_logits = numbers<float>(source, "step_logits");
  golden.from_scratch = numbers<std::int64_t>(source, "from_scratch").at(0) != 0;
  return golden;
}

double relative_difference(std::span<const float> got, std::span<const float> wanted) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != wanted.size() || wanted.empty()) return kInfinity;
  double sum = 0;
  double squares = 0;
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sum += wanted[i];
    squares += static_cast<double>(wanted[i]) * wanted[i];
    const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(difference)) return kInfinity;
  }
  const auto count = static_cast<double>(wanted.size());
  const double variance = squares / count - (sum / count) * (sum / count);
  return largest / std::sqrt(variance);
}

}  // namespace pastkv::test
