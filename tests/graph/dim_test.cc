#include "graph/dim.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace pastkv::graph {
namespace {

const Dim kBatch = Symbol::batch;
const Dim kQuery = Symbol::query;
const Dim kPast = Symbol::past;
const Dim kRows = Symbol::rows;

TEST(Dim, IsWrittenAsPeopleDo) {
  EXPECT_EQ(Dim(576).text(), "576");
  EXPECT_EQ(Dim(0).text(), "0");
  EXPECT_EQ((kQuery + kPast).text(), "past + query");
  EXPECT_EQ((kQuery - kRows).text(), "query - rows");
  EXPECT_EQ((kQuery * 3 - 1).text(), "3*query - 1");
  EXPECT_EQ((kQuery * -1).text(), "-query");
  EXPECT_EQ((kQuery - kQuery + 2).text(), "2");
  EXPECT_EQ(text(Shape{kBatch, kQuery, 576}), "[batch, query, 576]");
  EXPECT_EQ(text(Shape{}), "[]");
}

TEST(Dim, TakesTheSizesOfAVariant) {
  const Sizes sizes{.batch = 2, .query = 5, .past = 7, .rows = 3, .context = 64};
  EXPECT_EQ((kPast + kQuery).at(sizes), 12);
  EXPECT_EQ((kQuery - kRows).at(sizes), 2);
  EXPECT_EQ((kBatch * 4 + 1).at(sizes), 9);
  EXPECT_EQ(Dim(Symbol::context).at(sizes), 64);
}

TEST(Dim, KnowsANumberFromASymbol) {
  EXPECT_TRUE(Dim(3).is_constant());
  EXPECT_FALSE(kQuery.is_constant());
  EXPECT_TRUE((kQuery - kQuery).is_constant());
  EXPECT_EQ(kQuery + kPast, kPast + kQuery);
  EXPECT_NE(kQuery, kPast);
}

TEST(Dim, RefusesToLeave64Bits) {
  const Dim most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(most + 1, std::overflow_error);
  EXPECT_THROW(most * 2, std::overflow_error);
  EXPECT_THROW((kQuery * std::numeric_limits<std::int64_t>::max()).at({.query = 2}), std::overflow_error);
}

TEST(SameElements, ComparesProductsOfSymbols) {
  const Dim total = kPast + kQuery;
  EXPECT_TRUE(same_elements({kBatch, 3, kQuery * 3, total}, {kBatch, 9, kQuery, total}));
  EXPECT_TRUE(same_elements({kBatch, kQuery, 576}, {kBatch, kQuery, 9, 64}));
  EXPECT_TRUE(same_elements({kBatch, kQuery}, {kQuery, kBatch, 1, 1}));
  EXPECT_TRUE(same_elements({total * 2}, {2, total}));
  EXPECT_FALSE(same_elements({kBatch, kQuery, 576}, {kBatch, kQuery, 575}));
  EXPECT_FALSE(same_elements({kBatch, kQuery}, {kBatch, kBatch}));
  EXPECT_FALSE(same_elements({kBatch, kQuery}, {kBatch, total}));
  EXPECT_FALSE(same_elements({kQuery}, {kQuery, kQuery}));
}

}  // namespace
}  // namespace pastkv::graph
