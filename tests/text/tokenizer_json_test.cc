// tokenizer.json and tokenizer_config.json as the reference reads them. The ids were produced with Python's tokenizers
// 0.23.

#include "tiny.h"

namespace pastkv::text {
namespace {

json metaspace(const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", true}};
}

TEST(Unigram, ByteFallbackIsAllOrNothingAndNeverFuses) {
  const auto unigram = [](bool fallback, std::vector<json> more) {
    json vocab = json::array({json::array({"<unk>", 0.0}), json::array({"a", -1.0}), json::array({"b", -1.0}),
                              json::array({"<0x0A>", -5.0})});
    for (json& piece : more) vocab.push_back(piece);
    return tokenizer_of(
        tokenizer_json({{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}, {"byte_fallback", fallback}}));
  };
  EXPECT_EQ(unigram(true, {}).encode("a\nb", false), (Ids{1, 3, 2}));
  EXPECT_EQ(unigram(true, {}).encode("a\n\nb", false), (Ids{1, 3, 3, 2}));
  EXPECT_EQ(unigram(false, {}).encode("a\nb", false), (Ids{1, 0, 2}));
  EXPECT_EQ(unigram(false, {}).encode("a\n\nb", false), (Ids{1, 0, 2}));
  const json first = json::array({"<0xC3>", -5.0});
  EXPECT_EQ(unigram(true, {first}).encode("aéb", false), (Ids{1, 0, 2}));
  EXPECT_EQ(unigram(true, {first, json::array({"<0xA9>", -5.0})}).encode("aéb", false), (Ids{1, 4, 5, 2}));
}

TEST(Bpe, AWholeWordWinsWhenMergesAreIgnored) {
  const std::vector<std::string> tokens = {"a", "b", "c", "ab", "bc", "abc"};
  const auto with = [&](bool ignore, const json& merges) {
    return tokenizer_of(tokenizer_json(bpe(tokens, {}, {{"ignore_merges", ignore}, {"merges", merges}})));
  };
  const json pairs = json::array({json::array({"b", "c"}), json::array({"a", "b"})});
  const json strings = json::array({"b c", "a b"});
  for (const json& merges : {pairs, strings}) {
    EXPECT_EQ(with(true, merges).encode("abc", false), (Ids{5}));
    EXPECT_EQ(with(false, merges).encode("abc", false), (Ids{0, 4}));
  }
}

TEST(Metaspace, ThePrependSchemeDecides) {
  const auto with = [](const char* scheme) {
    return tokenizer_of(tokenizer_json(bpe({"?", "▁", "h", "i", "hi", "▁hi"}, {"h i", "▁ hi"}, {{"unk_token", "?"}}),
                                       {{"added_tokens", {added_token(6, "<s>")}},
                                        {"pre_tokenizer", metaspace(scheme)},
                                        {"decoder", metaspace(scheme)}}));
  };
  struct Case {
    const char* scheme;
    std::vector<Ids> ids;  // of the texts below
  };
  const std::vector<std::string> texts = {"hi", " hi", "<s>hi", "hi<s>hi", "<s> hi", ""};
  for (const Case& c : {Case{"always", {{5}, {5}, {6, 5}, {5, 6, 5}, {6, 5}, {}}},
                        Case{"first", {{5}, {5}, {6, 4}, {5, 6, 4}, {6, 5}, {}}},
                        Case{"never", {{4}, {5}, {6, 4}, {4, 6, 4}, {6, 5}, {}}}}) {
    const Tokenizer tokenizer = with(c.scheme);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i], false), c.ids[i]) << c.scheme << " " << texts[i];
    }
  }
  EXPECT_EQ(with("always").decode(Ids{5}, false), "hi");
  EXPECT_EQ(with("never").decode(Ids{5}, false), " hi");
  EXPECT_EQ(with("first").decode(Ids{6, 4}, false), "<s>hi");
  EXPECT_EQ(with("always").decode(Ids{6, 5}, false), "<s> hi");
}

