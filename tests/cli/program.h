// Runs the built program as a person does, and keeps what it said.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pastkv::cli {

struct Outcome {
  int exit_code = -1;  // 128 + signal when one ended it
  std::string out;
  std::string err;
};

// `input` is its standard input; no stream is a terminal. With `output`, its standard output goes to that file instead.
Outcome pastkv(const std::vector<std::string>& arguments, const std::string& input = {},
               const std::filesystem::path& output = {});

// A folder of its own for each test program, emptied at the first call.
std::filesystem::path scratch();

// A tiny Llama with random weights and a vocabulary of 64, context 64. No tokenizer.
std::filesystem::path bare_model();

// The same with a tokenizer whose ids are letters ("a" is 4) and a chat template, in a folder of the scratch space.
std::filesystem::path chat_model();

}  // namespace pastkv::cli
