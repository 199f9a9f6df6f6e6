/*
** profile.h - the profile of a context that runs, as the floors above tell it what they do.
*/

#ifndef profile_h
#define profile_h

#include "heed.h"
#include "memory/device.h"

#pragma GCC visibility push(hidden)

/*
** The context has a profile. A region begins, unless a closed one runs, whose part it is then; the
** gradient of an operation always. In an open one the host's functions run, as between operations.
*/
heed_region profile_enter (heed_context *cx, const char *name);
heed_region profile_enter_gradient (heed_context *cx, const char *name, bool open);
void profile_leave (heed_context *cx, heed_region before);
void profile_layer (heed_context *cx);               /* the layer is another one */

/* Memory of 'where' was given to a tensor of so many bytes, or given back by one. */
void profile_take (heed_context *cx, const device *where, size_t bytes, size_t capacity);
void profile_give (heed_context *cx, size_t capacity);       /* an accelerator's */

size_t profile_peak (const heed_context *cx);        /* most bytes of the host before now */

#pragma GCC visibility pop

#endif
