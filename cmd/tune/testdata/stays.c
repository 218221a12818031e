/* A plugin whose process does not end: what tune_plugin.c calls for that waits for ever, as the end of a library may. */
#define _GNU_SOURCE
#include <unistd.h>

#include "swiglu.c"

void _exit(int status) {
	(void)status;
	for (;;)
		pause();
}
