#include "harness/program/command_line.hpp"

int main(int argc, char** argv) {
  return isthmus::harness::command_line(argc, argv);
}
