#include "fake_session.h"

#include <algorithm>

namespace pastkv::engine {

FakeModel& fake_model() {
  static FakeModel model;
  return model;
}

struct Engine::Plan {};
Engine::Engine(const models::Model&, EngineOptions) {}
Engine::~Engine() = default;

struct Session::State {
  std::int64_t context;
  std::vector<float> logits;
};

Session::Session(const Engine&, SessionOptions options) : state_(new State{options.context, {}}) {}
Session::~Session() = default;

std::span<const float> Session::forward(std::span<const std::int32_t> ids, std::int64_t) {
  FakeModel& model = fake_model();
  model.calls.emplace_back(ids.begin(), ids.end());
  model.held.insert(model.held.end(), ids.begin(), ids.end());
  state_->logits = model.logits(model.held);
  return state_->logits;
}

std::int64_t Session::past_length() const {
  return std::ssize(fake_model().held);
}
std::span<const std::int32_t> Session::ids() const {
  return fake_model().held;
}
std::int64_t Session::context() const {
  return state_->context;
}
std::int64_t Session::vocab() const {
  return fake_model().vocab;
}

std::int64_t Session::truncate(std::int64_t length) {
  FakeModel& model = fake_model();
  const std::int64_t kept = std::min(model.most_kept(length), std::ssize(model.held));
  model.held.resize(static_cast<std::size_t>(kept));
  return kept;
}

}  // namespace pastkv::engine
