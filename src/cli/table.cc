#include "cli/table.h"

#include <algorithm>

namespace pastkv::cli {
namespace {

std::string line(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                 const std::vector<std::size_t>& widths, int indent) {
  std::string out(static_cast<std::size_t>(indent), ' ');
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string space(widths[i] - display_width(cells[i]), ' ');
    if (i > 0) out += "  ";
    out += columns[i].align == Align::left ? cells[i] + space : space + cells[i];
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

}  // namespace

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string Table::text(int indent) const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(display_width(column.title));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string out;
  const bool titled = std::any_of(titles.begin(), titles.end(), [](const std::string& t) { return !t.empty(); });
  if (titled) out += line(titles, columns_, widths, indent);
  for (const auto& row : rows_) out += line(row, columns_, widths, indent);
  return out;
}

}  // namespace pastkv::cli
