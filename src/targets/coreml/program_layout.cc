// Operations that move numbers, and those on states.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "targets/coreml/program_reader.h"

namespace pastkv::targets::coreml {

using graph::Dim;
using graph::Op;
using graph::Shape;
using graph::Symbol;
using graph::ValueId;
using tensor::DType;

namespace {

// A size as a number times a form that no number divides: 3 * query + 3 * past is 3 times query + past.
std::pair<std::int64_t, Dim> factored(const Dim& dim) {
  if (dim.is_constant()) return {dim.constant(), Dim(1)};
  const std::int64_t common = graph::content(dim);
  Dim form(dim.constant() / common);
  for (const Symbol symbol : graph::kAllSymbols) form = form + Dim(symbol) * (dim.coefficient(symbol) / common);
  return {common, form};
}

// What is left of the elements of `whole` when those of `parts` are taken out; nothing when it is no size.
std::optional<Dim> rest(const Shape& whole, const Shape& parts) {
  std::int64_t number = 1;
  std::vector<Dim> forms;
  for (const Dim& dim : whole) {
    const auto [content, form] = factored(dim);
    if (__builtin_mul_overflow(number, content, &number)) return std::nullopt;
    if (form != Dim(1)) forms.push_back(form);
  }
  for (const Dim& dim : parts) {
    const auto [content, form] = factored(dim);
    if (content == 0 || number % content != 0) return std::nullopt;
    number /= content;
    if (form == Dim(1)) continue;
    const auto found = std::ranges::find(forms, form);
    if (found == forms.end()) return std::nullopt;
    forms.erase(found);
  }
  if (forms.size() > 1) return std::nullopt;
  return (forms.empty() ? Dim(1) : forms.front()) * number;
}

}  // namespace

// --- shapes ---

void ProgramReader::read_shape(const proto::Operation& op) {
  Item x = item(op, "x");
  set_sizes(op, shape(tensor(x)));
}

void ProgramReader::read_reshape(const proto::Operation& op) {
  Item x = item(op, "x");
  const std::vector<Dim> wanted = sizes(op, "shape");
  if (x.sizes && x.value < 0 && wanted.size() <= 1) {  // still a list of known integers, or one of them
    Item made{.name = op.outputs(0).name(), .dtype = x.dtype, .shape = {}, .value = -1, .sizes = x.sizes};
    if (!wanted.empty()) made.shape = {static_cast<std::int64_t>(x.sizes->size())};
    items_.emplace(made.name, std::move(made));
    return;
  }
  const ValueId value = tensor(x);
  Shape known;
  int open = -1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == Dim(-1)) {
      if (open >= 0) fail_text("reshape to two sizes of -1");
      open = static_cast<int>(i);
    } else {
      known.push_back(wanted[i] == Dim(0) && i < shape(value).size() ? shape(value)[i] : wanted[i]);
    }
  }
  if (open >= 0) {
    const std::optional<Dim> left = rest(shape(value), known);
    if (!left) fail_text(fmt::format("reshape of {} leaves no size for -1", graph::text(shape(value))));
    known.insert(known.begin() + open, *left);
  }
  set(op, reshape(value, known));
}

void ProgramReader::read_expand_dims(const proto::Operation& op) {
  Item x = item(op, "x");
  std::vector<std::int64_t> axes = integers(op, "axes");
  if (x.sizes && x.value < 0 && x.sizes->size() == 1 && axes.size() == 1) {  // a known integer as a list of one
    Item made{.name = op.outputs(0).name(), .dtype = x.dtype, .shape = {1}, .value = -1, .sizes = x.sizes};
    items_.emplace(made.name, std::move(made));
    return;
  }
  const ValueId value = tensor(x);
  const std::size_t rank = shape(value).size() + axes.size();
  std::vector<bool> is_new(rank, false);
  for (const std::int64_t axis : axes) is_new[static_cast<std::size_t>(axis_of(axis, rank))] = true;
  if (std::ranges::count(is_new, true) != static_cast<std::ptrdiff_t>(axes.size())) fail_text("names an axis twice");
  Shape out;
  std::size_t next = 0;
  for (const bool one : is_new) out.push_back(one ? Dim(1) : shape(value)[next++]);
  set(op, reshape(value, out));
}

