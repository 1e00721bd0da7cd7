#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/aligned_buffer.h"
#include "engine/cache.h"
#include "engine/plan.h"

namespace pastkv::engine {
namespace {

// Tokens below which a row block runs on the calling thread alone: waking others costs more.
constexpr std::int64_t kSerialRows = 4;

// cos and sin of position * frequency for every position so far, of the table that holds at one total length.
class RopeCache {
 public:
  void extend(const graph::RopeFrequencies& frequencies, std::int64_t total_length, std::int64_t positions) {
    if (half_ == 0 || frequencies.changes(total_length_, total_length)) {
      table_ = frequencies.at(total_length);
      half_ = static_cast<std::int64_t>(table_.inverse_frequencies.size());
      cosine_.clear();
      sine_.clear();
    }
    total_length_ = total_length;
    if (half_ == 0) return;
    for (auto position = static_cast<std::int64_t>(cosine_.size()) / half_; position < positions; ++position) {
      for (const float frequency : table_.inverse_frequencies) {
        // The angle is rounded to fp32 as the reference rounds it; at position 10^5 that is visible.
        const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
        cosine_.push_back(static_cast<float>(std::cos(angle)) * table_.scale);
        sine_.push_back(static_cast<float>(std::sin(angle)) * table_.scale);
      }
    }
  }
  const float* cosine(std::int64_t position) const { return cosine_.data() + position * half_; }
  const float* sine(std::int64_t position) const { return sine_.data() + position * half_; }

 private:
  graph::RopeTable table_;
  std::int64_t total_length_ = 0;
  std::int64_t half_ = 0;
  std::vector<float> cosine_;  // [positions, half_]
  std::vector<float> sine_;
};

}  // namespace

Engine::Engine(const models::Model& model, EngineOptions options) : plan_(std::make_unique<Plan>(model, options)) {}
Engine::~Engine() = default;

const models::Model& Engine::model() const {
  return plan_->model;
}
const KernelSet& Engine::kernels() const {
  return plan_->kernels;
}
int Engine::threads() const {
  return plan_->pool.threads();
}

struct EngineSession::State {
  State(const Engine::Plan& plan_in, const SessionOptions& options_in)
      : plan(plan_in),
        kernels(plan_in.kernels),
        context(options_in.context),
        chunk(std::min(options_in.chunk, options_in.context)),
        cache(plan_in.states, options_in.cache_type, options_in.context,
              std::min(options_in.chunk, options_in.context)),
        ropes(plan_in.ropes.size()),
        slots(plan_in.slots.size()),
        thread_scratch(static_cast<std::size_t>(plan_in.pool.threads())) {}

  // Whether what the cache holds was computed under other rope tables than hold at `total`.
  bool stale_at(std::int64_t total) const {
    return std::any_of(plan.ropes.begin(), plan.ropes.end(), [&](const graph::RopeAttributes& rope) {
      return rope.frequencies.changes(total_length, total);
    });
  }

  // Every token of a call, chunk by chunk.
  void run_all(std::span<const std::int32_t> all, std::int64_t rows, std::int64_t total);

  // One call of at most `chunk` tokens; the last `logit_rows` of them give logits at `logits_out`.
  void run_chunk(std::span<const std::int32_t> chunk_ids, std::int64_t logit_rows, float* logits_out);

  void reserve(std::int64_t logit_rows);
  void run(const RowBlock& block);
  void run(const LinearGroup& group);
  void run(const Attend& step);
  void run_rows(const RowBlock& block, std::int64_t begin, std::int64_t end);
  void attend(const Attend& step, std::int64_t head, std::int64_t heads, std::int64_t begin, std::int64_t end,
              int thread);

  void run(const EmbeddingOp& op, std::int64_t row);
  void run(const NormOp& op, std::int64_t row);
  void run(const RopeOp& op, std::int64_t row);
  void run(const StoreOp& op, std::int64_t row);
  void run(const ActivationOp& op, std::int64_t row) {
    kernels.activation(op.kind, at(op.x, row), op.x.width, at(op.y, row));
  }
  void run(const GatedOp& op, std::int64_t row) {
    kernels.gated(op.kind, at(op.gate, row), at(op.up, row), op.gate.width, at(op.y, row));
  }
  void run(const SoftcapOp& op, std::int64_t row) { kernels.softcap(at(op.x, row), op.cap, op.x.width, at(op.y, row)); }
  void run(const ScaleOp& op, std::int64_t row) { kernels.scale(at(op.x, row), op.factor, op.x.width, at(op.y, row)); }
  void run(const AddOp& op, std::int64_t row) { kernels.add(at(op.a, row), at(op.b, row), op.a.width, at(op.y, row)); }
  void run(const MultiplyOp& op, std::int64_t row) {
    kernels.multiply(at(op.a, row), at(op.b, row), op.a.width, at(op.y, row));
  }
  void prepare(const PrepareOp& op, Rows rows, std::int64_t begin, std::int64_t end);

