#pragma once

// Vendor library that is loaded at run time and used without its headers, so that the program also runs on machines
// without it.

#include <initializer_list>
#include <string>
#include <vector>

namespace isthmus::device::gpu {

class VendorLibrary {
 public:
  /// Tries the files in the loader's search path, then in the folders of an installation. If none can be loaded, throws
  /// an Error (unsupported) of `call` with a list of the files tried.
  VendorLibrary(const char* name, std::initializer_list<const char*> files, const char* call);
  ~VendorLibrary();
  VendorLibrary(const VendorLibrary&) = delete;
  VendorLibrary& operator=(const VendorLibrary&) = delete;

  const char* name() const noexcept { return name_; }
  const std::string& path() const noexcept { return path_; }
  /// Returns the function; null if the library does not have it.
  void* find(const char* function) const noexcept;
  /// Returns the function; throws Error (unsupported) if the library does not have it.
  template <class Function>
  Function look_up(const char* function_name) const {
    return reinterpret_cast<Function>(need(function_name));
  }

 private:
  void* need(const char* function) const;
  const char* name_;
  const char* call_;
  std::string path_;
  void* file_ = nullptr;
};

}  // namespace isthmus::device::gpu
