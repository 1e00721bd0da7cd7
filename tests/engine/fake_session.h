// A session whose logits the test decides, to test what the generation loop does with a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/session.h"

namespace pastkv::engine {

struct FakeModel {
  std::int64_t vocab = 8;
  std::function<std::vector<float>(const std::vector<std::int32_t>& held)> logits;  // after these ids
  std::function<std::int64_t(std::int64_t length)> most_kept = [](std::int64_t length) { return length; };
  std::vector<std::vector<std::int32_t>> calls;  // ids of each forward
  std::vector<std::int32_t> held;
};

class FakeSession final : public Session {
 public:
  FakeSession(FakeModel& model, std::int64_t context) : model_(model), context_(context) {}

  std::span<const std::int32_t> ids() const override { return model_.held; }
  std::int64_t context() const override { return context_; }
  std::int64_t vocab() const override { return model_.vocab; }
  std::uint64_t state_bytes() const override { return 0; }

 private:
  std::span<const float> run(std::span<const std::int32_t> ids, std::int64_t) override {
    model_.calls.emplace_back(ids.begin(), ids.end());
    model_.held.insert(model_.held.end(), ids.begin(), ids.end());
    logits_ = model_.logits(model_.held);
    return logits_;
  }

  std::int64_t keep(std::int64_t length) override {
    const std::int64_t kept = std::min(model_.most_kept(length), std::ssize(model_.held));
    model_.held.resize(static_cast<std::size_t>(kept));
    return kept;
  }

  FakeModel& model_;
  std::int64_t context_;
  std::vector<float> logits_;
};

}  // namespace pastkv::engine
