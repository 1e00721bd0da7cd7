#include "base/byte_reader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace pastkv {

void ByteReader::fail(std::uint64_t length, std::string_view field) const {
  throw Error({.file = file_,
               .place = std::string(field),
               .reason = fmt::format("{} bytes at byte {} reach past the end of the file ({} bytes)", length, position_,
                                     bytes_.size()),
               .remedy = "the download is incomplete or the file is damaged: download it again"});
}

}  // namespace pastkv
