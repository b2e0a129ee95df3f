#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "trace/uvm/system.hpp"

namespace isthmus::trace::uvm {

namespace {

namespace fs = std::filesystem;

class Linux final : public System {
 public:
  int open(const char* path) override {
    const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
    return descriptor >= 0 ? descriptor : -errno;
  }

  void close(int descriptor) override { ::close(descriptor); }

  int control(int descriptor, unsigned long request, void* argument) override {
    int answer = -1;
    do {
      answer = ioctl(descriptor, request, argument);
    } while (answer != 0 && errno == EINTR);
    return answer == 0 ? 0 : -errno;
  }

  std::vector<int> descriptors_of(const char* path) override {
    std::vector<int> found;
    std::error_code failure;
    for (fs::directory_iterator each("/proc/self/fd", failure), end; !failure && each != end; each.increment(failure)) {
      std::error_code gone;  // set for descriptors that cannot be read, such as the iterator's own
      if (fs::read_symlink(each->path(), gone) != path) continue;
      const std::string name = each->path().filename();
      int descriptor = -1;
      if (std::from_chars(name.data(), name.data() + name.size(), descriptor).ec == std::errc{})
        found.push_back(descriptor);
    }
    return found;
  }

  std::string driver_version() override {
    for (const char* path : {"/sys/module/nvidia/version", "/proc/driver/nvidia/version"}) {
      std::ifstream file(path);
      std::string text((std::istreambuf_iterator<char>(file)), {});
      if (!text.empty()) return text.substr(0, text.find('\n'));
    }
    return {};
  }
};

}  // namespace

System& linux_system() {
  static Linux system;
  return system;
}

}  // namespace isthmus::trace::uvm
