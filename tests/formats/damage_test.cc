// Good files, cut and changed at every byte: each is read or refused with an Error, and costs little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "golden.h"

namespace pastkv::formats {
namespace {

// Zero under AddressSanitizer, which keeps what was freed.
long peak_kilobytes() {
#if defined(__SANITIZE_ADDRESS__)
  return 0;
#else
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
#endif
}

// Every byte of every tensor is touched: a view that leaves the file would fault.
unsigned touch(const TensorSource& source) {
  unsigned sum = 0;
  for (const TensorEntry& entry : source.tensors()) {
    for (const std::byte byte : entry.bytes) sum += std::to_integer<unsigned>(byte);
  }
  return sum;
}

bool read_gguf_bytes(const std::filesystem::path& path) {
  try {
    touch(read_gguf(path).tensors);
  } catch (const Error&) {
    return false;
  }
  return true;
}

bool read_safetensors_bytes(const std::filesystem::path& path) {
  try {
    TensorSource source;
    read_safetensors(path, source);
    touch(source);
  } catch (const Error&) {
    return false;
  }
  return true;
}

struct Container {
  const char* name;
  bool (*read)(const std::filesystem::path&);
  std::size_t spare;  // bytes at the end that may be absent
};

class Damage : public testing::TestWithParam<Container> {};

TEST_P(Damage, EveryTruncationIsRefused) {
  const TestFolder folder;
  const std::string whole = golden_bytes(GetParam().name);
  const auto path = folder.write("cut", whole);
  ASSERT_TRUE(GetParam().read(path));
  for (std::size_t size = whole.size() - GetParam().spare; size-- > 0;) {
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(GetParam().read(path)) << size;
  }
}

TEST_P(Damage, EveryChangedByteIsReadOrRefused) {
  const TestFolder folder;
  const std::string whole = golden_bytes(GetParam().name);
  const auto path = folder.write("changed", whole);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, char value) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value).flush();
    ASSERT_TRUE(file);
  };
  const long before = peak_kilobytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7F, 0xFF, int{'9'}}) {
      put(at, static_cast<char>(value));
      EXPECT_NO_THROW(GetParam().read(path)) << at << " " << value;
    }
    put(at, whole[at]);
  }
  EXPECT_TRUE(GetParam().read(path));
  EXPECT_LT(peak_kilobytes() - before, 16 << 10);
}

INSTANTIATE_TEST_SUITE_P(EveryContainer, Damage,
                         testing::Values(Container{"every.gguf", read_gguf_bytes, 48},
                                         Container{"every.safetensors", read_safetensors_bytes, 0}),
                         [](const auto& one) { return std::string(one.param.name).substr(6); });

}  // namespace
}  // namespace pastkv::formats
