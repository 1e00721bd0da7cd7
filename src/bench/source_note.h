// The note that a conversion leaves beside what it wrote: which model it was made of. `verify` finds the source by it.
//
// For a folder the note is the file pastkv.json in it; for a file or an .mlpackage, a file beside it with
// ".pastkv.json" added to the name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace pastkv::bench {

struct SourceNote {
  std::filesystem::path source;  // relative paths count from the folder that the note lies in
  std::string hash;              // of the source, by model_hash
  std::string target;            // "gguf", "hf", "onnx", "coreml"
};

std::filesystem::path note_path(const std::filesystem::path& artifact);

// The same bytes for the same source, wherever both lie. Throws Error when it cannot be written.
void write_source_note(const std::filesystem::path& artifact, const SourceNote& note);

// Looks beside the artifact, in it, and in the two folders above it: the artifact may be model.onnx of an ONNX folder,
// a package in the folder that was made, or one part of a split GGUF. `source` comes back as a path that can be opened.
// Nothing when there is no note. Throws Error when the one there is damaged.
std::optional<SourceNote> find_source_note(const std::filesystem::path& artifact);

}  // namespace pastkv::bench
