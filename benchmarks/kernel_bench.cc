// How fast the kernels are beside what the machine can do: linear layers of the shapes of a small model, each kernel
// set and weight type, for generation (1 column) and prefill. Compare within one run only.
//
//   linear/<set>/<type>/<rows>x<depth>/<columns>   bytes/s of weights read, and multiply-adds/s
//   limit/read, limit/multiply_add                 one thread's memory bandwidth and float arithmetic
//
// Example: kernel_bench --benchmark_filter='limit|avx2/q4_0'
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/kernels/kernel_set.h"
#include "tensor/codec.h"

namespace {

using pastkv::engine::KernelSet;
using pastkv::engine::LinearTask;
using pastkv::tensor::DType;

struct Shape {
  std::int64_t rows, depth;
};

struct Aligned {
  void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<std::byte, Aligned>;

Buffer buffer(std::size_t size) {
  auto* data = static_cast<std::byte*>(::operator new(size + 64, std::align_val_t{64}));
  std::memset(data, 0, size);
  return Buffer(data);
}

constexpr std::size_t kBeyondCaches = std::size_t{96} << 20;

// Weights of ordinary size, in as many copies as no cache holds.
Buffer random_weights(std::size_t bytes) {
  std::mt19937 random(1);
  Buffer result = buffer(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result.get()[i] = static_cast<std::byte>(random() & 0x37U);
  return result;
}

void run_linear(benchmark::State& state, const KernelSet& set, DType type, Shape shape, std::int64_t columns) {
  const auto row_bytes =
      static_cast<std::int64_t>(pastkv::tensor::byte_size(type, static_cast<std::uint64_t>(shape.depth)).value());
  const auto matrix_bytes = static_cast<std::size_t>(shape.rows * row_bytes);
  const std::size_t copies = columns == 1 ? kBeyondCaches / matrix_bytes + 1 : 1;
  const Buffer weights = random_weights(matrix_bytes * copies);
  std::vector<float> x(static_cast<std::size_t>(columns * shape.depth), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(columns * shape.rows));
  const auto preparation = set.preparation(type);
  const Buffer prepared = buffer(set.prepared_bytes(preparation, columns, shape.depth));
  const Buffer scratch = buffer(set.linear_scratch_bytes(type, shape.depth, columns));
  set.prepare(preparation, x.data(), shape.depth, columns, 0, columns, shape.depth, prepared.get());
  LinearTask task = {.type = type,
                     .weights = weights.get(),
                     .row_bytes = row_bytes,
                     .depth = shape.depth,
                     .prepared = prepared.get(),
                     .columns = columns,
                     .bias = nullptr,
                     .y = y.data(),
                     .y_stride = shape.rows,
                     .accumulate = false};
  std::size_t copy = 0;
  for (auto _ : state) {
    task.weights = weights.get() + copy * matrix_bytes;
    copy = (copy + 1) % copies;
    set.linear(task, 0, shape.rows, scratch.get());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(matrix_bytes) * state.iterations());
  state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(shape.rows * shape.depth * columns),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void run_read(benchmark::State& state) {
  const Buffer data = buffer(kBeyondCaches);
  const auto* words = reinterpret_cast<const std::uint64_t*>(data.get());
  for (auto _ : state) {
    std::uint64_t sums[8] = {};
    for (std::size_t i = 0; i < kBeyondCaches / 8; i += 8) {
      for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kBeyondCaches) * state.iterations());
}

#if defined(__x86_64__)
using Floats = float __attribute__((vector_size(32)));

// Ten independent chains of fused multiply-adds keep two units with a latency of four or five cycles busy.
__attribute__((target("avx2,fma"))) void run_multiply_add(benchmark::State& state) {
  constexpr int kRounds = 4096;
  const Floats factor = Floats{} + 0.999F, term = Floats{} + 0.001F;
  Floats a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      asm volatile(
          "vfmadd213ps %11, %10, %0\n vfmadd213ps %11, %10, %1\n vfmadd213ps %11, %10, %2\n"
          "vfmadd213ps %11, %10, %3\n vfmadd213ps %11, %10, %4\n vfmadd213ps %11, %10, %5\n"
          "vfmadd213ps %11, %10, %6\n vfmadd213ps %11, %10, %7\n vfmadd213ps %11, %10, %8\n"
          "vfmadd213ps %11, %10, %9"
          : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j)
          : "x"(factor), "x"(term));
    }
  }
  state.counters["MAC/s"] = benchmark::Counter(10 * kRounds * 8.0, benchmark::Counter::kIsIterationInvariantRate);
}
#endif

void register_all() {
  const std::vector<Shape> shapes = {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
  const std::vector<DType> types = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,   DType::q4_0,
                                    DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl, DType::q2_k,
                                    DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k};
  benchmark::RegisterBenchmark("limit/read", run_read);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) benchmark::RegisterBenchmark("limit/multiply_add", run_multiply_add);
#endif
  for (const KernelSet* set : pastkv::engine::kernel_sets()) {
    if (!set->available()) continue;
    for (const DType type : types) {
      for (Shape shape : shapes) {
        const std::int64_t block = pastkv::tensor::traits(type).block_elements;
        shape.depth = shape.depth / block * block;
        for (const std::int64_t columns : {1, 128, 512}) {
          if (shape.rows > 10000 && columns > 1) continue;  // a head sees one row of a prompt
          const std::string name = "linear/" + std::string(set->name) + "/" + std::string(pastkv::tensor::name(type)) +
                                   "/" + std::to_string(shape.rows) + "x" + std::to_string(shape.depth) + "/" +
                                   std::to_string(columns);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& state) { run_linear(state, *set, type, shape, columns); });
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
