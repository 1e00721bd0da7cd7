#include "toy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace pastkv::graph {
namespace {

const Dim kBatch = Symbol::batch;
const Dim kQuery = Symbol::query;

// One linear layer, with its bias where the model has one.
ValueId linear(Builder& b, ValueId x, const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
  const ValueId weight = b.weight(name + ".weight", {out, in});
  return bias ? b.linear(x, weight, b.weight(name + ".bias", {out})) : b.linear(x, weight);
}

ValueId attention_block(Builder& b, ValueId x, ValueId positions, int layer, const ToyOptions& o) {
  const std::string at = "layers." + std::to_string(layer) + ".attention.";
  const std::int64_t window = o.windows[static_cast<std::size_t>(layer)];
  const std::int64_t d = o.head_dim;
  ValueId q = b.reshape(linear(b, x, at + "query", o.hidden, o.heads * d, o.bias), {kBatch, kQuery, o.heads, d});
  ValueId k = b.reshape(linear(b, x, at + "key", o.hidden, o.kv_heads * d, o.bias), {kBatch, kQuery, o.kv_heads, d});
  ValueId v = b.reshape(linear(b, x, at + "value", o.hidden, o.kv_heads * d, o.bias), {kBatch, kQuery, o.kv_heads, d});
  if (o.qk_norm) {
    q = b.rms_norm(q, b.weight(at + "query_norm.weight", {d}), {.epsilon = 1e-6F, .weight_offset = o.norm_offset});
    k = b.rms_norm(k, b.weight(at + "key_norm.weight", {d}), {.epsilon = 1e-6F, .weight_offset = o.norm_offset});
  }
  q = b.rope(q, positions, o.rope);
  k = b.rope(k, positions, o.rope);
  const ValueId keys = b.state_update(b.state(at + "keys", StateRole::key, layer, o.kv_heads, d, window), k);
  const ValueId values = b.state_update(b.state(at + "values", StateRole::value, layer, o.kv_heads, d, window), v);
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  const ValueId mixed = b.attention(q, keys, values, {.scale = scale, .window = window, .softcap = o.softcap});
  return linear(b, b.reshape(mixed, {kBatch, kQuery, o.heads * d}), at + "output", o.heads * d, o.hidden, o.bias);
}

ValueId mlp_block(Builder& b, ValueId x, int layer, const ToyOptions& o) {
  const std::string at = "layers." + std::to_string(layer) + ".mlp.";
  const ValueId gate = b.activation(linear(b, x, at + "gate", o.hidden, o.intermediate, o.bias), o.activation);
  const ValueId up = linear(b, x, at + "up", o.hidden, o.intermediate, o.bias);
  return linear(b, b.multiply(gate, up), at + "down", o.intermediate, o.hidden, o.bias);
}

std::uint32_t hash_of(const std::string& name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace

RopeTable plain_table(std::int64_t rotary_dim, double base) {
  RopeTable table;
  for (std::int64_t i = 0; i < rotary_dim; i += 2) {
    table.inverse_frequencies.push_back(
        static_cast<float>(std::pow(base, -static_cast<double>(i) / static_cast<double>(rotary_dim))));
  }
  return table;
}

RopeAttributes plain_rope(std::int64_t rotary_dim) {
  return {.frequencies = {.table = plain_table(rotary_dim, 10000.0)}, .rotary_dim = rotary_dim};
}

RopeAttributes dynamic_rope(std::int64_t rotary_dim, std::int64_t switch_length) {
  return {.frequencies = {.rule = RopeRule::dynamic,
                          .table = plain_table(rotary_dim, 10000.0),
                          .switch_length = switch_length,
                          .base = 10000.0,
                          .factor = 4.0},
          .rotary_dim = rotary_dim};
}

RopeAttributes two_table_rope(std::int64_t rotary_dim, std::int64_t switch_length) {
  RopeAttributes rope{.frequencies = {.rule = RopeRule::two_tables,
                                      .table = plain_table(rotary_dim, 10000.0),
                                      .long_table = plain_table(rotary_dim, 77.0),
                                      .switch_length = switch_length},
                      .rotary_dim = rotary_dim};
  rope.frequencies.table.scale = 1.1F;
  rope.frequencies.long_table.scale = 1.25F;
  return rope;
}

Graph toy_decoder(const ToyOptions& o) {
  Builder b("toy");
  const ValueId ids = b.input("input_ids", tensor::DType::i64, {kBatch, kQuery});
  const ValueId positions = b.input("position_ids", tensor::DType::i64, {kBatch, kQuery});
  const ValueId table = b.weight("embedding.weight", {o.vocab, o.hidden});
  const NormAttributes norm{.epsilon = 1e-5F, .weight_offset = o.norm_offset};
  ValueId x = b.embedding(ids, table);
  for (int layer = 0; layer < static_cast<int>(o.windows.size()); ++layer) {
    const std::string at = "layers." + std::to_string(layer) + ".";
    const ValueId attention_in = b.rms_norm(x, b.weight(at + "attention_norm.weight", {o.hidden}), norm);
    x = b.add(x, attention_block(b, attention_in, positions, layer, o));
    x = b.add(x, mlp_block(b, b.rms_norm(x, b.weight(at + "mlp_norm.weight", {o.hidden}), norm), layer, o));
  }
  x = b.rms_norm(b.pick_rows(x), b.weight("norm.weight", {o.hidden}), norm);
  x = b.linear(x, o.tied ? table : b.weight("head.weight", {o.vocab, o.hidden}));
  if (o.final_softcap != 0.0F) x = b.softcap(x, o.final_softcap);
  b.output(x, "logits");
  return b.finish();
}

std::vector<ToyOptions> varied_decoders() {
  ToyOptions gemma{.windows = {4, 0, 4}, .softcap = 5.0F, .final_softcap = 3.0F, .norm_offset = 1.0F, .qk_norm = true};
  gemma.activation = Activation::gelu_tanh;
  ToyOptions interleaved{.rope = plain_rope(4), .bias = true, .tied = true};
  interleaved.rope.interleaved = true;
  return {{}, gemma, interleaved};
}

ToyOptions smollm2_135m() {
  return {.vocab = 49152,
          .hidden = 576,
          .heads = 9,
          .kv_heads = 3,
          .head_dim = 64,
          .intermediate = 1536,
          .windows = std::vector<std::int64_t>(30, 0),
          .rope = plain_rope(64),
          .tied = true};
}

Tensor random_tensor(std::vector<std::int64_t> shape, std::uint32_t seed, float scale) {
  Tensor out{.shape = std::move(shape), .data = {}};
  std::size_t count = 1;
  for (const std::int64_t size : out.shape) count *= static_cast<std::size_t>(size);
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    out.data.push_back(scale * (static_cast<float>(random() >> 8) / static_cast<float>(1 << 23) - 1.0F));
  }
  return out;
}

WeightReader random_weights(float scale) {
  return [scale](const Value& weight) {
    std::vector<std::int64_t> shape;
    for (const Dim& dim : weight.shape) shape.push_back(dim.constant());
    return random_tensor(std::move(shape), hash_of(weight.name), scale).data;
  };
}

std::map<std::string, Tensor> toy_inputs(const std::vector<std::vector<int>>& ids, std::int64_t past) {
  const auto batch = static_cast<std::int64_t>(ids.size());
  const auto query = static_cast<std::int64_t>(ids.front().size());
  Tensor tokens{.shape = {batch, query}, .data = {}};
  Tensor positions = tokens;
  for (const std::vector<int>& row : ids) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      tokens.data.push_back(static_cast<float>(row[i]));
      positions.data.push_back(static_cast<float>(past + static_cast<std::int64_t>(i)));
    }
  }
  return {{"input_ids", tokens}, {"position_ids", positions}};
}

std::vector<int> some_ids(int count, int vocab) {
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) ids.push_back((7 * i * i + 3 * i + 1) % vocab);
  return ids;
}

std::vector<float> run_in_chunks(Interpreter& interpreter, const std::vector<int>& ids,
                                 const std::vector<std::size_t>& chunks) {
  std::vector<float> logits;
  std::size_t begin = 0;
  for (std::size_t call = 0; begin < ids.size(); ++call) {
    const std::size_t size = std::min(chunks[std::min(call, chunks.size() - 1)], ids.size() - begin);
    const auto from = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<int> chunk(from, from + static_cast<std::ptrdiff_t>(size));
    const auto made = interpreter.run(toy_inputs({chunk}, interpreter.past_length()), static_cast<std::int64_t>(size));
    logits.insert(logits.end(), made.at("logits").data.begin(), made.at("logits").data.end());
    begin += size;
  }
  return logits;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0.0F;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

}  // namespace pastkv::graph
