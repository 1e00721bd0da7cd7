// Files that the reference writers of each container made, and what they hold (tests/tools/make_container_golden.py).
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "files.h"
#include "formats/tensor_source.h"

namespace pastkv::formats {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(PASTKV_TEST_DATA) / "formats" / name;
}

inline std::string golden_bytes(const std::string& name) {
  std::ifstream file(golden(name), std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every tensor listed is there with its type, shape and bytes, and no other.
inline void expect_listed(const TensorSource& source, const std::string& listing) {
  const auto expected = nlohmann::json::parse(golden_bytes(listing));
  EXPECT_EQ(source.tensors().size(), expected.size());
  for (const auto& [name, wanted] : expected.items()) {
    const TensorEntry* entry = source.find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(tensor::name(entry->dtype), wanted["dtype"].get<std::string>()) << name;
    EXPECT_EQ(entry->shape, wanted["shape"].get<std::vector<std::int64_t>>()) << name;
    const std::string bytes = from_hex(wanted["hex"].get<std::string>());
    ASSERT_EQ(entry->bytes.size(), bytes.size()) << name;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), reinterpret_cast<const char*>(entry->bytes.data()))) << name;
  }
}

}  // namespace pastkv::formats
