#pragma once

// A library of the vendor, loaded at run time and without its headers: a machine that lacks it still runs the rest.

#include <initializer_list>
#include <string>
#include <vector>

namespace isthmus::device::gpu {

class VendorLibrary {
 public:
  /// Tries the files in the loader's path, then in the folders of an installation. Throws unsupported, as an Error of
  /// `call`, with what was tried.
  VendorLibrary(const char* name, std::initializer_list<const char*> files, const char* call);
  ~VendorLibrary();
  VendorLibrary(const VendorLibrary&) = delete;
  VendorLibrary& operator=(const VendorLibrary&) = delete;

  const char* name() const noexcept { return name_; }
  const std::string& path() const noexcept { return path_; }
  /// Null where the library has no such function.
  void* find(const char* function) const noexcept;
  /// Throws unsupported instead.
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
