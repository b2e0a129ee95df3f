#pragma once

// Formatting of error messages.

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace emulator {

/// Value in an error message: an integer, a real number or text.
class Value {
 public:
  template <std::integral T>
  Value(T number)
      : kind_(std::signed_integral<T> ? Kind::negative : Kind::whole), whole_(static_cast<unsigned long long>(number)) {
    if (kind_ == Kind::negative && static_cast<long long>(number) >= 0) kind_ = Kind::whole;
  }
  Value(double number) : kind_(Kind::real), real_(number) {}
  Value(std::string_view text) : kind_(Kind::text), text_(text) {}
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(const char* text) : Value(std::string_view(text)) {}
  void append_to(std::string& sentence, bool hexadecimal) const;

 private:
  enum class Kind { whole, negative, real, text };
  Kind kind_;
  unsigned long long whole_ = 0;
  double real_ = 0;
  std::string_view text_;
};

/// Returns the pattern with each {} replaced by the next value, and each {:#x} by the next value in hexadecimal.
std::string compose(std::string_view pattern, std::initializer_list<Value> values);

template <class... Values>
std::string sentence(std::string_view pattern, const Values&... values) {
  return compose(pattern, {Value(values)...});
}

}  // namespace emulator
