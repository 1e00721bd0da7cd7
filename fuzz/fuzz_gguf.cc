// Any bytes as a GGUF file: read, or refused with an Error.
#include "base/error.h"
#include "formats/gguf.h"
#include "scratch_file.h"
#include "touch.h"

using namespace pastkv;

namespace {

template <typename Access>
void read_or_refuse(Access access) {
  try {
    access();
  } catch (const Error&) {
  }
}

void touch_metadata(const formats::GgufFile& file) {
  for (const auto& [key, value] : file.metadata) {
    const std::string_view name = key;
    read_or_refuse([&] { file.find_int(name); });
    read_or_refuse([&] { file.find_float(name); });
    read_or_refuse([&] { file.find_bool(name); });
    read_or_refuse([&] { file.find_string(name); });
    read_or_refuse([&] { file.find_ints(name); });
    read_or_refuse([&] { file.find_floats(name); });
    read_or_refuse([&] {
      const auto* texts = file.find_strings(name);
      if (texts == nullptr) return;
      std::string whole;
      for (const std::string_view text : *texts) whole += text;
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ScratchFile input(data, size);
  read_or_refuse([&] {
    const formats::GgufFile file = formats::read_gguf(input.path());
    fuzz::touch(file.tensors);
    touch_metadata(file);
  });
  return 0;
}