void ProgramReader::read_squeeze(const proto::Operation& op) {
  Item x = item(op, "x");
  if (x.sizes && x.value < 0 && x.sizes->size() == 1) return set_sizes(op, *x.sizes);
  const ValueId value = tensor(x);
  const Shape& from = shape(value);
  std::vector<bool> goes(from.size(), false);
  if (has(op, "axes")) {
    for (const std::int64_t axis : integers(op, "axes"))
      goes[static_cast<std::size_t>(axis_of(axis, from.size()))] = true;
  } else {
    for (std::size_t i = 0; i < from.size(); ++i) goes[i] = from[i] == Dim(1);
  }
  Shape out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!goes[i]) out.push_back(from[i]);
  }
  set(op, reshape(value, out));
}

void ProgramReader::read_transpose(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  std::vector<int> axes;
  for (const std::int64_t axis : integers(op, "perm")) axes.push_back(axis_of(axis, shape(x).size()));
  set(op, transpose(x, std::move(axes)));
}

void ProgramReader::read_tile(const proto::Operation& op) {
  constexpr std::int64_t kMost = 1024;
  ValueId x = tensor(op, "x");
  const std::vector<std::int64_t> times = integers(op, "reps");
  if (times.size() != shape(x).size()) fail_text("tile has no number for each axis");
  for (std::size_t axis = 0; axis < times.size(); ++axis) {
    if (times[axis] < 1 || times[axis] > kMost) fail_text(fmt::format("tile {} times", times[axis]));
    if (times[axis] == 1) continue;
    const std::vector<ValueId> copies(static_cast<std::size_t>(times[axis]), x);
    x = emit(Op::concat, copies, graph::AxisAttributes{.axis = static_cast<int>(axis)});
  }
  set(op, x);
}

void ProgramReader::read_range(const proto::Operation& op) {
  const std::vector<Dim> begin = sizes(op, "start");
  const std::vector<Dim> end = sizes(op, "end");
  if (integer(op, "step", 1) != 1 || begin.size() != 1 || end.size() != 1)
    fail_text("range_1d is read with a step of 1");
  const ValueId all = emit(Op::range, {}, graph::ShapeAttributes{.shape = {end[0]}});
  set(op, begin[0] == Dim(0) ? all : slice(all, 0, begin[0], end[0]));
}

// --- parts ---

void ProgramReader::read_gather(const proto::Operation& op) {
  Item x = item(op, "x");
  Item indices = item(op, "indices");
  if (integer(op, "batch_dims", 0) != 0) fail_text("gather with batch_dims is not read");
  if (x.sizes && indices.sizes) {
    std::vector<Dim> chosen;
    for (const Dim& index : *indices.sizes) {
      const std::int64_t i = index.is_constant() ? index.constant() : std::int64_t{-1} << 40;
      const auto count = static_cast<std::int64_t>(x.sizes->size());
      if (i < -count || i >= count) fail_text(fmt::format("gather of element {} of {}", index.text(), count));
      chosen.push_back((*x.sizes)[static_cast<std::size_t>(i < 0 ? i + count : i)]);
    }
    Item made{.name = op.outputs(0).name(), .dtype = x.dtype, .shape = indices.shape};
    made.sizes = std::move(chosen);
    items_.emplace(made.name, std::move(made));
    return;
  }
  const ValueId table = tensor(x);
  const std::size_t rank = shape(table).size();
  const int axis = axis_of(integer(op, "axis", 0), rank);
  const ValueId at = tensor(indices);
  if (axis == 0) return set(op, emit(Op::gather, {table, at}));
  // The axis to the front, and what was found there back: [indices, others...] to [others before, indices, others
  // after].
  std::vector<int> forward{axis};
  for (int i = 0; i < static_cast<int>(rank); ++i) {
    if (i != axis) forward.push_back(i);
  }
  const int found = static_cast<int>(shape(at).size());
  std::vector<int> back;
  for (int i = 0; i < axis; ++i) back.push_back(found + i);
  for (int i = 0; i < found; ++i) back.push_back(i);
  for (int i = axis; i < static_cast<int>(rank) - 1; ++i) back.push_back(found + i);
  set(op, transpose(emit(Op::gather, {transpose(table, forward), at}), back));
}