  std::int64_t first_row(Rows rows) const { return rows == Rows::all ? 0 : tokens - picked; }

  // Start of an operand's row; `row` counts the tokens of the chunk.
  float* at(const Operand& operand, std::int64_t row) const {
    const Slot& slot = plan.slots[static_cast<std::size_t>(operand.slot)];
    const std::int64_t held = slot.logits_rows ? row - (tokens - picked) : row;
    return pointers[static_cast<std::size_t>(operand.slot)] + held * slot.stride + operand.offset;
  }
  std::int64_t stride(const Operand& operand) const {
    return plan.slots[static_cast<std::size_t>(operand.slot)].stride;
  }
  AlignedBuffer& prepared(Preparation kind) { return prepared_[static_cast<std::size_t>(kind)]; }

  const Engine::Plan& plan;
  const KernelSet& kernels;
  std::int64_t context;
  std::int64_t chunk;
  Cache cache;
  std::vector<RopeCache> ropes;
  std::vector<AlignedBuffer> slots;
  std::vector<float*> pointers;  // of slots, for the chunk that runs
  AlignedBuffer prepared_[2];
  std::vector<AlignedBuffer> thread_scratch;
  std::vector<float> logits;
  std::vector<std::int32_t> history;  // ids of every position in the cache
  std::int64_t total_length = 0;      // past + query of the last call: picks the rope tables

  std::span<const std::int32_t> ids;  // of the chunk that runs
  std::int64_t tokens = 0;
  std::int64_t picked = 0;  // rows of it whose logits are asked for
};

void EngineSession::State::reserve(std::int64_t logit_rows) {
  pointers.resize(slots.size());
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const Slot& slot = plan.slots[index];
    if (static_cast<int>(index) == plan.logits_slot) continue;
    const std::int64_t rows = slot.logits_rows ? logit_rows : tokens;
    slots[index].reserve(static_cast<std::size_t>(rows * slot.stride) * sizeof(float));
    pointers[index] = slots[index].floats();
  }
  for (std::size_t index = 0; index < ropes.size(); ++index) {
    ropes[index].extend(plan.ropes[index].frequencies, total_length, cache.length() + tokens);
  }
}

void EngineSession::State::run_all(std::span<const std::int32_t> all, std::int64_t rows, std::int64_t total) {
  const auto count = static_cast<std::int64_t>(all.size());
  total_length = total;
  logits.resize(static_cast<std::size_t>(rows * plan.vocab));
  std::int64_t made = 0;
  for (std::int64_t begin = 0; begin < count; begin += chunk) {
    const std::int64_t end = std::min(count, begin + chunk);
    const std::int64_t wanted = std::max<std::int64_t>(0, end - std::max(begin, count - rows));
    run_chunk(all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), wanted,
              logits.data() + made * plan.vocab);
    made += wanted;
  }
}

void EngineSession::State::run_chunk(std::span<const std::int32_t> chunk_ids, std::int64_t logit_rows,
                                     float* logits_out) {
  ids = chunk_ids;
  tokens = static_cast<std::int64_t>(ids.size());
  picked = logit_rows;
  reserve(logit_rows);
  pointers[static_cast<std::size_t>(plan.logits_slot)] = logits_out;
  cache.make_room(tokens);
  for (const Step& step : plan.steps) {
    std::visit([this](const auto& one) { run(one); }, step);
  }
  cache.advance(tokens);
  history.insert(history.end(), ids.begin(), ids.end());
}

void EngineSession::State::run(const RowBlock& block) {
  const std::int64_t begin = first_row(block.rows);
  const std::int64_t rows = tokens - begin;
  for (const RowOp& op : block.ops) {
    if (const auto* prepare_op = std::get_if<PrepareOp>(&op)) {
      prepared(prepare_op->kind).reserve(kernels.prepared_bytes(prepare_op->kind, rows, prepare_op->x.width));
    }
  }
  if (rows < kSerialRows) {
    if (rows > 0) run_rows(block, begin, tokens);
    return;
  }
  const std::int64_t pieces = std::min<std::int64_t>(rows, plan.pool.threads() * std::int64_t{4});
  plan.pool.run(pieces, [&](std::int64_t piece, int) {
    run_rows(block, begin + rows * piece / pieces, begin + rows * (piece + 1) / pieces);
  });
}

