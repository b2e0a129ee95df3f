#include <stdexcept>

#include "workload/description.hpp"
#include "workload/driver_prefetch.hpp"

namespace isthmus::workload {

namespace {

const AxisValue& existing(const CaseSpec& spec, std::string_view axis) {
  const auto* value = spec.find(axis);
  if (value == nullptr)
    throw std::logic_error(spec.workload->name() + " uses axis " + std::string(axis) +
                           ", which its registration lacks");
  return *value;
}

}  // namespace

const AxisValue* CaseSpec::find(std::string_view axis) const noexcept {
  for (const auto& [name, value] : axes) {
    if (name == axis) return &value;
  }
  return nullptr;
}

std::int64_t CaseSpec::integer(std::string_view axis) const {
  const auto* number = std::get_if<std::int64_t>(&existing(*this, axis));
  if (number == nullptr) throw std::logic_error("axis " + std::string(axis) + " is a choice, not an integer");
  return *number;
}

std::string_view CaseSpec::choice(std::string_view axis) const {
  const auto* text = std::get_if<std::string>(&existing(*this, axis));
  if (text == nullptr) throw std::logic_error("axis " + std::string(axis) + " is an integer, not a choice");
  return *text;
}

std::string CaseSpec::label() const {
  std::string text = workload->name();
  if (placement) text += " " + std::string(memory::name(*placement));
  if (staging) text += (placement ? "×" : " ") + std::string(name(*staging));
  if (size) text += " " + *size;
  if (preset) text += " (" + *preset + ")";
  if (oversubscribed) text += " oversubscribed";
  for (const auto& axis : varied) {
    if (find(axis) == nullptr && axis != kDriverPrefetch) continue;  // the axis does not apply to this placement
    const bool left_out = find(axis) == nullptr;
    text += " " + axis + "=" + (left_out ? std::string(kDriverPrefetchDefault) : to_text(existing(*this, axis)));
  }
  return text;
}

}  // namespace isthmus::workload
