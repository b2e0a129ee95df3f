#pragma once

// Reading of JSON, and of lines of files, that other programs wrote. Bytes and depth are limited, because code that
// walks a document recurses.

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::harness {

inline constexpr std::size_t kLongestLine = std::size_t{1} << 24;  ///< bytes; twice as long as a record may be
inline constexpr int kDeepestJson = 64;                            ///< deepest nesting of arrays and objects

/// Returns the document; nullopt if the text is not JSON, or is longer or deeper than these limits.
std::optional<nlohmann::json> read_json(std::string_view text);

/// Line of a file, without the line end.
struct FileLine {
  std::string_view text;  ///< empty if it is too long
  std::size_t at = 0;     ///< byte offset of its beginning in the file
  bool too_long = false;  ///< longer than kLongestLine
};

/// Calls `use` for each line of a regular file until `use` returns false; never if there is no such file. Keeps at most
/// one line in memory. Throws RecordError if the file exists but cannot be read to its end, because unknown contents
/// must not be mistaken for an empty file.
void for_each_line(const std::string& path, const std::function<bool(const FileLine& line)>& use);

}  // namespace isthmus::harness
