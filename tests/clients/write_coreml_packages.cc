// Writes a package of every golden model, in each precision, for a client to read:
//   write_coreml_packages OUT
// OUT/<model>-<precision>/<model>-<precision>.mlpackage
#include <cstdio>
#include <exception>
#include <filesystem>

#include "models/golden.h"
#include "models/model.h"
#include "targets/coreml/write.h"

using namespace pastkv;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path out = argv[1];
  try {
    for (const std::string& name : test::golden_names()) {
      const models::Model model = models::open_model(test::load_golden(name).models.front());
      for (const auto& [precision, ending] :
           {std::pair(targets::CoremlPrecision::fp16, "-fp16"), std::pair(targets::CoremlPrecision::fp32, "-fp32"),
            std::pair(targets::CoremlPrecision::mixed, "-mixed")}) {
        targets::write_coreml(model, out / (name + ending), {.precision = precision}, {.replace = true});
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
