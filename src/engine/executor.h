// The fast CPU engine: a graph compiled to a plan of fused steps, run on weights as they lie in the mapped file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/kernels/kernel_set.h"
#include "engine/session.h"
#include "models/model.h"

namespace pastkv::engine {

struct EngineOptions {
  int threads = 0;                     // 0: physical cores allowed to the process
  const KernelSet* kernels = nullptr;  // null: the best available
};

// A compiled model: immutable, shared by its sessions. The model must outlive it.
class Engine {
 public:
  Engine(const models::Model& model, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const models::Model& model() const;
  const KernelSet& kernels() const;
  int threads() const;

  struct Plan;
  const Plan& plan() const { return *plan_; }

 private:
  std::unique_ptr<Plan> plan_;
};

struct SessionOptions {
  std::int64_t context = 0;                       // tokens; 0: what the model was trained for
  tensor::DType cache_type = tensor::DType::f16;  // f32, f16, bf16, q8_0
  std::int64_t chunk = 512;                       // most tokens of a prefill computed at once
};

// A session of the engine. Those of one engine may exist side by side; one runs at a time.
class EngineSession final : public Session {
 public:
  // Throws Error when the states do not fit memory, or head_dim does not fit the cache type.
  EngineSession(const Engine& engine, SessionOptions options);
  ~EngineSession() override;

  std::span<const std::int32_t> ids() const override;
  std::int64_t context() const override;
  std::int64_t vocab() const override;
  std::uint64_t state_bytes() const override;

 private:
  std::span<const float> run(std::span<const std::int32_t> ids, std::int64_t rows) override;
  std::int64_t keep(std::int64_t length) override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pastkv::engine
