// Sizes of a graph, symbolic until a variant binds them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pastkv::graph {

enum class Symbol : std::uint8_t {
  batch,    // sequences side by side
  query,    // tokens of this call
  past,     // tokens already in the cache
  rows,     // query positions whose logits are asked for, counted from the last
  context,  // capacity of the cache, in tokens
};
inline constexpr std::array kAllSymbols = {Symbol::batch, Symbol::query, Symbol::past, Symbol::rows, Symbol::context};
inline constexpr std::size_t kSymbols = kAllSymbols.size();

// The numbers a variant gives to the symbols.
struct Sizes {
  std::int64_t batch = 1;
  std::int64_t query = 1;
  std::int64_t past = 0;
  std::int64_t rows = 1;
  std::int64_t context = 0;

  std::int64_t at(Symbol symbol) const;
};

// A linear form over the symbols: constant + sum of coefficient * symbol. `past + query` is one; a plain number too.
// Arithmetic that leaves 64 bits throws std::overflow_error.
class Dim {
 public:
  constexpr Dim(std::int64_t constant) : constant_(constant) {}  // NOLINT(google-explicit-constructor)
  constexpr Dim(Symbol symbol) { coefficients_[static_cast<std::size_t>(symbol)] = 1; }  // NOLINT

  friend Dim operator+(Dim a, const Dim& b);
  friend Dim operator-(Dim a, const Dim& b);
  friend Dim operator*(Dim a, std::int64_t factor);
  friend bool operator==(const Dim&, const Dim&) = default;

  bool is_constant() const;
  std::int64_t constant() const { return constant_; }
  std::int64_t coefficient(Symbol symbol) const { return coefficients_[static_cast<std::size_t>(symbol)]; }
  std::int64_t at(const Sizes& sizes) const;
  std::string text() const;  // "past + query", "576"

 private:
  std::int64_t constant_ = 0;
  std::array<std::int64_t, kSymbols> coefficients_{};
};

// The largest number that divides the form; 0 for 0.
std::int64_t content(const Dim& dim);

using Shape = std::vector<Dim>;

std::string text(const Shape& shape);  // "[batch, query, 576]"

// True when both have the same number of elements whatever the sizes are: a reshape between them is always possible.
bool same_elements(const Shape& a, const Shape& b);

}  // namespace pastkv::graph
