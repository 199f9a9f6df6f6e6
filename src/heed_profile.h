/*
** heed_profile.h - where time and memory go: a part of heed.h, which includes it.
*/

#ifndef heed_profile_h
#define heed_profile_h

/*
** A profile measures from its begin to its end; a context has one at a time. All of this time is of
** a region: an operation that was called from the outside, with those that it calls; the gradient
** of one; the backward pass itself; or the host's, between them. Accelerators are waited for after
** each work. Captured work of the host is measured work by work when it is replayed, an
** accelerator's as "capture".
*/
typedef struct heed_profile heed_profile;

typedef struct heed_profile_record {
  const char *name;                 /* of the operation, as messages have it; NULL: the host */
  bool gradient;                    /* of the operation */
  int layer;                        /* see heed_set_layer */
  int64_t calls;                    /* in a replay: works */
  double seconds;                   /* without the regions within it */
  size_t bytes;                     /* of the tensors that it made */
  size_t peak;                      /* most bytes in use at once, on all devices */
} heed_profile_record;

HEED_API heed_profile *heed_profile_begin (heed_context *cx);      /* NULL: a failure */
HEED_API bool heed_profile_end (heed_context *cx);          /* false: no memory for some record */
HEED_API int64_t heed_profile_records (const heed_profile *p);     /* how many */
HEED_API heed_profile_record heed_profile_record_at (const heed_profile *p, int64_t i);
HEED_API void heed_profile_drop (heed_context *cx, heed_profile *p);       /* once it has ended */

/*
** Until the end that is counted as one call of 'name', unless it is part of another region. Regions
** end in the order opposite to that in which they began.
*/
typedef struct heed_region { int profile, record; bool closed; } heed_region;
HEED_API heed_region heed_region_begin (heed_context *cx, const char *name);
HEED_API void heed_region_end (heed_context *cx, heed_region region);

/*
** The layer that works from now on, by a number of the host's; 0: none. A node of the graph belongs
** to the layer that recorded it, with its gradient; captured work to that of its recording. Returns
** what it was.
*/
HEED_API int heed_set_layer (heed_context *cx, int layer);
HEED_API int heed_layer (const heed_context *cx);

#endif
