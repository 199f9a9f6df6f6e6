/*
** lua_write.h - bytes written to a file. It is a header of its own since <signal.h> has a 'raise',
** as lua_heed.h does.
*/

#ifndef lua_write_h
#define lua_write_h

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

bool write_bytes (int fd, const char *data, size_t n);   /* all of them; false: errno */

#pragma GCC visibility pop

#endif
