#include "harness/record/read_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/record/record_file.hpp"

namespace isthmus::harness {

namespace {

/// Returns whether at most kDeepestJson brackets are open at once. The result is meaningful for JSON only.
bool is_shallow(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

RecordError unreadable(const std::string& path, int error) {
  return RecordError(
      fmt::format("the record {} cannot be read ({}), so its contents are unknown; make it readable, or choose another "
                  "with --record",
                  path, std::strerror(error != 0 ? error : EIO)));
}

}  // namespace

std::optional<nlohmann::json> read_json(std::string_view text) {
  if (text.size() > kLongestLine || !is_shallow(text)) return std::nullopt;
  auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return std::nullopt;
  return document;
}

void for_each_line(const std::string& path, const std::function<bool(const FileLine& line)>& use) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // reading a device may never end
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) throw unreadable(path, errno);
  std::vector<char> block(std::size_t{1} << 16);
  std::string line;
  FileLine current;
  std::size_t at = 0;
  const auto end_line = [&] {
    current.text = line;
    const bool go_on = use(current);
    line.clear();
    current = {.text = {}, .at = at, .too_long = false};
    return go_on;
  };
  while (stream) {
    errno = 0;
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    if (stream.bad()) throw unreadable(path, errno);
    std::string_view rest(block.data(), static_cast<std::size_t>(stream.gcount()));
    while (!rest.empty()) {
      const auto piece = rest.substr(0, rest.find('\n'));
      const bool ends = piece.size() < rest.size();
      current.too_long |= line.size() + piece.size() > kLongestLine;
      if (current.too_long)
        line.clear();
      else
        line += piece;
      at += piece.size() + (ends ? 1 : 0);
      rest.remove_prefix(piece.size() + (ends ? 1 : 0));
      if (ends && !end_line()) return;
    }
  }
  if (!line.empty() || current.too_long) end_line();
}

}  // namespace isthmus::harness
