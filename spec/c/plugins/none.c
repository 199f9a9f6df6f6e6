/* An object that is no plugin. */

int heed_other (void);
int heed_other (void) { return 0; }
