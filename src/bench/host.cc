#include "bench/host.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>

#include "base/thread_pool.h"

namespace pastkv::bench {
namespace {

// The value of the first line of `path` that starts with `key`, after `separator`.
std::string value_in(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    value.erase(0, value.find_first_not_of(" \t\""));
    value.erase(value.find_last_not_of(" \t\"") + 1);
    return value;
  }
  return {};
}

std::string processor_name() {
  for (const char* key : {"model name", "Model", "Hardware"}) {
    const std::string name = value_in("/proc/cpuinfo", key, ':');
    if (!name.empty()) return name;
  }
  return "unknown";
}

int physical_cores() {
  std::set<std::string> siblings;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu", error)) {
    std::ifstream file(entry.path() / "topology/thread_siblings_list");
    std::string list;
    if (file >> list) siblings.insert(list);
  }
  if (!siblings.empty()) return static_cast<int>(siblings.size());
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::string system_name() {
  std::string name = value_in("/etc/os-release", "PRETTY_NAME", '=');
  utsname kernel{};
  if (uname(&kernel) == 0) {
    if (!name.empty()) name += ", ";
    name += std::string(kernel.sysname) + " " + kernel.release;
  }
  return name;
}

std::string compiler_name() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#elif defined(__GNUC__)
  return std::string("gcc ") + __VERSION__;
#else
  return "unknown";
#endif
}

}  // namespace

Host host() {
  const long pages = std::max(0L, sysconf(_SC_PHYS_PAGES));
  const long page = std::max(0L, sysconf(_SC_PAGESIZE));
  return {.processor = processor_name(),
          .cores = physical_cores(),
          .allowed = allowed_processors(),
          .memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page),
          .os = system_name(),
          .compiler = compiler_name()};
}

}  // namespace pastkv::bench
