#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>

namespace isthmus::harness {

/// Returns the value as JSON; null if it is unknown, or is NaN or infinite, which JSON cannot represent.
template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value && !std::isfinite(*value)) return nullptr;
  }
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}
inline nlohmann::json or_null(double value) {
  return or_null(std::optional(value));
}
inline nlohmann::json or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

}  // namespace isthmus::harness
