#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace isthmus::device {

/// Temporary folder that stands in for / and is deleted with this object.
class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = (std::filesystem::temp_directory_path() / "isthmus-sysfs-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  const std::filesystem::path& path() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace isthmus::device
