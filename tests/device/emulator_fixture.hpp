#pragma once

// Helpers shared by the tests of the device layer: buffers and error messages.

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "../emulated_machine.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device {

/// Device memory of n elements, freed at the end of the scope.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : bytes_(n * sizeof(T)), data_(static_cast<T*>(malloc_device(bytes_))) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    device::copy(data_, values.data(), bytes_);
  }
  ~DeviceArray() { free_device(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(bytes_ / sizeof(T));
    device::copy(values.data(), data_, bytes_);  // qualified, because a std type as T would also find std::copy
    return values;
  }

 private:
  std::size_t bytes_;
  T* data_;
};

/// Returns the message of the Error that `action` throws, or "" if it does not throw one.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline void expect_mentions(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
}

}  // namespace isthmus::device
