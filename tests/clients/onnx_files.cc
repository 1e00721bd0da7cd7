// Writes and reads ONNX decoders for the tests of their clients.
//
//   onnx_files write FOLDER          every golden model, FOLDER/OPS_PRECISION/NAME
//   onnx_files convert MODEL FOLDER OPS PRECISION
//   onnx_files read FOLDER GOLDEN    imports what another program wrote, and compares it with golden logits
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <string>

#include "models/golden.h"
#include "targets/imported_decoder.h"
#include "targets/onnx/import.h"
#include "targets/onnx/write.h"

namespace {

namespace fs = std::filesystem;
using namespace pastkv;

void convert(const models::Model& model, const fs::path& out, const std::string& ops, const std::string& precision) {
  fs::create_directories(out.parent_path());
  const targets::OnnxOptions options{.ops = targets::onnx_ops_from_name(ops).value(),
                                     .precision = targets::onnx_precision_from_name(precision).value()};
  targets::write_onnx(model, out, options, {.replace = true});
}

void write_all(const fs::path& folder) {
  for (const std::string& name : test::golden_names()) {
    for (const fs::path& path : test::load_golden(name).models) {
      const models::Model model = models::open_model(path);
      for (const char* ops : {"standard", "contrib"}) {
        for (const char* precision : {"fp32", "fp16", "int8", "int4"}) {
          convert(model, folder / fmt::format("{}_{}", ops, precision) / path.filename(), ops, precision);
        }
      }
    }
  }
}

int read(const fs::path& folder, const std::string& golden) {
  const double found = targets::difference(test::load_golden(golden), targets::import_onnx(folder));
  fmt::print("{}: largest difference {:.2e}\n", folder.string(), found);
  return found <= 1e-4 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() == 2 && given[0] == "write") return write_all(given[1]), 0;
  if (given.size() == 3 && given[0] == "read") return read(given[1], given[2]);
  if (given.size() == 5 && given[0] == "convert") {
    return convert(models::open_model(given[1]), given[2], given[3], given[4]), 0;
  }
  fmt::print(stderr, "write FOLDER | convert MODEL FOLDER OPS PRECISION | read FOLDER GOLDEN\n");
  return 2;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