void EngineSession::State::run_rows(const RowBlock& block, std::int64_t begin, std::int64_t end) {
  for (const RowOp& any : block.ops) {
    std::visit(
        [&](const auto& op) {
          if constexpr (std::is_same_v<std::decay_t<decltype(op)>, PrepareOp>) {
            prepare(op, block.rows, begin, end);
          } else {
            for (std::int64_t row = begin; row < end; ++row) run(op, row);
          }
        },
        any);
  }
}

void EngineSession::State::prepare(const PrepareOp& op, Rows rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = first_row(rows);
  kernels.prepare(op.kind, at(op.x, first), stride(op.x), tokens - first, begin - first, end - first, op.x.width,
                  prepared(op.kind).data());
}

void EngineSession::State::run(const EmbeddingOp& op, std::int64_t row) {
  const std::byte* source = op.table + ids[static_cast<std::size_t>(row)] * op.row_bytes;
  kernels.decode_row(op.type, source, op.y.width, at(op.y, row));
}

void EngineSession::State::run(const NormOp& op, std::int64_t row) {
  const float* x = at(op.x, row);
  float* y = at(op.y, row);
  for (std::int64_t start = 0; start < op.x.width; start += op.group) {
    if (op.centred) {
      kernels.layer_norm(x + start, op.weight, op.bias, op.epsilon, op.group, y + start);
    } else {
      kernels.rms_norm(x + start, op.weight, op.weight_offset, op.epsilon, op.group, y + start);
    }
  }
}

void EngineSession::State::run(const RopeOp& op, std::int64_t row) {
  const graph::RopeAttributes& rope = plan.ropes[static_cast<std::size_t>(op.rope)];
  const RopeCache& table = ropes[static_cast<std::size_t>(op.rope)];
  const std::int64_t position = cache.length() + row;
  const float* x = at(op.x, row);
  float* y = at(op.y, row);
  for (std::int64_t start = 0; start < op.x.width; start += op.head_dim) {
    kernels.rope(x + start, table.cosine(position), table.sine(position), rope.rotary_dim, op.head_dim,
                 rope.interleaved, y + start);
  }
}

void EngineSession::State::run(const StoreOp& op, std::int64_t row) {
  const StateShape& shape = plan.states[static_cast<std::size_t>(op.state)];
  const float* x = at(op.x, row);
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    kernels.encode_cache(cache.type(), x + head * shape.head_dim, shape.head_dim,
                         cache.at(op.state, head, cache.length() + row));
  }
}

void EngineSession::State::run(const LinearGroup& group) {
  const std::int64_t first = first_row(group.rows);
  const std::int64_t columns = tokens - first;
  if (columns <= 0) return;
  std::int64_t rows = 0;
  std::size_t scratch = 0;
  for (const Linear& member : group.members) {
    rows += member.out_rows;
    scratch = std::max(scratch, kernels.linear_scratch_bytes(member.type, member.depth, columns));
  }
  for (AlignedBuffer& buffer : thread_scratch) buffer.reserve(scratch);

  // Pieces of about equal size, a few for each thread, so that a thread that was held up does not hold up all.
  const int threads = plan.pool.threads();
  const std::int64_t multiple = kernels.linear_row_multiple;
  const std::int64_t share = (rows + threads * std::int64_t{4} - 1) / (threads * std::int64_t{4});
  const std::int64_t piece_rows =
      threads == 1 ? rows : std::max(multiple, (share + multiple - 1) / multiple * multiple);
  struct Piece {
    const Linear* member;
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Piece> pieces;
  for (const Linear& member : group.members) {
    for (std::int64_t begin = 0; begin < member.out_rows; begin += piece_rows) {
      pieces.push_back({&member, begin, std::min(member.out_rows, begin + piece_rows)});
    }
  }
  plan.pool.run(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t index, int thread) {
    const Piece& piece = pieces[static_cast<std::size_t>(index)];
    const Linear& member = *piece.member;
    const LinearTask task{.type = member.type,
                          .weights = member.weights,
                          .row_bytes = member.row_bytes,
                          .depth = member.depth,
                          .prepared = prepared(kernels.preparation(member.type)).data(),
                          .columns = columns,
                          .bias = member.bias,
                          .y = at(member.y, first),
                          .y_stride = stride(member.y),
                          .accumulate = member.accumulate};
    kernels.linear(task, piece.begin, piece.end, thread_scratch[static_cast<std::size_t>(thread)].data());
  });
}

