// Uses unified memory as a CUDA program does: opens the driver's device file, keeps it open for a while, and ends.
//
//   uses-uvm MILLISECONDS [fork | exec PROGRAM…]
//
// fork: does this in a forked child, which does not call exec. exec: becomes PROGRAM afterwards.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

int main(int count, char** words) {
  if (count < 2) return 2;
  const std::string_view then = count > 2 ? words[2] : "";
  if (then == "fork") {
    if (const pid_t child = fork(); child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
  }
  if (open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC) < 0) return 3;
  usleep(static_cast<useconds_t>(std::atoi(words[1])) * 1000);
  if (then == "exec" && count > 3) {
    execvp(words[3], words + 3);
    return 4;
  }
  return 0;
}
