#include "engine/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "fake_session.h"

namespace pastkv::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

// One letter a token: 0 is "a", 1 is "b", ...; 6 and 7 are special.
text::Tokenizer letters() {
  const auto path = std::filesystem::path(testing::TempDir()) / "letters_tokenizer.json";
  std::ofstream(path) << R"({"version":"1.0","truncation":null,"padding":null,
    "added_tokens":[
      {"id":6,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":7,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
    "normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":{"type":"Fuse"},
    "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
      "fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
      "vocab":{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5},"merges":[]}})";
  return text::Tokenizer::from_file(path);
}

class GenerateTest : public testing::Test {
 protected:
  // After `after` ids have been seen, the model says answer[0], then answer[1], ...
  void say(std::size_t after, Ids answer) {
    model_.logits = [=, this](const Ids& held) {
      std::vector<float> logits(static_cast<std::size_t>(model_.vocab), 0.0F);
      const std::size_t at = held.size() - after;
      if (at < answer.size()) logits[static_cast<std::size_t>(answer[at])] = 5.0F;
      return logits;
    };
  }

  FakeSession session(std::int64_t context = 64) { return {model_, context}; }

  std::string error_of(Session& on, const Ids& prompt, const GenerateOptions& options) {
    try {
      generate(on, prompt, nullptr, options, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  FakeModel model_;
};

TEST_F(GenerateTest, PrefillsOnceThenFeedsOneTokenAtATime) {
  say(3, {4, 5, 2});
  FakeSession on = session();
  const Generated answer = generate(on, Ids{1, 2, 3}, nullptr, {.max_tokens = 3}, {});
  EXPECT_THAT(answer.ids, ElementsAre(4, 5, 2));
  EXPECT_EQ(answer.finish, Finish::length);
  EXPECT_THAT(model_.calls, ElementsAre(Ids{1, 2, 3}, Ids{4}, Ids{5}));
  EXPECT_EQ(answer.decoded_tokens, 2);
  EXPECT_EQ(answer.text, "");
}

TEST_F(GenerateTest, NoTokensAskedForIsAPrefillAlone) {
  say(3, {4});
  FakeSession on = session(3);
  const Generated answer = generate(on, Ids{1, 2, 3}, nullptr, {.max_tokens = 0}, {});
  EXPECT_THAT(answer.ids, IsEmpty());
  EXPECT_EQ(answer.finish, Finish::length);
  EXPECT_EQ(model_.calls.size(), 1U);
  EXPECT_EQ(answer.timing.time_to_first_token_ms, 0);
}

TEST_F(GenerateTest, AnyEosEndsTheAnswerAndIsNotPartOfIt) {
  say(1, {4, 6, 5});
  FakeSession on = session();
  const Generated answer = generate(on, Ids{1}, nullptr, {.max_tokens = 10, .eos_ids = {1, 6}}, {});
  EXPECT_THAT(answer.ids, ElementsAre(4));
  EXPECT_EQ(answer.finish, Finish::eos);
}

TEST_F(GenerateTest, TheContextIsNeverOverrun) {
  say(63, {4, 5});
  FakeSession on = session(64);
  const Generated answer = generate(on, Ids(63, 1), nullptr, {.max_tokens = 10}, {});
  EXPECT_THAT(answer.ids, ElementsAre(4));
  EXPECT_EQ(answer.finish, Finish::length);
  FakeSession again = session(64);
  EXPECT_EQ(generate(again, Ids(63, 1), nullptr, {.max_tokens = -1}, {}).ids.size(), 1U);
}

TEST_F(GenerateTest, PromptsThatDoNotFitAreRefusedWithBothNumbers) {
  say(64, {4});
  FakeSession on = session(64);
  EXPECT_THAT(error_of(on, Ids(64, 1), {.max_tokens = 10}), HasSubstr("64 tokens, and the context holds 64: no room"));
  EXPECT_THAT(error_of(on, Ids(65, 1), {.max_tokens = 10}), HasSubstr("65 tokens, and the context holds 64"));
  EXPECT_THAT(error_of(on, Ids(128, 1), {.max_tokens = 0}), HasSubstr("128 tokens, and the context holds 64"));
  EXPECT_THAT(error_of(on, {}, {}), HasSubstr("prompt: is empty"));
  EXPECT_THAT(model_.calls, IsEmpty());
}

TEST_F(GenerateTest, IdsOutsideTheVocabularyAreRefused) {
  FakeSession on = session();
  EXPECT_THAT(error_of(on, {1, 8}, {}), HasSubstr("id 8 is outside the model's vocabulary of 8"));
  EXPECT_THAT(error_of(on, {-1}, {}), HasSubstr("id -1"));
  model_.vocab = 7;
  const text::Tokenizer tokenizer = letters();
  try {
    generate(on, Ids{7}, &tokenizer, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("id 7 is outside the model's vocabulary of 7, while its tokenizer has 8 ids"));
  }
}

TEST_F(GenerateTest, ACommonPrefixIsNotComputedAgain) {
  say(5, {4});
  FakeSession on = session();
  model_.held = {1, 2, 3, 4};
  const Generated answer = generate(on, Ids{1, 2, 3, 5, 5}, nullptr, {.max_tokens = 1}, {});
  EXPECT_EQ(answer.reused_tokens, 3);
  EXPECT_THAT(model_.calls, ElementsAre(Ids{5, 5}));
}

TEST_F(GenerateTest, TheLastTokenOfAPromptThatIsHeldWholeIsComputedAgain) {
  say(3, {4});
  FakeSession on = session();
  model_.held = {1, 2, 3, 4, 5};
  const Generated answer = generate(on, Ids{1, 2, 3}, nullptr, {.max_tokens = 1}, {});
  EXPECT_EQ(answer.reused_tokens, 2);
  EXPECT_THAT(model_.calls, ElementsAre(Ids{3}));
  EXPECT_THAT(answer.ids, ElementsAre(4));
}

TEST_F(GenerateTest, WhatTheCacheCannotKeepIsComputedAgain) {
  say(4, {4});
  FakeSession on = session();
  model_.held = {1, 2, 3, 4, 5};
  model_.most_kept = [](std::int64_t) { return std::int64_t{0}; };
  const Generated answer = generate(on, Ids{1, 2, 3, 5}, nullptr, {.max_tokens = 1}, {});
  EXPECT_EQ(answer.reused_tokens, 0);
  EXPECT_THAT(model_.calls, ElementsAre(Ids{1, 2, 3, 5}));
}

TEST_F(GenerateTest, TextIsStreamedAndIsTheTextOfTheIds) {
  say(1, {2, 0, 1});
  FakeSession on = session();
  const text::Tokenizer tokenizer = letters();
  std::string streamed;
  const Generated answer =
      generate(on, Ids{1}, &tokenizer, {.max_tokens = 3}, [&](std::string_view text) { streamed += text; });
  EXPECT_EQ(answer.text, "cab");
  EXPECT_EQ(streamed, "cab");
}

TEST_F(GenerateTest, AStopTextEndsTheAnswerBeforeIt) {
  say(1, {2, 0, 1, 3, 4});
  FakeSession on = session();
  const text::Tokenizer tokenizer = letters();
  std::string streamed;
  const Generated answer = generate(on, Ids{1}, &tokenizer, {.max_tokens = 5, .stop = {"bd"}},
                                    [&](std::string_view text) { streamed += text; });
  EXPECT_EQ(answer.finish, Finish::stop);
  EXPECT_EQ(answer.text, "ca");
  EXPECT_EQ(streamed, "ca");
  EXPECT_THAT(answer.ids, ElementsAre(2, 0, 1, 3));
}

TEST_F(GenerateTest, AStopTextThatSpellsASpecialTokenEndsTheAnswerAtItsId) {
  say(1, {2, 7, 3});
  FakeSession on = session();
  const text::Tokenizer tokenizer = letters();
  const Generated answer = generate(on, Ids{1}, &tokenizer, {.max_tokens = 5, .stop = {"</s>"}}, {});
  EXPECT_EQ(answer.finish, Finish::stop);
  EXPECT_EQ(answer.text, "c");
  EXPECT_THAT(answer.ids, ElementsAre(2));
}

TEST_F(GenerateTest, StopTextsNeedATokenizer) {
  say(1, {2});
  FakeSession on = session();
  EXPECT_THAT(error_of(on, {1}, {.stop = {"x"}}), HasSubstr("no tokenizer"));
}

TEST_F(GenerateTest, IdsBeyondTheTokenizerAreNeverDrawn) {
  model_.vocab = 12;  // the head is padded: the tokenizer has 8
  say(1, {10, 11});
  FakeSession on = session();
  const text::Tokenizer tokenizer = letters();
  const Generated answer = generate(on, Ids{1}, &tokenizer, {.max_tokens = 2}, {});
  EXPECT_THAT(answer.ids, ElementsAre(0, 0));
}

TEST_F(GenerateTest, StepsCarryTheModelsOwnLogprobs) {
  say(1, {4, 2});
  FakeSession on = session();
  const Generated answer =
      generate(on, Ids{1}, nullptr, {.sampler = {.temperature = 0, .top_k = 1}, .max_tokens = 2, .logprobs = 2}, {});
  ASSERT_EQ(answer.steps.size(), 2U);
  EXPECT_EQ(answer.steps[0].id, 4);
  EXPECT_NEAR(answer.steps[0].logprob, 5 - std::log(std::exp(5.0) + 7), 1e-5);
  ASSERT_EQ(answer.steps[0].top.size(), 2U);
  EXPECT_EQ(answer.steps[0].top[0].id, 4);
  EXPECT_EQ(answer.steps[0].top[1].id, 0);
}

TEST_F(GenerateTest, CancellingEndsTheAnswer) {
  say(1, {4, 2, 3});
  FakeSession on = session();
  const std::atomic<bool> cancel{true};
  const Generated answer = generate(on, Ids{1}, nullptr, {.max_tokens = 3, .cancel = &cancel}, {});
  EXPECT_THAT(answer.ids, ElementsAre(4));
  EXPECT_EQ(answer.finish, Finish::cancelled);
}

TEST_F(GenerateTest, TheSeedDecidesWhateverTheCacheHeld) {
  model_.vocab = 256;
  model_.logits = [](const Ids&) { return std::vector<float>(256, 0.0F); };
  const auto run = [&](std::uint64_t seed) {
    FakeSession on = session();
    return generate(on, Ids{1, 2}, nullptr, {.sampler = {.temperature = 0.8F, .seed = seed}, .max_tokens = 32}, {}).ids;
  };
  const Ids first = run(1);
  EXPECT_EQ(run(1), first);  // the second time the prompt is in the cache
  EXPECT_NE(run(2), first);
}

}  // namespace
}  // namespace pastkv::engine