void EngineSession::State::run(const Attend& step) {
  const std::int64_t first = first_row(step.rows);
  const std::int64_t rows = tokens - first;
  if (rows <= 0) return;
  const std::int64_t tile = std::min(rows, kernels.attention_row_tile);
  const std::int64_t tiles = (rows + tile - 1) / tile;
  // Heads that share keys run together, which reads the keys once, unless that leaves threads without work.
  const std::int64_t group = step.heads / step.kv_heads;
  const bool grouped = step.kv_heads * tiles >= plan.pool.threads() * std::int64_t{4};
  const std::int64_t heads = grouped ? group : 1;
  const std::int64_t units = step.heads / heads;
  const std::size_t scratch = kernels.attention_scratch_bytes(step.head_dim, tile, heads);
  for (AlignedBuffer& buffer : thread_scratch) buffer.reserve(scratch);
  plan.pool.run(units * tiles, [&](std::int64_t index, int thread) {
    // The last tiles see most keys: they go first, so that the threads end together.
    const std::int64_t head = index % units * heads;
    const std::int64_t begin = first + (tiles - 1 - index / units) * tile;
    attend(step, head, heads, begin, std::min(tokens, begin + tile), thread);
  });
}

void EngineSession::State::attend(const Attend& step, std::int64_t head, std::int64_t heads, std::int64_t begin,
                                  std::int64_t end, int thread) {
  const std::int64_t kv_head = head / (step.heads / step.kv_heads);
  const std::int64_t first = cache.first_position(step.keys);
  const AttentionTask task{.q = at(step.q, begin) + head * step.head_dim,
                           .q_stride = stride(step.q),
                           .q_head_stride = step.head_dim,
                           .out = at(step.y, begin) + head * step.head_dim,
                           .out_stride = stride(step.y),
                           .out_head_stride = step.head_dim,
                           .cache_type = cache.type(),
                           .keys = cache.at(step.keys, kv_head, first),
                           .values = cache.at(step.values, kv_head, first),
                           .position_bytes = cache.position_bytes(step.keys),
                           .first_position = first,
                           .query_position = cache.length() + begin,
                           .rows = end - begin,
                           .heads = heads,
                           .head_dim = step.head_dim,
                           .window = step.attributes.window,
                           .scale = step.attributes.scale,
                           .softcap = step.attributes.softcap};
  kernels.attention(task, thread_scratch[static_cast<std::size_t>(thread)].data());
}

namespace {

SessionOptions checked(const Engine& engine, SessionOptions options) {
  const auto refuse = [](const std::string& place, const std::string& reason, const std::string& remedy) {
    throw Error({.file = {}, .place = place, .reason = reason, .remedy = remedy});
  };
  if (options.context == 0) options.context = engine.model().config.max_positions;
  if (options.context < 1) refuse("context", "is " + std::to_string(options.context), "give at least 1 token");
  if (options.chunk < 1) refuse("prefill chunk", "is " + std::to_string(options.chunk), "give at least 1 token");
  using tensor::DType;
  const DType type = options.cache_type;
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16 && type != DType::q8_0) {
    refuse("cache type", std::string(tensor::name(type)) + " is not supported", "choose f32, f16, bf16 or q8_0");
  }
  return options;
}

}  // namespace

EngineSession::EngineSession(const Engine& engine, SessionOptions options)
    : state_(std::make_unique<State>(engine.plan(), checked(engine, options))) {}
EngineSession::~EngineSession() = default;

std::span<const float> EngineSession::run(std::span<const std::int32_t> ids, std::int64_t rows) {
  State& s = *state_;
  const std::int64_t total = s.cache.length() + std::ssize(ids);
  if (s.cache.length() > 0 && s.stale_at(total)) {
    std::vector<std::int32_t> all = s.history;
    all.insert(all.end(), ids.begin(), ids.end());
    keep(0);
    s.run_all(all, rows, total);
  } else {
    s.run_all(ids, rows, total);
  }
  return s.logits;
}

std::span<const std::int32_t> EngineSession::ids() const {
  return state_->history;
}
std::int64_t EngineSession::context() const {
  return state_->context;
}
std::int64_t EngineSession::vocab() const {
  return state_->plan.vocab;
}
std::uint64_t EngineSession::state_bytes() const {
  return state_->cache.bytes();
}

std::int64_t EngineSession::keep(std::int64_t length) {
  const std::int64_t kept = state_->cache.truncate(length);
  state_->history.resize(static_cast<std::size_t>(kept));
  return kept;
}

}  // namespace pastkv::engine