void ProgramReader::read_slice_by_index(const proto::Operation& op) {
  Item x = item(op, "x");
  std::vector<Dim> begin = sizes(op, "begin");
  std::vector<Dim> end = sizes(op, "end");
  const bool of_sizes = x.sizes && x.value < 0;
  const Shape from = of_sizes ? Shape{static_cast<std::int64_t>(x.sizes->size())} : shape(tensor(x));
  const std::size_t rank = from.size();
  if (begin.size() != rank || end.size() != rank) fail_text("slice_by_index has no bounds for each axis");
  if (has(op, "stride")) {
    for (const std::int64_t stride : integers(op, "stride")) {
      if (stride != 1) fail_text(fmt::format("slice_by_index with a stride of {} is not read", stride));
    }
  }
  const std::vector<bool> from_start = flags(op, "begin_mask", rank);
  const std::vector<bool> to_end = flags(op, "end_mask", rank);
  const std::vector<bool> squeezed = flags(op, "squeeze_mask", rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto counted = [&](const Dim& at) { return at.is_constant() && at.constant() < 0 ? from[i] + at : at; };
    begin[i] = from_start[i] ? Dim(0) : counted(begin[i]);
    if (squeezed[i]) {
      end[i] = begin[i] + 1;
    } else {
      end[i] = to_end[i] ? from[i] : counted(end[i]);
    }
    // A bound beyond the end means the end.
    if (end[i].is_constant() && from[i].is_constant() && end[i].constant() > from[i].constant()) end[i] = from[i];
  }
  if (of_sizes) {
    if (!begin[0].is_constant() || !end[0].is_constant()) fail_text("slice of sizes by sizes of run time");
    const std::int64_t first = begin[0].constant();
    const std::int64_t last = end[0].constant();
    if (first < 0 || first > last || last > static_cast<std::int64_t>(x.sizes->size()))
      fail_text("slice beyond its end");
    Item made{.name = op.outputs(0).name(), .dtype = x.dtype};
    made.sizes.emplace(x.sizes->begin() + first, x.sizes->begin() + last);
    if (!squeezed[0]) made.shape = {last - first};
    items_.emplace(made.name, std::move(made));
    return;
  }
  read_slice(op, std::move(x), begin, end, squeezed);
}

void ProgramReader::read_slice_by_size(const proto::Operation& op) {
  Item x = item(op, "x");
  const std::vector<Dim> begin = sizes(op, "begin");
  std::vector<Dim> end = sizes(op, "size");
  const Shape from = shape(tensor(x));
  if (begin.size() != from.size() || end.size() != from.size()) fail_text("slice_by_size has no bounds for each axis");
  for (std::size_t i = 0; i < end.size(); ++i) end[i] = end[i] == Dim(-1) ? from[i] : begin[i] + end[i];
  read_slice(op, std::move(x), begin, end, std::vector<bool>(from.size(), false));
}

void ProgramReader::read_slice(const proto::Operation& op, Item x, const std::vector<Dim>& begin,
                               const std::vector<Dim>& end, const std::vector<bool>& squeezed) {
  ValueId value = tensor(x);
  Shape left;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] != Dim(0) || end[i] != shape(value)[i]) value = slice(value, static_cast<int>(i), begin[i], end[i]);
    if (!squeezed[i]) left.push_back(shape(value)[i]);
  }
  set(op, reshape(value, left));
}

