/*
** cuda_graph.c - captures of a GPU's work.
*/

#define DEVICE "cuda"
#include "captures.h"


int main (void) {
  if (without_failures()) with_failures();
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
