/*
** lua_file.h - what the files that reach the file system share: lua_file.c and lua_replace.c.
*/

#ifndef lua_file_h
#define lua_file_h

#include "lua_heed.h"
#include "lua_write.h"

#pragma GCC visibility push(hidden)

/* A failure in Lua's terms: nil and a message, which names the path unless it is NULL. */
int file_failed (lua_State *L, const char *path, const char *what);    /* errno says why; 0: the
                                                   file ended too early */
int file_refused (lua_State *L, const char *path, const char *why);
const char *check_file_path (lua_State *L, int i);       /* without zero bytes, which would name
                                                   another file than they show */
int l_write_file (lua_State *L);                         /* lua_replace.c */

#pragma GCC visibility pop

#endif