TEST(PrependNormalizer, GivesEveryPieceItsPrefixAndKeepsTheUsersSpace) {
  const json normalizer = {{"type", "Sequence"},
                           {"normalizers",
                            {{{"type", "Prepend"}, {"prepend", "▁"}},
                             {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  const json decoder = {{"type", "Sequence"},
                        {"decoders",
                         {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                          {{"type", "ByteFallback"}},
                          {{"type", "Fuse"}},
                          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const Tokenizer tokenizer =
      tokenizer_of(tokenizer_json(bpe({"?", "▁", "h", "i", "hi", "▁hi"}, {"h i", "▁ hi"},
                                      {{"unk_token", "?"}, {"fuse_unk", true}, {"byte_fallback", true}}),
                                  {{"added_tokens", {added_token(6, "<s>"), added_token(7, "<im>", false)}},
                                   {"normalizer", normalizer},
                                   {"decoder", decoder}}));
  const std::vector<std::pair<std::string, Ids>> cases = {
      {"hi", {5}}, {" hi", {1, 5}}, {"<im>hi", {7, 5}}, {"hi<im>hi", {5, 7, 5}}, {"<im>", {7}}, {"<im> hi", {7, 1, 5}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer.encode(text, false), ids) << text;
  EXPECT_EQ(tokenizer.decode(Ids{1, 5}, false), " hi");
}

TEST(Digits, AreGroupedAsTheFileSays) {
  const auto pieces = [](json pre_tokenizer, const std::string& text) {
    // Every character is a token and nothing merges; a byte-level step after the split would hide the pieces, so they
    // are read off a vocabulary of whole pieces.
    json vocab = {{"[UNK]", 0}};
    const std::vector<std::string> whole = {"333", "3", "+", "777",   "7",       "123", "456", "ab ", "1",
                                            "2",   "½", "4", "Call ", " please", "٣٤٥", "٦",   "x"};
    for (const std::string& piece : whole) vocab[piece] = vocab.size();
    const Tokenizer tokenizer =
        tokenizer_of(tokenizer_json({{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "[UNK]"}},
                                    {{"pre_tokenizer", std::move(pre_tokenizer)}}));
    std::vector<std::string> found;
    for (const std::int32_t id : tokenizer.encode(text, false)) found.push_back(*tokenizer.token_of(id));
    return found;
  };
  const auto split = [](const std::string& number) -> json {
    return {{"type", "Split"},
            {"pattern", {{"Regex", "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + number + "| ?[^\\s\\p{L}\\p{N}]+"}}},
            {"behavior", "Isolated"},
            {"invert", false}};
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(split("\\p{N}{1,3}"), "3333+777"), (Pieces{"333", "3", "+", "777"}));
  EXPECT_EQ(pieces(split("\\p{N}{1,3}"), "1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(pieces(split("\\p{N}{1,3}"), "٣٤٥٦x"), (Pieces{"٣٤٥", "٦", "x"}));
  EXPECT_EQ(pieces(split("\\p{N}"), "3333+777"), (Pieces{"3", "3", "3", "3", "+", "7", "7", "7"}));
  const auto digits = [](bool individual) -> json { return {{"type", "Digits"}, {"individual_digits", individual}}; };
  EXPECT_EQ(pieces(digits(true), "ab 123½4"), (Pieces{"ab ", "1", "2", "3", "½", "4"}));
  EXPECT_EQ(pieces(digits(false), "Call 123 please"), (Pieces{"Call ", "123", " please"}));
}

TEST(Normalizer, ComposedAndDecomposedTextGiveTheSameIds) {
  const std::string decomposed = "e\xCC\x81";
  const Tokenizer tokenizer = tokenizer_of(tokenizer_json(
      bpe({"Ã", "©", "e", "Ã©", decomposed + "!", "Ì", "ģ", "!"}, {"Ã ©"}),
      {{"added_tokens", {added_token(4, decomposed + "!", false)}},
       {"normalizer", {{"type", "NFC"}}},
       {"pre_tokenizer",
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}));
  EXPECT_EQ(tokenizer.encode("é", false), (Ids{3}));
  EXPECT_EQ(tokenizer.encode(decomposed, false), (Ids{3}));
  EXPECT_EQ(tokenizer.encode(decomposed + "!", false),
            (Ids{4}));  // added tokens that are not normalized see the raw text
  EXPECT_EQ(tokenizer.encode("é!", false), (Ids{3, 7}));
}

TEST(AddedTokens, AreFoundFirstSpecialOrNotAndTheLongestWins) {
  const Tokenizer overlap = tokenizer_of(
      tokenizer_json(bpe({"x", "y", "z"}),
                     {{"added_tokens", {added_token(3, "<a>"), added_token(4, "<a><b>"), added_token(5, "<b>")}}}));
  EXPECT_EQ(overlap.encode("<a><b><b><a>", false), (Ids{4, 5, 3}));

  const Tokenizer plain =
      tokenizer_of(tokenizer_json(bpe({" ", "h", "i"}), {{"added_tokens", {added_token(3, "hi", false)}}}));
  EXPECT_EQ(plain.encode("h hi hih", false), (Ids{1, 0, 3, 0, 3, 1}));

  json word = added_token(3, "<s>");
  word["single_word"] = true;
  const Tokenizer single = tokenizer_of(
      tokenizer_json(bpe({"?", "x", " ", "<s>", "<", "s", ">"}, {}, {{"unk_token", "?"}}), {{"added_tokens", {word}}}));
  EXPECT_EQ(single.encode("<s> x<s> <s>x <s>", false), (Ids{3, 2, 1, 4, 5, 6, 2, 4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(single.encode("x<s>x", false), (Ids{1, 4, 5, 6, 1}));
}

TEST(AddedTokens, SpecialOnesCanStayText) {
  const Tokenizer tokenizer = tokenizer_of(tokenizer_json(
      bpe({"<", "s", ">", "t"}), {{"added_tokens", {added_token(4, "<s>"), added_token(5, "<t>", false)}}}));
  EXPECT_EQ(tokenizer.encode("<s><t>", false), (Ids{4, 5}));
  EXPECT_EQ(tokenizer.encode("<s><t>", false, SpecialText::as_text), (Ids{0, 1, 2, 5}));
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_FALSE(tokenizer.is_special(5));
  EXPECT_EQ(tokenizer.decode(Ids{4, 3}, true), "t");
}

TEST(Truncation, AndPaddingOfTheFileDoNotTouchAPrompt) {
  json whole = tokenizer_json(bpe({"a", "[PAD]"}));
  whole["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  whole["padding"] = {
      {"strategy", {{"Fixed", 8}}}, {"direction", "Right"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 1},
      {"pad_type_id", 0},           {"pad_token", "[PAD]"}};
  EXPECT_EQ(tokenizer_of(whole).encode("aaaa", false), (Ids{0, 0, 0, 0}));
}

// Vocabulary: a=0, <BOS>=1, <EOS>=2.
json with_specials(json post_processor) {
  return tokenizer_json(bpe({"a"}), {{"added_tokens", {added_token(1, "<BOS>"), added_token(2, "<EOS>")}},
                                     {"post_processor", std::move(post_processor)}});
}

const json kSilent = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
const json kAddsBos = {
    {"type", "TemplateProcessing"},
    {"single", {{{"SpecialToken", {{"id", "<BOS>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
    {"pair", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
    {"special_tokens", {{"<BOS>", {{"id", "<BOS>"}, {"ids", {1}}, {"tokens", {"<BOS>"}}}}}}};

TEST(Bos, IsAddedOnceByWhicheverFileAsks) {
  struct Case {
    json post_processor, config;
    Ids ids;
    std::string source;
  };
  const json asks = {
      {"add_bos_token", true}, {"bos_token", {{"content", "<BOS>"}}}, {"tokenizer_class", "LlamaTokenizerFast"}};
  json forbids = asks;
  forbids["add_bos_token"] = false;
  json both = asks;
  both.update({{"add_eos_token", true}, {"eos_token", "<EOS>"}});
  json general = forbids;  // a class that leaves tokenizer.json's post-processor alone
  general["tokenizer_class"] = "PreTrainedTokenizerFast";
  const std::vector<Case> cases = {{kSilent, asks, {1, 0}, "tokenizer_config.json: add_bos_token"},
                                   {kAddsBos, asks, {1, 0}, "tokenizer.json: post_processor"},
                                   {kAddsBos, nullptr, {1, 0}, "tokenizer.json: post_processor"},
                                   {kSilent, nullptr, {0}, "no file asks for a BOS"},
                                   {kSilent, forbids, {0}, "no file asks for a BOS"},
                                   {kAddsBos, forbids, {0}, "tokenizer_config.json: add_bos_token"},
                                   {kAddsBos, general, {1, 0}, "tokenizer.json: post_processor"},
                                   {kSilent, both, {1, 0, 2}, "tokenizer_config.json: add_bos_token"}};
  for (const Case& c : cases) {
    const TinyFolder folder(with_specials(c.post_processor), c.config);
    const Tokenizer tokenizer = folder.tokenizer();
    EXPECT_EQ(tokenizer.encode("a", true), c.ids) << c.config;
    EXPECT_EQ(tokenizer.encode("a", false), (Ids{0})) << c.config;
    EXPECT_EQ(tokenizer.bos_source(), c.source) << c.config;
  }
}

TEST(Bos, ThatIsNoTokenIsRefused) {
  const TinyFolder folder(with_specials(kSilent), {{"add_bos_token", true}, {"bos_token", "<none>"}});
  const std::string error = error_of([&] { folder.tokenizer(); });
  EXPECT_NE(error.find("tokenizer_config.json: add_bos_token"), std::string::npos) << error;
  EXPECT_NE(error.find("<none>"), std::string::npos) << error;
}

TEST(Eos, IsTheUnionOfTheThreeFiles) {
  TinyFolder folder(with_specials(kSilent), {{"eos_token", "<EOS>"}});
  folder.folder().generation_config = {{"eos_token_id", {1, 2}}};
  folder.folder().config = {{"eos_token_id", 0}};
  EXPECT_EQ(folder.tokenizer().eos_ids(), (Ids{2, 1, 0}));
  for (const json& bad : {json(true), json("x"), json::array(), json(-1), json({1, "2"})}) {
    folder.folder().generation_config = {{"eos_token_id", bad}};
    const std::string error = error_of([&] { folder.tokenizer(); });
    EXPECT_NE(error.find("generation_config.json: eos_token_id"), std::string::npos) << error;
  }
}

TEST(CleanUp, IsAChoiceOfTheFile) {
  const json tokenizer = tokenizer_json(
      bpe({"!", "Ġ!"}, {"Ġ !"}, {{"vocab", {{"!", 0}, {"Ġ!", 1}, {"Ġ", 2}}}}),
      {{"added_tokens", {added_token(3, "<s>")}},
       {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}}});
  const Ids ids = {3, 0, 1, 1};
  EXPECT_EQ(TinyFolder(tokenizer).tokenizer().decode(ids, true), "! ! !");
  EXPECT_EQ(TinyFolder(tokenizer, {{"clean_up_tokenization_spaces", false}}).tokenizer().decode(ids, true), "! ! !");
  EXPECT_EQ(TinyFolder(tokenizer, {{"clean_up_tokenization_spaces", true}}).tokenizer().decode(ids, true), "!!!");
}

TEST(DamagedFile, IsRefusedWithItsName) {
  for (const json& damaged :
       {json("text"), json::object(), tokenizer_json({{"type", "BPE"}}),
        tokenizer_json(bpe({"a"}), {{"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "////fwAA"}}}}),
        tokenizer_json(bpe({"a"}, {"a b"})), tokenizer_json({{"type", "Other"}})}) {
    const std::string error = error_of([&] { tokenizer_of(damaged); });
    EXPECT_NE(error.find("tokenizer.json"), std::string::npos) << error;
  }
}

// Byte-level tokens for the given bytes, each its own token.
Tokenizer byte_tokenizer(json config = nullptr) {
  const json decoder = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  std::vector<std::string> tokens;
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
  for (const char* word : {"A", " ", "n", "'t", "don", " '", "s", "."}) tokens.push_back(word);
  return TinyFolder(tokenizer_json(bpe(tokens), {{"decoder", decoder}}), std::move(config)).tokenizer();
}

TEST(Stream, HoldsIncompleteCharactersBack) {
  const Tokenizer tokenizer = byte_tokenizer();
  StreamDecoder cat(tokenizer, true);
  for (const int byte : {0xF0, 0x9F, 0x98}) EXPECT_EQ(cat.push(byte), "");
  const std::string last_byte = cat.push(0xB8);
  EXPECT_EQ(last_byte + cat.push(256), "😸A");
  EXPECT_EQ(cat.finish(), "");

  StreamDecoder cut(tokenizer, true);
  EXPECT_EQ(cut.push(0xF0), "");
  EXPECT_EQ(cut.push(0x9F), "");
  EXPECT_EQ(cut.finish(), tokenizer.decode(Ids{0xF0, 0x9F}, true));
}

TEST(Stream, GivesOutWhatDecodingTheWholeGives) {
  for (const bool clean : {false, true}) {
    const Tokenizer tokenizer = byte_tokenizer({{"clean_up_tokenization_spaces", clean}});
    std::uint32_t state = 1;
    for (int round = 0; round < 300; ++round) {
      Ids ids;
      StreamDecoder stream(tokenizer, true);
      std::string text;
      for (int i = 0; i < 30; ++i) {
        state = state * 1664525 + 1013904223;
        const int pick = static_cast<int>(state >> 24);
        ids.push_back(pick < 160 ? 256 + pick % 8 : pick);
        text += stream.push(ids.back());
        const std::string whole = tokenizer.decode(ids, true);
        EXPECT_TRUE(whole.starts_with(text) || whole.find("\xEF\xBF\xBD") != std::string::npos || clean);
      }
      text += stream.finish();
      ASSERT_EQ(text, tokenizer.decode(ids, true)) << testing::PrintToString(ids);
    }
  }
}

}  // namespace
}  // namespace pastkv::text
