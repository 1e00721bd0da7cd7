#include "bench/prompt.h"

#include <fmt/format.h>

#include "base/error.h"

namespace pastkv::bench {
namespace {

// What stands for text when a model has no tokenizer.
std::vector<std::int32_t> byte_ids(std::string_view text, std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i) % text.size()]);
    ids.push_back(static_cast<std::int32_t>(byte % vocab));
  }
  return ids;
}

}  // namespace

std::vector<std::int32_t> prompt_ids(const std::optional<text::Tokenizer>& tokenizer, std::string text,
                                     std::int64_t count, std::int64_t vocab) {
  if (text.empty()) {
    throw Error({.file = {}, .place = "prompt", .reason = "is empty", .remedy = "give a text with --prompt-file"});
  }
  std::vector<std::int32_t> ids;
  if (!tokenizer) ids = byte_ids(text, count, vocab);
  for (std::size_t before = 0; std::ssize(ids) < count; before = ids.size(), text += text) {
    ids = tokenizer->encode(text, /*add_special=*/true, text::SpecialText::as_text);
    if (ids.size() <= before) {
      throw Error({.file = {},
                   .place = "prompt",
                   .reason = fmt::format("gives {} tokens, however often it is repeated", ids.size()),
                   .remedy = "give another text with --prompt-file"});
    }
  }
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

std::string_view default_prompt() {
  return "The lighthouse stands at the end of a long spit of shingle, two miles from the nearest road, and the only "
         "way "
         "to reach it on foot is along the beach at low water. In winter the keeper walked that way once a week with "
         "the post and a sack of coal on a sledge, and came back the same evening if the tide allowed it. He had a "
         "wife, three children and a dog, and the children learned their letters from the labels on the oil drums "
         "before they ever saw a school. When a ship passed close enough to read her name they wrote it in a ledger, "
         "with the hour, the wind and the state of the sea. Forty-one years of those ledgers are kept in the harbour "
         "office now. They record 18,206 ships, nine wrecks, a whale, and on the fourth of June 1911 a balloon, which "
         "came down in the shallows with two astonished gentlemen who asked whether this was Denmark.\n\n"
         "The lamp itself was a simple thing. A burner with four wicks stood inside a lens as tall as a man, built of "
         "rings of glass so that every ray left it level with the horizon. The whole lens floated in a bath of mercury "
         "and turned once in thirty seconds; a weight on a chain drove it, as in a clock, and had to be wound up every "
         "three hours through the night. If the keeper slept, the light stopped turning, and a light that does not "
         "turn is a different light on the charts: a captain would have taken it for the harbour, eleven miles south, "
         "and steered straight onto the bar. So there were always two keepers on watch, and a bell, and a rule that "
         "nobody sat down after midnight.\n\n"
         "What ended it was not electricity, which came late and often failed, but arithmetic. A report of six pages "
         "compared the cost of the coal, the wages, the boat and the roof with the cost of an unmanned light on a "
         "steel mast, and found that the mast would pay for itself in seven years. The last keeper carried the ledgers "
         "down the beach on the old sledge, in two journeys, and locked the door out of habit. People still walk out "
         "there in summer. The stairs are sound, the view is very fine, and if you stand in the lantern room at dusk "
         "and look north you can see the new light, small and white and perfectly regular, doing everything that it "
         "was built to do.\n\n";
}

}  // namespace pastkv::bench
