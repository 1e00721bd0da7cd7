// Any bytes as a safetensors file: read, or refused with an Error.
#include "base/error.h"
#include "formats/safetensors.h"
#include "scratch_file.h"
#include "touch.h"

using namespace pastkv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ScratchFile input(data, size);
  try {
    formats::TensorSource source;
    formats::read_safetensors(input.path(), source);
    fuzz::touch(source);
  } catch (const Error&) {
  }
  return 0;
}
