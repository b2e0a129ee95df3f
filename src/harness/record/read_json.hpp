#pragma once

// JSON and lines of files that others write: bounded in bytes and in depth, since what walks through a document
// recurses.

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::harness {

inline constexpr std::size_t kLongestLine = std::size_t{1} << 24;  ///< bytes; twice what a reader takes for a record
inline constexpr int kDeepestJson = 64;                            ///< arrays and objects within each other

/// The document; nullopt for what is no JSON, or is longer or deeper than these limits.
std::optional<nlohmann::json> read_json(std::string_view text);

/// A line of a file, without its end.
struct FileLine {
  std::string_view text;  ///< empty where it is too long
  std::size_t at = 0;     ///< byte of the file where it begins
  bool too_long = false;  ///< longer than kLongestLine
};

/// Calls `use` for each line of a regular file until it returns false; for none where there is no such file. Never
/// keeps more than a line in memory. Throws RecordError where the file is there and cannot be read to its end: what it
/// holds is then unknown, not nothing.
void for_each_line(const std::string& path, const std::function<bool(const FileLine& line)>& use);

}  // namespace isthmus::harness
