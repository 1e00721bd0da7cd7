#include "text/pre_tokenizers.h"

#include <algorithm>

namespace pastkv::text {
namespace {

// The expressions are those of the models' own tokenizer.json files, where these are known.
#define CONTRACTIONS R"re((?i:'s|'t|'re|'ve|'m|'ll|'d))re"
#define GPT2 R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re"
// Words with at most one leading sign, then digits, then signs with the line ends after them.
#define CL100K(digits) \
  CONTRACTIONS         \
  R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|)re" digits R"re(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"
#define UPPER R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])re"
#define LOWER R"re([\p{Ll}\p{Lm}\p{Lo}\p{M}])re"
#define O200K(contractions, digits)                                                \
  UPPER "*" LOWER "+" contractions "|" UPPER "+" LOWER "*" contractions "|" digits \
        R"re(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"
#define ASCII_SIGN_WORD R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)re"
#define CJK R"re([一-龥぀-ゟ゠-ヿ]+)re"
#define CJK_AND_HANGUL R"re([一-龥ࠀ-一가-퟿]+)re"
#define DEEPSEEK_WORDS \
  ASCII_SIGN_WORD      \
  R"re(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"
#define BLOOM R"re( ?[^(\s|.,!?…。，、।۔،)]+)re"
#define LINES R"re([^\n]+|[\n]+)re"
// Letters of scripts with two cases, as DeepSeek LLM lists them.
#define CASED                                                                                            \
  "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF"      \
  "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5"      \
  "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-"   \
  "\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D"    \
  "\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-"     \
  "\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113"     \
  "\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149"      \
  "\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B"      \
  "\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-"   \
  "\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0" \
  "-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+"

const std::vector<PreTokenizer>& table() {
  static const std::vector<PreTokenizer> kTable = {
      {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano"},
       .splits = {CL100K(R"re(\p{N}{1,3})re")},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .splits = {CL100K(R"re(\p{N}{1,3})re")}},
      {.names = {"glm4", "glm5"}, .splits = {CL100K(R"re(\p{N}{1,3})re")}, .ignore_merges = true},
      {.names = {"minicpm5"}, .splits = {R"re(\p{N}{1,3})re", CL100K(R"re(\p{N}+)re")}, .ignore_merges = true},
      {.names = {"jais-2"},
       .splits = {CONTRACTIONS
                  R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)re"
                  R"re(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))re"
                  R"re(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re"}},
      {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open", "grok-2"},
       .splits = {CL100K(R"re(\p{N})re")},
       .nfc = true},
      {.names = {"stablelm2"}, .splits = {CL100K(R"re(\p{N})re")}, .nfc = true},
      {.names = {"qwen35"},
       .splits =
           {CONTRACTIONS
            R"re(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}},
      {.names = {"laguna"}, .splits = {LINES, CL100K(R"re(\p{N})re")}},
      {.names = {"ufakzeka"},
       .splits = {R"re([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}},
      {.names = {"seed-coder"},
       .splits = {CONTRACTIONS
                  R"re(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re"}},
      {.names = {"exaone-moe"},
       .splits = {CONTRACTIONS
                  R"re(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)re"
                  R"re(|\s*[\r\n]|\s+(?!\S)|\s+)re"}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
       .splits = {R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n])re"
                  R"re(|\s+(?!\S)|\s+)re"}},
      {.names = {"tekken"}, .splits = {O200K("", R"re(\p{N})re")}, .ignore_merges = true, .add_bos = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
       .splits = {O200K(CONTRACTIONS "?", R"re(\p{N}{1,3})re")}},
      {.names = {"granite-embed-multi-97m"},
       .splits = {O200K(CONTRACTIONS "?", R"re(\p{N}{1,3})re")},
       .ignore_merges = true},
      {.names = {"tiny_aya", "cohere2moe"},
       .splits = {R"re(\d{1,3}(?=(?:\d{3})*\b))re", O200K(CONTRACTIONS "?", R"re(\p{N}{1,3})re")}},
      {.names = {"kimi-k2"},
       .splits = {R"re([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)re"
                  R"re([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)re"
                  R"re(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)re"
                  R"re([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)re"
                  R"re(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}},
      {.names = {"youtu"},
       .splits =
           {R"re([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)re",
            O200K(CONTRACTIONS "?", R"re(\p{N})re")},
       .ignore_merges = true},
      {.names = {"deepseek-llm"},
       .splits = {R"re([\r\n])re", CASED, R"re(\s?[!-/:-~！-／：-～‘-‟　-。]+)re", R"re(\s+$)re", CJK_AND_HANGUL,
                  R"re(\p{N})re"}},
      {.names = {"deepseek-coder"},
       .splits = {R"re([\r\n])re", R"re(\s?\p{L}+)re", R"re(\s?\p{P}+)re", CJK_AND_HANGUL, R"re(\p{N})re"}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .splits = {R"re(\p{N}{1,3})re", CJK, DEEPSEEK_WORDS}},
      {.names = {"spark2_5"},
       .splits = {R"re(\p{N}{1,3})re", CJK,
                  ASCII_SIGN_WORD R"re(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)re",
                  R"re(\p{N})re"}},
      {.names = {"afmoe"},
       .splits =
           {R"re(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))re",
            R"re([一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+)re",
            DEEPSEEK_WORDS}},
      {.names = {"falcon"}, .splits = {R"re([\p{P}\$\+<=>\^~\|`]+)re", GPT2, R"re([0-9][0-9][0-9])re"}},
      {.names = {"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .splits = {R"re(\p{N})re", GPT2}},
      {.names = {"command-r"}, .splits = {R"re(\p{N})re", GPT2}, .nfc = true},
      {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
                 "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "jais", "trillion",
                 "granite-docling"},
       .splits = {GPT2}},
      {.names = {"mpt", "olmo"}, .splits = {GPT2}, .nfc = true},
      {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .splits = {BLOOM}},
      {.names = {"viking"}, .splits = {BLOOM, R"re(\p{N})re"}},
      {.names = {"superbpe"}, .splits = {R"re(\p{N}+)re", R"re((?=(\d{3})+(?!\d)))re"}},
      {.names = {"chameleon"},
       .splits = {R"re(<sentinel:[0-9]+>)re", R"re((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)re", R"re(([\t\n]|    |  ))re",
                  R"re(\p{N})re", R"re([\p{P}!-/:-@\[-`{-~])re", GPT2},
       .add_bos = true},
      {.names = {"gemma4", "granite-embed-multi-311m"}, .splits = {LINES}, .add_bos = true, .byte_level = false},
      {.names = {"sarvam-moe"}, .splits = {LINES}, .byte_level = false},
      // What llama.cpp does with files that name nothing.
      {.names = {"default"},
       .splits = {R"re([\p{P}\$\+<=>\^~\|]+)re", GPT2, R"re(\p{N}+)re", R"re([0-9][0-9][0-9])re"}},
  };
  return kTable;
}

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() {
  return table();
}

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& entry : table()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

std::string known_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& entry : table()) names.insert(names.end(), entry.names.begin(), entry.names.end());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

}  // namespace pastkv::text
