#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace isthmus::harness {

/// Returns whether `text` matches `pattern`, in which `*` stands for any text and `?` for one character.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

/// Returns the candidate with the smallest edit distance to `name`; nullopt if there are no candidates.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

/// Returns "did you mean 'x'?" for a name close to a candidate, else "choose one of a, b, c" (shortened when long).
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

/// Returns the text with its control characters escaped, such as \n, so that a sentence stays one line.
std::string printable(std::string_view text);

/// Applies `of` to each element and returns the results.
template <class Range, class Of>
auto mapped(const Range& range, Of of) {
  std::vector<std::decay_t<decltype(of(*std::begin(range)))>> list;
  for (const auto& each : range) list.push_back(of(each));
  return list;
}

template <class T>
bool contains(const std::vector<T>& list, const std::type_identity_t<T>& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string join(std::span<const std::string> words, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace isthmus::harness
