/*
** transfer.cu - copies between the host's memory and a device's, through pinned memory.
**
** The pinned memory is a ring of sectors. Bytes for the device are copied into the current sector,
** and from there in the stream; an event is recorded when a sector is left, and waited for before
** the sector is used again.
*/

#include "cuda/device/release.h"
#include "cuda/device/transfer.h"

#include <stdlib.h>
#include <string.h>

#define SECTORS 8
#define SECTOR ((size_t)1 << 20)

struct staging {
  char *ring;                      /* SECTORS of SECTOR bytes, pinned */
  cuda_event left[SECTORS];
  int now;
  size_t used;                     /* bytes of the current sector */
  struct held *held;
};

struct held { held *next; };       /* before the bytes, in pinned memory */

#define HELD ((size_t)64)


static staging *new_staging (void) {
  staging *s = (staging *)calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  bool good = runtime_alloc_host((void **)&s->ring, SECTORS * SECTOR) == 0;
  for (int i = 0; good && i < SECTORS; i++) good = runtime_event_open(&s->left[i], false) == 0;
  if (good) return s;
  transfer_close(s);
  return NULL;
}


void transfer_close (staging *s) {
  if (s == NULL) return;
  for (int i = 0; i < SECTORS; i++)
    if (s->left[i] != NULL) runtime_event_close(s->left[i]);
  if (s->ring != NULL) release_pinned(s->ring);
  transfer_drop(s->held);
  free(s);
}


static staging *staging_of (cuda *self) {
  if (self->staging == NULL) self->staging = new_staging();
  return self->staging;
}


/* Goes on to the next sector, once its last copy is done. */
static int next_sector (cuda *self, staging *s) {
  int code = runtime_event_put(s->left[s->now], self->stream);
  s->now = (s->now + 1) % SECTORS;
  s->used = 0;
  return code != 0 ? code : runtime_event_wait(s->left[s->now]);
}


/* Up to SECTOR bytes through the ring. */
static int send_part (cuda *self, staging *s, void *to, const void *from, size_t bytes) {
  int code = bytes > SECTOR - s->used ? next_sector(self, s) : 0;
  if (code != 0) return code;
  char *sector = s->ring + (size_t)s->now * SECTOR + s->used;
  memcpy(sector, from, bytes);
  s->used += (bytes + 63) & ~(size_t)63;
  if (s->used > SECTOR) s->used = SECTOR;
  return runtime_copy(to, sector, bytes, self->stream);
}


/* Through memory that stays for as long as the capture does. */
static const char *send_held (cuda *self, staging *s, void *to, const void *from, size_t bytes) {
  held *h;
  int code = runtime_alloc_host((void **)&h, HELD + bytes);
  if (code != 0) return cuda_check(self, code);
  h->next = s->held;
  s->held = h;
  memcpy((char *)h + HELD, from, bytes);
  return cuda_check(self, runtime_copy(to, (char *)h + HELD, bytes, self->stream));
}


const char *transfer_up (cuda *self, void *to, const void *from, size_t bytes) {
  staging *s = staging_of(self);
  if (s == NULL) return "no pinned memory for copies";
  if (self->capturing) return send_held(self, s, to, from, bytes);
  int code = 0;
  for (size_t at = 0; at < bytes && code == 0; at += SECTOR)
    code = send_part(self, s, (char *)to + at, (const char *)from + at,
                     bytes - at < SECTOR ? bytes - at : SECTOR);
  return cuda_check(self, code);
}


static int receive_part (cuda *self, staging *s, const void *from, size_t bytes) {
  int code = next_sector(self, s);
  s->used = SECTOR;
  if (code == 0)
    code = runtime_copy(s->ring + (size_t)s->now * SECTOR, from, bytes, self->stream);
  return code != 0 ? code : runtime_event_put(s->left[s->now], self->stream);
}


/* While one sector is copied out, the next is being filled. */
const char *transfer_down (cuda *self, void *to, const void *from, size_t bytes) {
  staging *s = staging_of(self);
  if (s == NULL) return "no pinned memory for copies";
  int code = bytes > 0 ? receive_part(self, s, from, bytes < SECTOR ? bytes : SECTOR) : 0;
  for (size_t at = 0; at < bytes && code == 0; at += SECTOR) {
    int sector = s->now;
    size_t next = at + SECTOR, left = bytes - at;
    if (next < bytes)
      code = receive_part(self, s, (const char *)from + next,
                          left - SECTOR < SECTOR ? left - SECTOR : SECTOR);
    if (code == 0) code = runtime_event_wait(s->left[sector]);
    if (code == 0)
      memcpy((char *)to + at, s->ring + (size_t)sector * SECTOR, left < SECTOR ? left : SECTOR);
  }
  return cuda_check(self, code);
}


held *transfer_held (cuda *self) {
  held *h = self->staging != NULL ? self->staging->held : NULL;
  if (h != NULL) self->staging->held = NULL;
  return h;
}


void transfer_drop (held *h) {
  while (h != NULL) {
    held *next = h->next;
    release_pinned(h);
    h = next;
  }
}
