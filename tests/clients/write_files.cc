// Writes every golden model as a GGUF and as a Hugging Face folder, for clients to read:
//   write_files OUT [MODEL]
// OUT/<model>.gguf, and OUT/<model> from the folder, OUT/<model>.back from the GGUF, with the golden numbers beside
// them. With MODEL, a published one, the same for it: OUT/model.gguf, OUT/model, and OUT/back.gguf from that folder.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "base/error.h"
#include "models/golden.h"
#include "models/model.h"
#include "targets/gguf/write.h"
#include "targets/hf/write.h"

using namespace pastkv;
namespace fs = std::filesystem;

namespace {

const targets::WriteContext kReplace = {.replace = true};

// False, with a line that says why, for a model that GGUF has no words for.
bool write_gguf(const models::Model& model, const fs::path& out) {
  try {
    targets::write_gguf(model, out, {}, kReplace);
    return true;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return false;
  }
}

void write_golden(const std::string& name, const fs::path& out) {
  const test::Golden golden = test::load_golden(name);
  const models::Model model = models::open_model(golden.models.front());
  write_gguf(model, out / (name + ".gguf"));
  targets::write_hf(model, out / name, {}, kReplace);
  if (golden.models.size() < 2) return;
  const models::Model spelt_otherwise = models::open_model(golden.models.back());
  targets::write_hf(spelt_otherwise, out / (name + ".back"), {}, kReplace);
}

void write_published(const fs::path& path, const fs::path& out) {
  const models::Model model = models::open_model(path);
  targets::write_gguf(model, out / "model.gguf", {}, kReplace);
  targets::write_hf(model, out / "model", {}, kReplace);
  const models::Model folder = models::open_model(out / "model");
  targets::write_gguf(folder, out / "back.gguf", {}, kReplace);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const fs::path out = argv[1];
  try {
    fs::create_directories(out);
    if (argc > 2) {
      write_published(argv[2], out);
    } else {
      for (const std::string& name : test::golden_names()) write_golden(name, out);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
