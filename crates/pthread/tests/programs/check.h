// What the programs of the tests share.

#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("line %d: %s, errno %d\n", __LINE__, #condition, errno);                              \
      fflush(stdout);                                                                              \
      _Exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

#endif
