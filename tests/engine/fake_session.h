// A Session whose logits the test decides, to test what the generation loop does with a model. It takes the place of
// the engine at link time: link nothing of engine/executor.cc beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/executor.h"

namespace pastkv::engine {

struct FakeModel {
  std::int64_t vocab = 8;
  std::function<std::vector<float>(const std::vector<std::int32_t>& held)> logits;  // after these ids
  std::function<std::int64_t(std::int64_t length)> most_kept = [](std::int64_t length) { return length; };
  std::vector<std::vector<std::int32_t>> calls;  // ids of each forward
  std::vector<std::int32_t> held;
};

FakeModel& fake_model();  // the one that every Session here is a session of

}  // namespace pastkv::engine
