// Any bytes as the index of a folder that holds one good shard, model.safetensors, with the tensors a and b.
#include <unistd.h>

#include <fstream>
#include <string_view>

#include "base/error.h"
#include "formats/safetensors.h"
#include "touch.h"

using namespace pastkv;

namespace {

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  if (!file.flush()) std::abort();
}

// Made once; removed when the process ends in order.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "pastkv_fuzz_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
    const std::string header =
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
    const std::uint64_t length = header.size();
    write(path / "model.safetensors",
          std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + "12");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const auto index = folder.path / "model.safetensors.index.json";
  write(index, {reinterpret_cast<const char*>(data), size});
  try {
    formats::TensorSource source;
    std::vector<std::string> warnings;
    formats::read_safetensors_index(index, source, warnings);
    fuzz::touch(source);
    for (const formats::TensorEntry& entry : source.tensors()) {
      if (entry.file->path().lexically_normal() != folder.path / "model.safetensors") std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
