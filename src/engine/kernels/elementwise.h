// Norms, activations, rope and the encoding of cache rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/block_formats.h"
#include "engine/kernels/functions.h"
#include "engine/kernels/simd.h"

namespace pastkv::engine::PASTKV_KERNELS {

// Sum of f(x[i]), in kLanes sums.
template <typename Function>
inline float sum_of(const float* x, std::int64_t n, Function f) {
  F total = set1(0.0F);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) total = add(total, f(load(x + i)));
  if (i < n) {  // f of the padding must not count
    float padded[kLanes] = {};
    store_some(padded, f(load_some(x + i, static_cast<int>(n - i))), static_cast<int>(n - i));
    total = add(total, load(padded));
  }
  return sum(total);
}

inline void rms_norm(const float* x, const float* weight, float weight_offset, float epsilon, std::int64_t n,
                     float* y) {
  const float squares = sum_of(x, n, [](F v) { return mul(v, v); });
  const F factor = set1(1.0F / __builtin_sqrtf(squares / static_cast<float>(n) + epsilon));
  for_lanes(n, [&](std::int64_t i, int count) {
    const F w = add(load_some(weight + i, count), set1(weight_offset));
    store_some(y + i, mul(mul(load_some(x + i, count), factor), w), count);
  });
}

inline void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, std::int64_t n,
                       float* y) {
  const float mean = sum_of(x, n, [](F v) { return v; }) / static_cast<float>(n);
  const float squares = sum_of(x, n, [&](F v) {
    const F centred = sub(v, set1(mean));
    return mul(centred, centred);
  });
  const F factor = set1(1.0F / __builtin_sqrtf(squares / static_cast<float>(n) + epsilon));
  for_lanes(n, [&](std::int64_t i, int count) {
    F value = mul(sub(load_some(x + i, count), set1(mean)), factor);
    if (weight != nullptr) value = mul(value, load_some(weight + i, count));
    if (bias != nullptr) value = add(value, load_some(bias + i, count));
    store_some(y + i, value, count);
  });
}

template <typename Body>
inline void with_activation(graph::Activation kind, Body body) {
  switch (kind) {
    case graph::Activation::silu:
      return body(Silu{});
    case graph::Activation::gelu_tanh:
      return body(GeluTanh{});
    case graph::Activation::gelu_erf:
      return body(GeluErf{});
    case graph::Activation::relu:
      return body(Relu{});
  }
}

inline void activation(graph::Activation kind, const float* x, std::int64_t n, float* y) {
  with_activation(kind, [&](auto function) {
    for_lanes(n, [&](std::int64_t i, int count) { store_some(y + i, function.apply(load_some(x + i, count)), count); });
  });
}

inline void gated(graph::Activation kind, const float* gate, const float* up, std::int64_t n, float* y) {
  with_activation(kind, [&](auto function) {
    for_lanes(n, [&](std::int64_t i, int count) {
      store_some(y + i, mul(function.apply(load_some(gate + i, count)), load_some(up + i, count)), count);
    });
  });
}

inline void add_rows(const float* a, const float* b, std::int64_t n, float* y) {
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(y + i, add(load_some(a + i, count), load_some(b + i, count)), count);
  });
}

inline void multiply_rows(const float* a, const float* b, std::int64_t n, float* y) {
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(y + i, mul(load_some(a + i, count), load_some(b + i, count)), count);
  });
}

inline void scale_row(const float* x, float factor, std::int64_t n, float* y) {
  for_lanes(n,
            [&](std::int64_t i, int count) { store_some(y + i, mul(load_some(x + i, count), set1(factor)), count); });
}

inline F capped(F x, float cap) {
  return mul(hyperbolic_tangent(mul(x, set1(1.0F / cap))), set1(cap));
}

inline void softcap_row(const float* x, float cap, std::int64_t n, float* y) {
  for_lanes(n, [&](std::int64_t i, int count) { store_some(y + i, capped(load_some(x + i, count), cap), count); });
}

inline void rope(const float* x, const float* cosine, const float* sine, std::int64_t rotary_dim, std::int64_t head_dim,
                 bool interleaved, float* y) {
  const std::int64_t half = rotary_dim / 2;
  if (interleaved) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * cosine[i] - b * sine[i];
      y[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
  } else {
    for_lanes(half, [&](std::int64_t i, int count) {
      const F a = load_some(x + i, count), b = load_some(x + half + i, count);
      const F c = load_some(cosine + i, count), s = load_some(sine + i, count);
      store_some(y + i, subtract_product(b, s, mul(a, c)), count);
      store_some(y + half + i, fma(a, s, mul(b, c)), count);
    });
  }
  if (x != y) {
    const std::int64_t rest = head_dim - 2 * half;
    __builtin_memmove(y + 2 * half, x + 2 * half, static_cast<std::size_t>(rest) * sizeof(float));
  }
}

inline void encode_q8_block(const float* x, std::uint8_t* out) {
  F largest = absolute(load(x));
  for (int i = kLanes; i < 32; i += kLanes) largest = max_magnitude(largest, load(x + i));
  const float scale = maximum(largest) / 127.0F;
  std::uint8_t half[2 * kLanes];
  store_f16(half, set1(scale));
  __builtin_memcpy(out, half, 2);
  quantize32(x, scale < 0x1p-110F ? 0.0F : 1.0F / scale, out + 2);
}

// n is a multiple of 32 for q8_0.
inline void encode_cache(tensor::DType type, const float* x, std::int64_t n, std::byte* out_bytes) {
  auto* out = reinterpret_cast<std::uint8_t*>(out_bytes);
  if (type == tensor::DType::f32) {
    __builtin_memcpy(out, x, static_cast<std::size_t>(n) * sizeof(float));
  } else if (type == tensor::DType::q8_0) {
    for (std::int64_t i = 0; i < n; i += 32, out += Q8_0::kBytes) encode_q8_block(x + i, out);
  } else {
    for_lanes(n, [&](std::int64_t i, int count) {
      std::uint8_t halves[2 * kLanes];
      const F value = load_some(x + i, count);
      type == tensor::DType::f16 ? store_f16(halves, value) : store_bf16(halves, value);
      __builtin_memcpy(out + 2 * i, halves, static_cast<std::size_t>(count) * 2);
    });
  }
}

}  // namespace pastkv::engine::PASTKV_KERNELS
