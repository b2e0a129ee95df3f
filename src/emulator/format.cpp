#include "emulator/format.hpp"

#include <charconv>

namespace emulator {

void Value::append_to(std::string& sentence, bool hexadecimal) const {
  char digits[32];
  char* end = digits;
  switch (kind_) {
    case Kind::text:
      sentence += text_;
      return;
    case Kind::real:
      end = std::to_chars(digits, digits + sizeof digits, real_).ptr;
      break;
    case Kind::negative:
      end = std::to_chars(digits, digits + sizeof digits, static_cast<long long>(whole_)).ptr;
      break;
    case Kind::whole:
      if (hexadecimal) sentence += "0x";
      end = std::to_chars(digits, digits + sizeof digits, whole_, hexadecimal ? 16 : 10).ptr;
      break;
  }
  sentence.append(digits, end);
}

std::string compose(std::string_view pattern, std::initializer_list<Value> values) {
  std::string sentence;
  auto value = values.begin();
  while (!pattern.empty()) {
    const std::size_t place = pattern.find('{');
    sentence += pattern.substr(0, place);
    if (place == std::string_view::npos) break;
    pattern.remove_prefix(place);
    const bool hexadecimal = pattern.starts_with("{:#x}");
    pattern.remove_prefix(hexadecimal ? 5 : 2);
    if (value != values.end()) (value++)->append_to(sentence, hexadecimal);
  }
  return sentence;
}

}  // namespace emulator
