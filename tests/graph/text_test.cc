#include "graph/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "graph/expand.h"
#include "toy.h"

namespace pastkv::graph {
namespace {

// Compares with the committed text; with PASTKV_WRITE_GOLDEN set, writes it (then read the difference in git).
void expect_text(const std::string& text, const std::string& name) {
  const std::string path = std::string(PASTKV_TEST_DATA "/graph/") + name;
  if (std::getenv("PASTKV_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str());
}

ToyOptions shown() {
  ToyOptions options = varied_decoders()[1];
  options.windows = {4, 0};
  return options;
}

TEST(Text, OfADecoderIsPleasantToRead) {
  expect_text(to_text(toy_decoder(shown())), "decoder.txt");
}

TEST(Text, OfAnExpandedDecoderIsPleasantToRead) {
  expect_text(to_text(expand(toy_decoder(shown()))), "decoder_expanded.txt");
}

TEST(Text, ShowsEveryAttribute) {
  Builder b("attributes");
  const ValueId positions = b.input("position_ids", tensor::DType::i32, {Symbol::batch, Symbol::query});
  const ValueId x = b.input("x", tensor::DType::f32, {Symbol::batch, Symbol::query, 2, 8});
  RopeAttributes interleaved = two_table_rope(4, 4096);
  interleaved.interleaved = true;
  ValueId y = b.rope(b.rope(x, positions, interleaved), positions, dynamic_rope(8, 2048));
  y = b.layer_norm(y, b.weight("w", {8}), b.weight("b", {8}), {.epsilon = 1e-6F, .weight_offset = 1.0F});
  y = b.softcap(b.scale(b.activation(y, Activation::gelu_erf), 0.125F), 30.0F);
  const std::vector<ValueId> parts = b.split(y, {2, 6});
  b.output(b.emit(Op::concat, {parts[1], parts[0]}, AxisAttributes{.axis = -1}).front(), "y");
  expect_text(to_text(b.finish()), "attributes.txt");
}

}  // namespace
}  // namespace pastkv::graph
