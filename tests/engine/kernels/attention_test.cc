#include <algorithm>

#include "kernel_fixture.h"

namespace pastkv::engine {
namespace {

using tensor::DType;

struct Problem {
  DType cache_type = DType::f32;
  std::int64_t head_dim = 64;
  std::int64_t heads = 3;
  std::int64_t rows = 1;
  std::int64_t first_position = 0;
  std::int64_t query_position = 0;
  std::int64_t window = 0;
  float scale = 0.125F;
  float softcap = 0.0F;
  float deviation = 1.0F;  // of the queries
};

std::vector<float> plain_attention(const Problem& p, const std::vector<float>& q, const std::vector<float>& keys,
                                   const std::vector<float>& values) {
  std::vector<float> out(q.size());
  for (std::int64_t h = 0; h < p.heads; ++h) {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const float* query = q.data() + (h * p.rows + i) * p.head_dim;
      const std::int64_t position = p.query_position + i;
      std::vector<double> scores;
      const std::int64_t begin = std::max(p.first_position, p.window > 0 ? position - p.window + 1 : std::int64_t{0});
      for (std::int64_t key = begin; key <= position; ++key) {
        double score = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          score += static_cast<double>(query[d]) *
                   static_cast<double>(keys[static_cast<std::size_t>((key - p.first_position) * p.head_dim + d)]);
        }
        score *= static_cast<double>(p.scale);
        const auto cap = static_cast<double>(p.softcap);
        scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
      }
      const double highest = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (double& score : scores) total += (score = std::exp(score - highest));
      for (std::int64_t d = 0; d < p.head_dim; ++d) {
        double sum = 0;
        for (std::size_t k = 0; k < scores.size(); ++k) {
          const std::int64_t key = begin - p.first_position + static_cast<std::int64_t>(k);
          sum += scores[k] * static_cast<double>(values[static_cast<std::size_t>(key * p.head_dim + d)]);
        }
        out[static_cast<std::size_t>((h * p.rows + i) * p.head_dim + d)] = static_cast<float>(sum / total);
      }
    }
  }
  return out;
}

// Runs the kernel on rows [row_begin, row_end) and heads [head_begin, head_end) of the problem into `out`.
void run(const KernelSet& set, const Problem& p, const std::vector<float>& q, const std::vector<std::byte>& keys,
         const std::vector<std::byte>& values, std::int64_t position_bytes, std::int64_t row_begin,
         std::int64_t row_end, std::int64_t head_begin, std::int64_t head_end, std::vector<float>& out) {
  const std::int64_t offset = (head_begin * p.rows + row_begin) * p.head_dim;
  const AttentionTask task = {.q = q.data() + offset,
                              .q_stride = p.head_dim,
                              .q_head_stride = p.rows * p.head_dim,
                              .out = out.data() + offset,
                              .out_stride = p.head_dim,
                              .out_head_stride = p.rows * p.head_dim,
                              .cache_type = p.cache_type,
                              .keys = keys.data(),
                              .values = values.data(),
                              .position_bytes = position_bytes,
                              .first_position = p.first_position,
                              .query_position = p.query_position + row_begin,
                              .rows = row_end - row_begin,
                              .heads = head_end - head_begin,
                              .head_dim = p.head_dim,
                              .window = p.window,
                              .scale = p.scale,
                              .softcap = p.softcap};
  AlignedBytes scratch(set.attention_scratch_bytes(p.head_dim, task.rows, task.heads));
  set.attention(task, scratch.data());
}

class AttentionTest : public KernelTest {
 protected:
  void expect_right(const Problem& p, double tolerance = 1e-5) {
    std::mt19937 random(static_cast<unsigned>(p.head_dim + p.rows));
    const std::int64_t held = p.query_position + p.rows - p.first_position;
    const std::vector<float> q =
        random_floats(static_cast<std::size_t>(p.heads * p.rows * p.head_dim), random, p.deviation);
    std::vector<float> keys = random_floats(static_cast<std::size_t>(held * p.head_dim), random);
    std::vector<float> values = random_floats(keys.size(), random);
    // Another head's row lies between two positions.
    const auto row_bytes =
        static_cast<std::int64_t>(tensor::byte_size(p.cache_type, static_cast<std::uint64_t>(p.head_dim)).value());
    const std::int64_t position_bytes = 2 * row_bytes;
    std::vector<std::byte> key_cache(static_cast<std::size_t>((held - 1) * position_bytes + row_bytes),
                                     std::byte{0xFF});
    std::vector<std::byte> value_cache = key_cache;
    for (std::int64_t i = 0; i < held; ++i) {
      for (auto [rows, cache] : {std::pair{&keys, &key_cache}, std::pair{&values, &value_cache}}) {
        float* row = rows->data() + i * p.head_dim;
        std::byte* stored = cache->data() + i * position_bytes;
        set().encode_cache(p.cache_type, row, p.head_dim, stored);
        tensor::decode_row(p.cache_type, {stored, static_cast<std::size_t>(row_bytes)},
                           {row, static_cast<std::size_t>(p.head_dim)});
      }
    }
    const std::vector<float> expected = plain_attention(p, q, keys, values);
    std::vector<float> got(q.size());
    run(set(), p, q, key_cache, value_cache, position_bytes, 0, p.rows, 0, p.heads, got);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], tolerance)
          << tensor::name(p.cache_type) << " head_dim " << p.head_dim << " rows " << p.rows << " at "
          << p.query_position << " window " << p.window << " softcap " << p.softcap << ", element " << i;
    }
    std::vector<float> by_head(q.size());
    for (std::int64_t h = 0; h < p.heads; ++h) {
      run(set(), p, q, key_cache, value_cache, position_bytes, 0, p.rows, h, h + 1, by_head);
    }
    EXPECT_EQ(by_head, got) << "depends on how heads are grouped";
  }
};

