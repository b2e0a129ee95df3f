#include "trace/uvm/driver.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace isthmus::trace::uvm {

namespace {

constexpr int kKnownBranches[] = {515, 520, 525, 530, 535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595};
constexpr int kStatusBehindVersion = 560;

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// Parses a version at the beginning of the text: "580.159.04" or "515.48". Other numbers in such texts do not begin
/// with three digits and a point.
std::optional<DriverVersion> version_at(std::string_view text) {
  DriverVersion version;
  int* const parts[] = {&version.branch, &version.minor, &version.patch};
  std::size_t read = 0, at = 0;
  for (; read < 3; ++read) {
    const auto [end, problem] = std::from_chars(text.data() + at, text.data() + text.size(), *parts[read]);
    if (problem != std::errc{} || !is_digit(text[at])) break;
    at = static_cast<std::size_t>(end - text.data());
    if (at == text.size() || text[at] != '.') {
      ++read;
      break;
    }
    ++at;
  }
  if (read < 2 || version.branch < 100 || version.branch > 9999) return std::nullopt;
  return version;
}

}  // namespace

std::optional<DriverVersion> parse_driver_version(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_digit(text[at - 1]) || text[at - 1] == '.'))) continue;
    if (const auto version = version_at(text.substr(at))) return version;
  }
  return std::nullopt;
}

bool is_known_branch(int branch) noexcept {
  return std::find(std::begin(kKnownBranches), std::end(kKnownBranches), branch) != std::end(kKnownBranches);
}

std::size_t status_of_init(int branch) noexcept {
  return branch == kStatusBehindVersion ? 52 : 48;
}

}  // namespace isthmus::trace::uvm
