#include "formats/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/names.h"
#include "formats/safetensors.h"

namespace pastkv::formats {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string reason, std::string remedy) {
  throw Error({.file = path.string(), .place = {}, .reason = std::move(reason), .remedy = std::move(remedy)});
}

// Throws Error when nobody can tell: no rights, a ring of links.
bool present(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none)
    fail(path, error.message(), "check the path's rights and links");
  return std::filesystem::exists(status);
}

nlohmann::json read_if_present(const std::filesystem::path& path) {
  return present(path) ? read_json_object(path) : nlohmann::json();
}

std::string read_text(const std::filesystem::path& path) {
  constexpr std::size_t kLargest = 16ULL << 20;
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  if (bytes.size() > kLargest) {
    fail(path, fmt::format("is {} bytes of text, more than the {} allowed", bytes.size(), kLargest), {});
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Names of the folder's files with one of the endings, sorted.
std::vector<std::string> files_ending_in(const std::filesystem::path& folder, const std::vector<std::string>& endings) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (std::any_of(endings.begin(), endings.end(), [&](const auto& ending) { return name.ends_with(ending); })) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void fail_without_weights(const std::filesystem::path& folder) {
  const auto pickles = files_ending_in(folder, {".bin", ".bin.index.json", ".pt", ".pth"});
  if (!pickles.empty()) {
    fail(folder, "holds PyTorch weights only (" + shown_list(pickles) + "), which can run code and are not read",
         "convert them: in Python, load the model with transformers and call "
         "save_pretrained(folder, safe_serialization=True)");
  }
  const auto ggufs = files_ending_in(folder, {".gguf"});
  if (!ggufs.empty()) {
    fail(folder, "holds no safetensors file, but " + shown_list(ggufs), "give the path of the .gguf file itself");
  }
  fail(folder, "holds no weights", "add model.safetensors, or model.safetensors.index.json with its shards");
}

void read_weights(HfFolder& folder) {
  const std::filesystem::path index = folder.path / "model.safetensors.index.json";
  const std::filesystem::path single = folder.path / "model.safetensors";
  if (present(index)) return read_safetensors_index(index, folder.tensors, folder.warnings);
  if (present(single)) return read_safetensors(single, folder.tensors);
  const auto files = files_ending_in(folder.path, {".safetensors"});
  if (files.empty()) fail_without_weights(folder.path);
  if (files.size() > 1) {
    fail(folder.path,
         fmt::format("holds {} safetensors files ({}) but no model.safetensors.index.json that says which belong to "
                     "the model",
                     files.size(), shown_list(files)),
         "download the index, or keep only the file to be read");
  }
  read_safetensors(folder.path / files.front(), folder.tensors);
}

std::uint64_t weight_bytes(const TensorSource& source) {
  std::set<const MappedFile*> files;
  std::uint64_t total = 0;
  for (const TensorEntry& entry : source.tensors()) {
    if (files.insert(entry.file.get()).second) total += entry.file->bytes().size();
  }
  return total;
}

}  // namespace

HfFolder read_hf_texts(const std::filesystem::path& folder) {
  HfFolder result;
  result.path = folder;
  result.generation_config = read_if_present(folder / "generation_config.json");
  result.tokenizer_config = read_if_present(folder / "tokenizer_config.json");
  if (present(folder / "tokenizer.json")) result.tokenizer = folder / "tokenizer.json";
  if (present(folder / "chat_template.jinja")) result.chat_template = read_text(folder / "chat_template.jinja");
  return result;
}

HfFolder read_hf_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    fail(folder, "is no folder", "give the path of a model's folder");
  if (!present(folder / "config.json")) {
    fail(folder, "holds no config.json", "give the path of a Hugging Face model folder");
  }
  HfFolder result = read_hf_texts(folder);
  result.config = read_json_object(folder / "config.json");
  read_weights(result);
  result.file_bytes = weight_bytes(result.tensors);
  return result;
}

}  // namespace pastkv::formats
