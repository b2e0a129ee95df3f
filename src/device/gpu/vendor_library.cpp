#include "device/gpu/vendor_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>

#include "device/api/device.hpp"

namespace isthmus::device::gpu {
namespace {

#if defined(ISTHMUS_BACKEND_CUDA)
constexpr std::array home_variables{"CUDA_HOME", "CUDA_PATH"};
constexpr const char* usual_home = "/usr/local/cuda";
constexpr std::array folders{"lib64", "lib"};
#else
constexpr std::array home_variables{"ROCM_PATH", "HIP_PATH"};
constexpr const char* usual_home = "/opt/rocm";
constexpr std::array folders{"lib", "lib64"};
#endif

/// Returns the paths to try: first bare file names, for the loader's search path, then the folders of an installation.
std::vector<std::string> candidates(std::initializer_list<const char*> files) {
  std::vector<std::string> paths(files.begin(), files.end());
  std::vector<std::string> homes;
  for (const char* variable : home_variables) {
    if (const char* home = std::getenv(variable)) homes.emplace_back(home);
  }
  homes.emplace_back(usual_home);
  for (const auto& home : homes) {
    for (const char* folder : folders) {
      for (const char* file : files) paths.push_back(home + "/" + folder + "/" + file);
    }
  }
  return paths;
}

}  // namespace

VendorLibrary::VendorLibrary(const char* name, std::initializer_list<const char*> files, const char* call)
    : name_(name), call_(call) {
  for (const auto& path : candidates(files)) {
    file_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (file_ != nullptr) {
      path_ = path;
      return;
    }
  }
  throw Error(ErrorKind::unsupported, call,
              fmt::format("{} could not be loaded (tried {} in the loader's path and under {})", name,
                          fmt::join(files, ", "), usual_home),
              fmt::format("install {} or set {}", name, home_variables.front()));
}

VendorLibrary::~VendorLibrary() {
  dlclose(file_);
}

void* VendorLibrary::find(const char* function) const noexcept {
  return dlsym(file_, function);
}

void* VendorLibrary::need(const char* function) const {
  void* found = find(function);
  if (found == nullptr) {
    throw Error(ErrorKind::unsupported, call_, fmt::format("{} has no {}", path_, function),
                fmt::format("install another version of {}", name_));
  }
  return found;
}

}  // namespace isthmus::device::gpu
