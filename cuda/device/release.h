/*
** release.h - memory goes back to the driver at once, or, while work is captured, after that.
*/

#ifndef cuda_release_h
#define cuda_release_h

#pragma GCC visibility push(hidden)

void release_device (void *data);      /* of runtime_alloc */
void release_pinned (void *data);      /* of runtime_alloc_host */

/* Around every capture, on whatever device and thread. */
void release_hold (void);
void release_resume (void);

#pragma GCC visibility pop

#endif
