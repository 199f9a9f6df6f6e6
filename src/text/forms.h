/*
** forms.h - decomposition and composition of code points, as UAX #15 has them.
*/

#ifndef text_forms_h
#define text_forms_h

#include "text/unicode.h"

#pragma GCC visibility push(hidden)

#define FORM_MOST 18               /* code points that one decomposes into */

void form_open (unicode *u);       /* sets the marks */
int form_marks (const unicode *u, uint32_t point);
/* All steps of it, in no canonical order yet; how many code points there are, at least one. */
int form_decompose (uint32_t point, bool compatible, uint32_t to[FORM_MOST]);
uint32_t form_compose (uint32_t first, uint32_t second);     /* 0: they do not compose */

#pragma GCC visibility pop

#endif
