#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "formats/json_file.h"
#include "formats/names.h"
#include "formats/safetensors.h"

namespace pastkv::formats {
namespace {

using nlohmann::json;
using TensorsOfShard = std::map<std::string, std::vector<std::string>>;

class IndexReader {
 public:
  explicit IndexReader(const std::filesystem::path& index) : index_(index), folder_(index.parent_path()) {}

  void read(TensorSource& source, std::vector<std::string>& warnings) {
    const TensorsOfShard shards = shards_of_index();
    check_present(shards);
    for (const auto& [shard, tensors] : shards) {
      const std::size_t before = source.tensors().size();
      read_safetensors(folder_ / shard, source);
      check_agreement(shard, tensors, source, before, warnings);
    }
  }

 private:
  [[noreturn]] void fail(std::string place, std::string reason, std::string remedy) const {
    throw Error(
        {.file = index_.string(), .place = std::move(place), .reason = std::move(reason), .remedy = std::move(remedy)});
  }

  TensorsOfShard shards_of_index() const {
    const json document = read_json_object(index_);
    const auto map = document.find("weight_map");
    if (map == document.end() || !map->is_object() || map->empty()) {
      fail("weight_map", "is missing, empty or no object", "download the index again");
    }
    TensorsOfShard shards;
    for (const auto& [tensor, shard] : map->items()) {
      if (!shard.is_string()) fail("tensor " + shown(tensor), "its shard is no text", "download the index again");
      shards[shard.get<std::string>()].push_back(tensor);
    }
    for (const auto& [shard, tensors] : shards) check_inside(shard);
    return shards;
  }

  // By the path as written: the hub's own cache fills its folders with links that lead out of them.
  void check_inside(const std::string& shard) const {
    const std::filesystem::path path = std::filesystem::path(shard).lexically_normal();
    if (shard.empty() || shard.find('\0') != std::string::npos || path.is_absolute() || path.begin() == path.end() ||
        *path.begin() == "..") {
      fail("shard \"" + shown(shard) + "\"", "lies outside the model's folder", "shards must lie beside their index");
    }
  }

  void check_present(const TensorsOfShard& shards) const {
    std::vector<std::string> missing;
    std::error_code ignored;
    for (const auto& [shard, tensors] : shards) {
      if (!std::filesystem::exists(folder_ / shard, ignored)) missing.push_back(shard);
    }
    if (missing.empty()) return;
    const std::vector<std::string> others = unnamed_files(shards);
    std::string reason =
        fmt::format("names {} of {} shards that are missing: {}", missing.size(), shards.size(), shown_list(missing));
    if (others.empty()) fail({}, reason, "download the missing shards");
    fail({}, reason + "; the folder holds others, which it does not name: " + shown_list(others),
         "the index is stale: download the one that belongs to these files");
  }

  std::vector<std::string> unnamed_files(const TensorsOfShard& shards) const {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.empty() ? "." : folder_, ignored)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() == ".safetensors" && !shards.contains(name)) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Tensors from `first` on are those of the shard.
  void check_agreement(const std::string& shard, const std::vector<std::string>& named, TensorSource& source,
                       std::size_t first, std::vector<std::string>& warnings) const {
    std::set<std::string_view> held;
    for (std::size_t i = first; i < source.tensors().size(); ++i) held.insert(source.tensors()[i].name);
    for (const std::string& tensor : named) {
      if (held.erase(tensor) == 0) {
        fail("tensor " + shown(tensor), "is said to be in " + shown(shard) + ", which does not hold it",
             "the index and its shards belong to different models: download both again");
      }
    }
    if (held.empty()) return;
    const std::vector<std::string> surplus(held.begin(), held.end());
    for (const std::string& tensor : surplus) source.set_unlisted(tensor);
    warnings.push_back(fmt::format("{}: {} does not list {} of its tensors: {}", shown(shard),
                                   index_.filename().string(), surplus.size(), shown_list(surplus)));
  }

  std::filesystem::path index_;
  std::filesystem::path folder_;
};

}  // namespace

void read_safetensors_index(const std::filesystem::path& index, TensorSource& source,
                            std::vector<std::string>& warnings) {
  IndexReader(index).read(source, warnings);
}

}  // namespace pastkv::formats