TEST_P(AttentionTest, AgreesWithPlainAttentionForEveryCacheType) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0}) {
    for (const std::int64_t head_dim : {32, 64, 96, 256}) {
      for (const std::int64_t rows : {1, 2, 7, 33}) {
        for (const std::int64_t position : {0, 1, 62, 63, 64, 200}) {
          ASSERT_NO_FATAL_FAILURE(
              expect_right({.cache_type = type, .head_dim = head_dim, .rows = rows, .query_position = position}));
        }
      }
    }
  }
}

TEST_P(AttentionTest, TakesAnyHeadDim) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t head_dim : {1, 2, 8, 20, 80, 100, 112}) {
      for (const std::int64_t rows : {1, 5}) {
        ASSERT_NO_FATAL_FAILURE(
            expect_right({.cache_type = type, .head_dim = head_dim, .rows = rows, .query_position = 90}));
      }
    }
  }
}

TEST_P(AttentionTest, SeesTheWindowOnly) {
  for (const std::int64_t window : {1, 2, 5, 63, 64, 65, 500}) {
    for (const std::int64_t rows : {1, 4, 33, 90}) {
      for (const std::int64_t position : {0, 3, 130}) {
        // The cache may have dropped what no row can see any more.
        const std::int64_t oldest = std::max(std::int64_t{0}, position - window + 1);
        for (const std::int64_t first : {std::int64_t{0}, oldest / 2, oldest}) {
          ASSERT_NO_FATAL_FAILURE(
              expect_right({.rows = rows, .first_position = first, .query_position = position, .window = window}));
        }
      }
    }
  }
}

TEST_P(AttentionTest, TakesAnyNumberOfHeads) {
  for (const DType type : {DType::f16, DType::q8_0}) {
    for (const std::int64_t heads : {1, 2, 4, 5, 7}) {
      for (const std::int64_t rows : {1, 3}) {
        ASSERT_NO_FATAL_FAILURE(expect_right(
            {.cache_type = type, .heads = heads, .rows = rows, .query_position = 140, .window = 100, .softcap = 20}));
      }
    }
  }
}

TEST_P(AttentionTest, CapsScores) {
  for (const float softcap : {0.5F, 5.0F, 50.0F}) {
    for (const std::int64_t rows : {1, 9}) {
      ASSERT_NO_FATAL_FAILURE(expect_right(
          {.rows = rows, .query_position = 70, .scale = 1.0F, .softcap = softcap, .deviation = 2.0F}, 1e-5));
    }
  }
}

TEST_P(AttentionTest, HoldsSharpScores) {
  for (const float deviation : {10.0F, 100.0F}) {  // nearly all weight on one key; scores in the hundreds
    for (const std::int64_t rows : {1, 9}) {
      ASSERT_NO_FATAL_FAILURE(
          expect_right({.rows = rows, .query_position = 150, .deviation = deviation}, 1e-6 * 64 * deviation));
    }
  }
}

TEST_P(AttentionTest, GivesTheValueItselfForOneKey) {
  std::mt19937 random(1);
  const Problem p = {.heads = 2};
  const std::vector<float> q = random_floats(128, random), keys = random_floats(64, random);
  const std::vector<float> value = random_floats(64, random);
  std::vector<std::byte> key_bytes(256), value_bytes(256);
  std::memcpy(key_bytes.data(), keys.data(), 256);
  std::memcpy(value_bytes.data(), value.data(), 256);
  std::vector<float> out(128);
  run(set(), p, q, key_bytes, value_bytes, 256, 0, 1, 0, 2, out);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], value[i % 64]);
}

INSTANTIATE_TEST_SUITE_P(Sets, AttentionTest, ::testing::ValuesIn(runnable_sets()), set_name);

}  // namespace
}  // namespace pastkv::engine
