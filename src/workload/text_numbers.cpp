#include "workload/text_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace isthmus::workload {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20, kLongest = 4096;  // bytes read at once; longest word or line

bool blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Returns the beginning of a text in printable characters, for messages.
std::string shown(std::string_view text) {
  std::string start(text.substr(0, 24));
  std::ranges::replace_if(start, [](char c) { return c < ' ' || c > '~'; }, '?');
  return start + (text.size() > start.size() ? "…" : "");
}

}  // namespace

void TextNumbers::fail(const std::string& what) const {
  throw std::runtime_error(fmt::format("line {} of the file {}: {}; {}", line_, file_.path(), what, wanted_));
}

/// Drops the text already processed and appends the next block of the file; returns false at the end of the file.
bool TextNumbers::more() {
  const std::size_t count = std::min(kBlock, file_.bytes() - offset_);
  if (count == 0) return false;
  text_.erase(0, at_);
  at_ = 0;
  const std::size_t left = text_.size();
  text_.resize(left + count);
  file_.read(offset_, text_.data() + left, count);
  offset_ += count;
  return true;
}

/// Moves past the end of the line that was returned; until then, messages name that line.
void TextNumbers::begin() {
  if (!std::exchange(ended_, false)) return;
  ++at_, ++line_;
}

void TextNumbers::skip_blanks() {
  begin();
  do {
    for (; at_ < text_.size() && blank(text_[at_]); ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
  } while (at_ == text_.size() && more());
}

template <class Ends>
std::string_view TextNumbers::until(Ends ends) {
  std::size_t length = 0;
  do {
    while (at_ + length < text_.size() && !ends(text_[at_ + length])) ++length;
    if (length > kLongest) fail(fmt::format("'{}' is too long", shown(std::string_view(text_).substr(at_, length))));
  } while (at_ + length == text_.size() && more());
  at_ += length;
  return std::string_view(text_).substr(at_ - length, length);
}

std::string_view TextNumbers::word() {
  skip_blanks();
  return until(blank);
}

std::string_view TextNumbers::line() {
  begin();
  const auto found = until([](char c) { return c == '\n'; });
  ended_ = at_ < text_.size();
  return found;
}

float TextNumbers::number_of(std::string_view text, float least, float largest) const {
  const auto word = trimmed(text);
  if (word.empty()) fail("a number is missing");
  float value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc() || end != word.data() + word.size())
    fail(fmt::format("'{}' is not a number", shown(word)));
  if (!(least <= value && value <= largest))
    fail(fmt::format("{} is not between {} and {}", shown(word), least, largest));
  return value;
}

void TextNumbers::end() {
  skip_blanks();
  if (at_ < text_.size()) fail("there is more than requested");
}

}  // namespace isthmus::workload
