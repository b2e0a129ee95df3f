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

/// `*` matches any text, `?` one character.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

/// The candidate with the smallest edit distance to `name`; nullopt where there are no candidates.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

/// "did you mean 'x'?" for a name that is close to a candidate, else "choose one of a, b, c" (shortened when long).
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

/// The text with its control characters written out, as \n, so that a sentence stays one line.
std::string printable(std::string_view text);

/// `of` each of them.
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
