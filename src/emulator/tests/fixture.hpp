#pragma once

// Helpers shared by the tests: a fresh device for each test, buffers, and error messages.

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/kernel.hpp"
#include "emulator/launch.hpp"

namespace emulator {

/// Fixture that starts every test with the default configuration, device 0 and no pending fault.
class EmulatorTest : public testing::Test {
 protected:
  void SetUp() override { start_over(); }
  void TearDown() override { start_over(); }
  /// Changes defaults as the environment variable would.
  static void configure(std::string_view specification) { emulator::configure(parse(specification)); }

 private:
  static void start_over() {
    emulator::configure({});
    reset();
    select(0);
  }
};

/// Device memory of n elements, freed at the end of the scope.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : bytes_(n * sizeof(T)), data_(static_cast<T*>(malloc_device(bytes_))) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    emulator::copy(data_, values.data(), bytes_);
  }
  ~DeviceArray() { free_device(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(bytes_ / sizeof(T));
    emulator::copy(values.data(), data_, bytes_);  // qualified, because std::copy would be found for types of std
    return values;
  }

 private:
  std::size_t bytes_;
  T* data_;
};

/// Returns the message of the Error that `action` throws; "" if it throws none.
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

}  // namespace emulator
