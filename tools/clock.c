// A clock that goes CLOCK_AHEAD seconds ahead of the machine's, for programs that are started with this in LD_PRELOAD. What measures spans
// of time (CLOCK_MONOTONIC), and what sleeps, goes on as it is.
//
// libfaketime does the same and more, but answers with the machine's own clock inside a signal's handler that interrupts a wait: a server that
// checks there whether a deadlock is due (PostgreSQL) then does so as much later as its clock is ahead.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t ahead;

__attribute__((constructor)) static void start(void) {
	const char *said = getenv("CLOCK_AHEAD");
	if (said)
		ahead = atol(said);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
	int result = syscall(SYS_clock_gettime, clock, at);
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		at->tv_sec += ahead;
	return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
