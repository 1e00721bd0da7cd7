// Files for tests: built in memory, written to a folder that the test owns, and read for what they are refused with.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace pastkv::formats {

// An empty folder, removed with all that is in it.
class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "pastkv_formats_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// What the Error says that `read` throws; empty, and a failure of the test, when it throws none.
template <typename Read>
std::string refusal(Read read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_FALSE(error.info().file.empty()) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "was not refused";
  return {};
}

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// Little-endian, as both containers are.
template <typename Number>
std::string raw(Number value) {
  std::string bytes(sizeof value, '\0');
  std::copy_n(reinterpret_cast<const char*>(&value), sizeof value, bytes.data());
  return bytes;
}

// A safetensors file of a header and its data.
inline std::string safetensors(std::string_view header, std::string_view data) {
  return raw<std::uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// A GGUF file, part by part; counts are those of what was added unless set.
struct GgufBytes {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t tensor_count = 0;
  std::uint64_t pair_count = 0;
  std::string pairs;
  std::string infos;
  std::string data;
  std::uint64_t alignment = 32;

  static std::string text(std::string_view value) { return raw<std::uint64_t>(value.size()) + std::string(value); }

  GgufBytes& pair(std::string_view key, std::uint32_t type, std::string_view value) {
    ++pair_count;
    pairs += text(key) + raw(type) + std::string(value);
    return *this;
  }
  GgufBytes& array(std::string_view key, std::uint32_t type, std::uint64_t count, std::string_view elements) {
    return pair(key, 9, raw(type) + raw(count) + std::string(elements));
  }
  // At the next free offset.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                    std::string_view bytes) {
    return tensor_at(name, dims, type, data.size(), bytes);
  }
  GgufBytes& tensor_at(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                       std::uint64_t offset, std::string_view bytes) {
    ++tensor_count;
    infos += text(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) infos += raw(dim);
    infos += raw(type) + raw(offset);
    data += bytes;
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    return *this;
  }

  std::string bytes() const {
    std::string file = magic + raw(version) + raw(tensor_count) + raw(pair_count) + pairs + infos;
    if (!data.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }
};

}  // namespace pastkv::formats
