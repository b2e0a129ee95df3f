// A file by the name of a library that it is not: it has none of its functions.

extern "C" int isthmus_no_library() {
  return 0;
}
