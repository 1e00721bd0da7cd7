// The parts of the command line that need no model: numbers, tables, ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/description.h"
#include "cli/options.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace pastkv::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Units, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(97'900'000), "97.9 MB");
  EXPECT_EQ(bytes_text(253e6), "253 MB");
  EXPECT_EQ(bytes_text(999'600'000), "1.0 GB");
}

TEST(Units, CountsAndTimes) {
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(134'515'008), "134.5 M");
  EXPECT_EQ(milliseconds_text(1.234), "1.23 ms");
  EXPECT_EQ(milliseconds_text(12.34), "12.3 ms");
  EXPECT_EQ(milliseconds_text(281.6), "282 ms");
  EXPECT_EQ(milliseconds_text(12'345), "12.3 s");
  EXPECT_EQ(shape_text({1, 3, 128, 64}), "[1, 3, 128, 64]");
  EXPECT_EQ(shape_text({}), "[]");
}

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"label"}, {"tok/s", Align::right}});
  table.add({"a", "1.5"});
  table.add({"longer label", "1200.5"});
  EXPECT_EQ(table.text(),
            "label          tok/s\n"
            "a                1.5\n"
            "longer label  1200.5\n");
}

TEST(Table, WidthCountsCharactersAndTheIndentStaysWithoutTitles) {
  Table table({{""}, {""}});
  table.add({"±", "x"});
  table.add({"ab", ""});
  EXPECT_EQ(table.text(2), "  ±   x\n  ab\n");
}

TEST(Ranges, JoinNeighbours) {
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 4, 6, 8, 9}), "0-4, 6, 8-9");
  EXPECT_EQ(ranges_text({7}), "7");
  EXPECT_EQ(ranges_text({}), "");
}

TEST(Ids, AreReadWithCommasSpacesAndBrackets) {
  EXPECT_THAT(parse_ids("1,2,3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(parse_ids("[1, 2,\n3]"), ElementsAre(1, 2, 3));
  EXPECT_THAT(parse_ids(" "), IsEmpty());
  EXPECT_THAT(parse_ids("2147483647"), ElementsAre(2147483647));
}

TEST(Ids, WhatIsNoIdIsAMistakeOfTheCommandLine) {
  for (const char* bad : {"x", "1,x", "-1", "1.5", "2147483648", "99999999999999999999"}) {
    EXPECT_THROW(parse_ids(bad), UsageError) << bad;
  }
}

TEST(Sampling, OptionsOutOfRangeAreAMistakeOfTheCommandLine) {
  SamplerFlags flags;
  flags.options.top_p = 1.5F;
  EXPECT_THROW(sampler_options(flags), UsageError);
}

TEST(Sampling, TheSeedGivenIsTheSeedUsedAndGreedyNeedsNone) {
  SamplerFlags flags;
  EXPECT_EQ(sampler_options(flags).seed, 0U);
  flags.seed = "7";
  flags.options.temperature = 1;
  EXPECT_EQ(sampler_options(flags).seed, 7U);
}

}  // namespace
}  // namespace pastkv::cli
