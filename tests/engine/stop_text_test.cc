#include "engine/stop_text.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace pastkv::engine {
namespace {

TEST(StopText, WithoutStopsEverythingPassesAtOnce) {
  StopText stop({});
  EXPECT_EQ(stop.push("ab"), "ab");
  EXPECT_EQ(stop.finish(), "");
  EXPECT_FALSE(stop.stopped());
}

TEST(StopText, AStopCutInPiecesIsFoundAndNoneOfItIsGivenOut) {
  StopText stop({"</end>"});
  EXPECT_EQ(stop.push("yes <"), "yes ");
  EXPECT_EQ(stop.push("/en"), "");
  EXPECT_EQ(stop.push("d> more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopText, AFalseStartIsGivenOutOnceItIsDecided) {
  StopText stop({"</end>"});
  EXPECT_EQ(stop.push("a </e"), "a ");
  EXPECT_EQ(stop.push("m>"), "</em>");
  EXPECT_EQ(stop.push("<"), "");
  EXPECT_EQ(stop.finish(), "<");
  EXPECT_FALSE(stop.stopped());
}

TEST(StopText, ARepeatedStartDoesNotHideTheStop) {
  StopText stop({"aab"});
  EXPECT_EQ(stop.push("aa"), "");
  EXPECT_EQ(stop.push("a"), "a");
  EXPECT_EQ(stop.push("b"), "");
  EXPECT_TRUE(stop.stopped());
}

TEST(StopText, TheEarliestOfSeveralWins) {
  StopText stop({"three", "two"});
  EXPECT_EQ(stop.push("one two three"), "one ");
  EXPECT_TRUE(stop.stopped());
}

TEST(StopText, AnEmptyStopIsRefused) {
  EXPECT_THROW(StopText({"a", ""}), Error);
}

}  // namespace
}  // namespace pastkv::engine
