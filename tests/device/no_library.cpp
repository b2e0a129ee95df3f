// Shared library that is given the name of a vendor's library but has none of its functions.

extern "C" int isthmus_no_library() {
  return 0;
}