void ProgramReader::read_slice_update(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  ValueId update = tensor(op, "update");
  const std::size_t rank = shape(x).size();
  if (has(op, "stride")) {
    for (const std::int64_t stride : integers(op, "stride")) {
      if (stride != 1) fail_text(fmt::format("slice_update with a stride of {} is not read", stride));
    }
  }
  // The update says how far it goes; `end` only repeats it.
  const std::vector<bool> squeezed = flags(op, "squeeze_mask", rank);
  const std::vector<bool> from_start = flags(op, "begin_mask", rank);
  Item begin = item(op, "begin");
  if (begin.sizes) {
    if (begin.sizes->size() != rank) fail_text("slice_update has no begin for each axis");
    for (std::size_t i = 0; i < rank; ++i) {
      Dim& at = (*begin.sizes)[i];
      if (from_start[i]) at = 0;
      if (at.is_constant() && at.constant() < 0) at = shape(x)[i] + at;
    }
    begin.value = -1;
    begin.numbers.reset();
  } else if (std::ranges::find(from_start, true) != from_start.end()) {
    fail_text("slice_update with a begin_mask over numbers of run time is not read");
  }
  if (std::ranges::find(squeezed, true) != squeezed.end()) {
    Shape whole;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      if (!squeezed[i] && next >= shape(update).size()) fail_text("slice_update by fewer axes than it needs");
      whole.push_back(squeezed[i] ? Dim(1) : shape(update)[next++]);
    }
    update = reshape(update, whole);
  }
  set(op, emit(Op::update_slice, {x, update, tensor(begin)}));
}

void ProgramReader::read_concat(const proto::Operation& op) {
  std::vector<Item> parts = items(op, "values");
  if (flag(op, "interleave", false)) fail_text("concat that interleaves is not read");
  if (std::ranges::all_of(parts, [](const Item& part) { return part.sizes && part.value < 0; })) {
    std::vector<Dim> all;
    for (const Item& part : parts) all.insert(all.end(), part.sizes->begin(), part.sizes->end());
    Item made{
        .name = op.outputs(0).name(), .dtype = parts.front().dtype, .shape = {static_cast<std::int64_t>(all.size())}};
    made.sizes = std::move(all);
    items_.emplace(made.name, std::move(made));
    return;
  }
  std::vector<ValueId> values;
  for (Item& part : parts) values.push_back(tensor(part));
  const int axis = axis_of(integer(op, "axis", 0), shape(values.front()).size());
  set(op, emit(Op::concat, std::move(values), graph::AxisAttributes{.axis = axis}));
}

void ProgramReader::read_stack(const proto::Operation& op) {
  std::vector<Item> parts = items(op, "values");
  std::vector<ValueId> values;
  const int axis = axis_of(integer(op, "axis", 0), shape(tensor(parts.at(0))).size() + 1);
  for (Item& part : parts) {
    const ValueId value = tensor(part);
    Shape of = shape(value);
    of.insert(of.begin() + axis, Dim(1));
    values.push_back(reshape(value, of));
  }
  set(op, emit(Op::concat, std::move(values), graph::AxisAttributes{.axis = axis}));
}

void ProgramReader::read_split(const proto::Operation& op) {
  const ValueId x = tensor(op, "x");
  const int axis = axis_of(integer(op, "axis", 0), shape(x).size());
  const Dim whole = shape(x)[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> parts;
  if (has(op, "split_sizes")) {
    parts = integers(op, "split_sizes");
  } else {
    const std::int64_t count = integer(op, "num_splits", 0);
    if (count < 1 || !whole.is_constant() || whole.constant() % count != 0) fail_text("split into no whole parts");
    parts.assign(static_cast<std::size_t>(std::min<std::int64_t>(count, op.outputs_size())), whole.constant() / count);
  }
  if (parts.size() != static_cast<std::size_t>(op.outputs_size())) {
    fail_text(fmt::format("split into {} parts with {} outputs", parts.size(), op.outputs_size()));
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    set(op, slice(x, axis, begin, begin + parts[i]), static_cast<int>(i));
    begin += parts[i];
  }
}

// --- states ---

void ProgramReader::read_state(const proto::Operation& op) {
  const Item state = item(op, "input");
  if (!state.is_state) fail_text("read_state of what is no state");
  set(op, emit(Op::state_read, {state.value}));
}

void ProgramReader::read_write_state(const proto::Operation& op) {
  const Item state = item(op, "input");
  if (!state.is_state) fail_text("write_state of what is no state");
  emit(Op::state_write, {state.value, tensor(op, "data")});
}

}  // namespace pastkv::targets::coreml
