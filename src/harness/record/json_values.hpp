#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>

namespace isthmus::harness {

/// null for what is unknown; JSON has no NaN and no infinity either.
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
