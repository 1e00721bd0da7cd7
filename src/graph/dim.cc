#include "graph/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace pastkv::graph {
namespace {

// The order in which people write them: "past + query", "query - rows".
constexpr std::array<std::pair<Symbol, std::string_view>, kSymbols> kWritten = {{{Symbol::batch, "batch"},
                                                                                 {Symbol::past, "past"},
                                                                                 {Symbol::query, "query"},
                                                                                 {Symbol::rows, "rows"},
                                                                                 {Symbol::context, "context"}}};

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw std::overflow_error("a size does not fit 64 bits");
  return result;
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw std::overflow_error("a size does not fit 64 bits");
  return result;
}

// Appends one signed term: the first bare, the others joined by " + " or " - ".
void append(std::string& out, std::int64_t coefficient, std::string_view symbol) {
  if (coefficient == 0) return;
  if (!out.empty()) {
    out += coefficient < 0 ? " - " : " + ";
  } else if (coefficient < 0) {
    out += "-";
  }
  const auto magnitude =
      coefficient < 0 ? 0 - static_cast<std::uint64_t>(coefficient) : static_cast<std::uint64_t>(coefficient);
  if (symbol.empty()) {
    out += fmt::format("{}", magnitude);
  } else if (magnitude == 1) {
    out += symbol;
  } else {
    out += fmt::format("{}*{}", magnitude, symbol);
  }
}

// A size as its coefficients, the constant last.
using Form = std::array<std::int64_t, kSymbols + 1>;

// Splits a size into its greatest common factor and the form that is left: 3*query -> 3 and query.
std::pair<std::int64_t, Form> factor(const Dim& dim) {
  Form form{};
  for (const Symbol symbol : kAllSymbols) form[static_cast<std::size_t>(symbol)] = dim.coefficient(symbol);
  form[kSymbols] = dim.constant();
  std::int64_t common = 0;
  for (const std::int64_t term : form) common = std::gcd(common, term);
  if (common != 0) {
    for (std::int64_t& term : form) term /= common;
  }
  return {common, form};
}

}  // namespace

std::int64_t Sizes::at(Symbol symbol) const {
  switch (symbol) {
    case Symbol::batch:
      return batch;
    case Symbol::query:
      return query;
    case Symbol::past:
      return past;
    case Symbol::rows:
      return rows;
    case Symbol::context:
      return context;
  }
  __builtin_unreachable();
}

Dim operator+(Dim a, const Dim& b) {
  a.constant_ = sum(a.constant_, b.constant_);
  for (std::size_t i = 0; i < kSymbols; ++i) a.coefficients_[i] = sum(a.coefficients_[i], b.coefficients_[i]);
  return a;
}

Dim operator-(Dim a, const Dim& b) {
  return std::move(a) + b * -1;
}

Dim operator*(Dim a, std::int64_t factor) {
  a.constant_ = product(a.constant_, factor);
  for (std::int64_t& coefficient : a.coefficients_) coefficient = product(coefficient, factor);
  return a;
}

bool Dim::is_constant() const {
  return std::ranges::all_of(coefficients_, [](std::int64_t coefficient) { return coefficient == 0; });
}

std::int64_t Dim::at(const Sizes& sizes) const {
  std::int64_t value = constant_;
  for (const Symbol symbol : kAllSymbols) value = sum(value, product(coefficient(symbol), sizes.at(symbol)));
  return value;
}

std::string Dim::text() const {
  std::string out;
  for (const auto& [symbol, written] : kWritten) append(out, coefficient(symbol), written);
  append(out, constant_, "");
  return out.empty() ? "0" : out;
}

std::int64_t content(const Dim& dim) {
  std::int64_t common = dim.constant();
  for (const Symbol symbol : kAllSymbols) common = std::gcd(common, dim.coefficient(symbol));
  return common;
}

std::string text(const Shape& shape) {
  std::string out;
  for (const Dim& dim : shape) out += (out.empty() ? "" : ", ") + dim.text();
  return "[" + out + "]";
}

// A linear form without a common factor is a prime of the polynomials with whole coefficients, so two products of
// sizes are the same polynomial exactly when their common factors multiply to the same number and the forms that are
// left are the same, in some order.
bool same_elements(const Shape& a, const Shape& b) {
  const auto factored = [](const Shape& shape) {
    std::pair<std::int64_t, std::vector<Form>> out{1, {}};
    for (const Dim& dim : shape) {
      auto [common, form] = factor(dim);
      out.first = product(out.first, common);
      if (!dim.is_constant()) out.second.push_back(form);
    }
    std::ranges::sort(out.second);
    return out;
  };
  return factored(a) == factored(b);
}

}  // namespace pastkv::graph
