#include "harness/plan/names.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace isthmus::harness {

namespace {

/// Returns the minimum number of letters to add, remove, replace or, if adjacent, exchange in order to turn `a` into
/// `b`. `isthmus` counts in the same way (spelling.py).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row.back();
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  if (candidates.empty()) return std::nullopt;
  return *std::min_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const auto close = nearest(name, candidates);
  if (!close) return "there is none to choose from";
  if (edit_distance(name, *close) <= std::max<std::size_t>(2, name.size() / 3)) return "did you mean '" + *close + "'?";
  constexpr std::size_t kShown = 12;
  std::vector<std::string> shown(candidates.begin(), candidates.begin() + std::min(kShown, candidates.size()));
  return "choose one of " + join(shown, ", ") + (candidates.size() > kShown ? ", …" : "");
}

std::string printable(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      escaped += c;
    else if (c == '\n')
      escaped += "\\n";
    else
      escaped.append("\\x").append({hex[byte / 16], hex[byte % 16]});
  }
  return escaped;
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0;;) {
    const auto end = text.find(separator, begin);
    words.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return words;
    begin = end + 1;
  }
}

}  // namespace isthmus::harness
