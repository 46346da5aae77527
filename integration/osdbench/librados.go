//go:build cgo && librados

package main

/*
#cgo LDFLAGS: -lrados -lpthread
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <rados/librados.h>

struct slot {
	struct bench *b;
	char *buf;
	long long began;
};

struct bench {
	rados_ioctx_t io;
	int write, size, objects;
	long long end;
	pthread_mutex_t mu;
	pthread_cond_t idle;
	int running, err;
	unsigned next;
	long long *lat;
	long cap, n;
};

static long long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void submit(struct slot *s);

static void done(rados_completion_t c, void *arg) {
	struct slot *s = arg;
	struct bench *b = s->b;
	int rc = rados_aio_get_return_value(c);
	rados_aio_release(c);
	long long at = now_ns();
	pthread_mutex_lock(&b->mu);
	if (rc < 0 || (!b->write && rc != b->size)) b->err = rc < 0 ? rc : -EIO;
	else if (b->n < b->cap) b->lat[b->n++] = at - s->began;
	int stop = b->err || at >= b->end;
	if (stop && --b->running == 0) pthread_cond_signal(&b->idle);
	pthread_mutex_unlock(&b->mu);
	if (!stop) submit(s);
}

static void submit(struct slot *s) {
	struct bench *b = s->b;
	char oid[64];
	pthread_mutex_lock(&b->mu);
	snprintf(oid, sizeof oid, "bench.%d.%u", b->size, b->next++ % b->objects);
	pthread_mutex_unlock(&b->mu);
	rados_completion_t c;
	rados_aio_create_completion2(s, done, &c);
	s->began = now_ns();
	int rc = b->write ? rados_aio_write(b->io, oid, c, s->buf, b->size, 0) : rados_aio_read(b->io, oid, c, s->buf, b->size, 0);
	if (rc < 0) {
		pthread_mutex_lock(&b->mu);
		b->err = rc;
		if (--b->running == 0) pthread_cond_signal(&b->idle);
		pthread_mutex_unlock(&b->mu);
	}
}

// run keeps depth operations under way for ns and returns how many ended.
static long run(rados_ioctx_t io, int write, int size, int depth, int objects, long long ns, long long *lat, long cap, int *err) {
	struct bench b = { .io = io, .write = write, .size = size, .objects = objects, .lat = lat, .cap = cap, .running = depth };
	pthread_mutex_init(&b.mu, NULL);
	pthread_cond_init(&b.idle, NULL);
	struct slot *slots = calloc(depth, sizeof *slots);
	for (int i = 0; i < depth; i++) {
		slots[i].b = &b;
		slots[i].buf = malloc(size);
		memset(slots[i].buf, 'a' + i % 26, size); // no page is new in the window
	}
	b.end = now_ns() + ns;
	for (int i = 0; i < depth; i++) submit(&slots[i]);
	pthread_mutex_lock(&b.mu);
	while (b.running > 0) pthread_cond_wait(&b.idle, &b.mu);
	pthread_mutex_unlock(&b.mu);
	for (int i = 0; i < depth; i++) free(slots[i].buf);
	free(slots);
	*err = b.err;
	return b.n;
}

static int open_pool(const char *conf, const char *pool, rados_t *cluster, rados_ioctx_t *io) {
	int rc = rados_create(cluster, "admin");
	if (rc < 0) return rc;
	if ((rc = rados_conf_read_file(*cluster, conf)) < 0) return rc;
	// As a library in production: no log kept in memory.
	rados_conf_set(*cluster, "debug_ms", "0/0");
	rados_conf_set(*cluster, "debug_objecter", "0/0");
	rados_conf_set(*cluster, "debug_rados", "0/0");
	if ((rc = rados_connect(*cluster)) < 0) return rc;
	return rados_ioctx_create(*cluster, pool, io);
}

static void close_pool(rados_t cluster, rados_ioctx_t io) {
	rados_ioctx_destroy(io);
	rados_shutdown(cluster);
}
*/
import "C"

import (
	"fmt"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

func init() { sides["librados"] = librados }

// librados does a task with the C library.
func librados(t task) (result, error) {
	conf, pool := C.CString(t.Conf), C.CString(t.Pool)
	defer C.free(unsafe.Pointer(conf))
	defer C.free(unsafe.Pointer(pool))
	var cluster C.rados_t
	var io C.rados_ioctx_t
	if rc := C.open_pool(conf, pool, &cluster, &io); rc < 0 {
		return result{}, fmt.Errorf("open pool %s: %w", t.Pool, syscall.Errno(-rc))
	}
	defer C.close_pool(cluster, io)
	write := C.int(0)
	if t.Write {
		write = 1
	}
	const most = 1 << 21
	lat := make([]C.longlong, most)
	run := func(window time.Duration) (int, error) {
		var rc C.int
		n := C.run(io, write, C.int(t.Size), C.int(t.Depth), objects, C.longlong(window), &lat[0], most, &rc)
		if rc < 0 {
			return int(n), syscall.Errno(-rc)
		}
		return int(n), nil
	}
	if _, err := run(100 * time.Millisecond); err != nil { // connections are made, placements known
		return result{}, err
	}
	used, began := cpu(), time.Now()
	n, err := run(t.Window)
	r := result{Ops: n, Seconds: time.Since(began).Seconds(), CPU: cpu() - used, Allocs: -1}
	if err != nil {
		return r, err
	}
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = time.Duration(lat[i])
	}
	slices.Sort(all)
	r.P50, r.P99 = percentile(all, 0.5), percentile(all, 0.99)
	return r, nil
}
