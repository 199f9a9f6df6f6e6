/*
** pages.h - memory of blocks that live long, which share huge pages. A matrix of a megabyte lies
** on hundreds of small pages, and to look these up takes longer than to read it. A huge page that
** comes anew is filled with zeros, which costs more than it brings where blocks come and go.
*/

#ifndef pages_h
#define pages_h

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

typedef struct region region;

typedef struct pages {
  region *first;                   /* the oldest one */
} pages;

/*
** Memory that is aligned for vectors; NULL: there is none. Medium blocks share huge pages, large
** ones have pages of their own. With p NULL no page is shared, and calls may overlap; such a block
** is given back with NULL, too, or with any pages.
*/
void *pages_take (pages *p, size_t bytes);
void pages_give (pages *p, void *data, size_t bytes);    /* as many bytes as were taken */

/* Gives all regions back. */
void pages_close (pages *p);

#pragma GCC visibility pop

#endif
