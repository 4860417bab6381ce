/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Sending records, counting what could not be sent, and holding back who sends too many. */
#ifndef FSAGE_RECORD_H
#define FSAGE_RECORD_H

static __always_inline struct counters *counters(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&fsage_counts, &zero);
}

static __always_inline void count(struct counters *c, long failed)
{
	if (!c)
		return;
	if (failed)
		c->lost++;
	else
		c->events++;
}

static __always_inline void count_compat(void)
{
	struct counters *c = counters();
	if (c)
		c->compat++;
}

#define HOLD_STEPS 8
#define HOLD_LEAST_NS 2000

/*
 * How long the next calls are held back: as the reader says, and by how much waits in the ring:
 * nothing below `hold_bytes` (half of it), then 2 us, and twice as long with each further
 * sixteenth, 256 us at the last. So calls become slower than any reader before the ring is full.
 */
static __always_inline void set_hold(struct counters *c, __u64 waiting)
{
	__u32 zero = 0;
	__u64 *asked = bpf_map_lookup_elem(&fsage_pressure, &zero), hold = 0;
	if (hold_bytes && waiting >= hold_bytes) {
		__u64 step = (waiting - hold_bytes) / (hold_bytes / HOLD_STEPS + 1);
		hold = (__u64)HOLD_LEAST_NS << (step & (HOLD_STEPS - 1));
	}
	if (asked && *asked > hold)
		hold = *asked;
	c->hold_ns = hold;
}

/*
 * A wake-up costs microseconds, so the reader polls, and is woken only when much is waiting; then
 * not for every record.
 */
static __always_inline __u64 wake(struct counters *c)
{
	/* Asking costs 10 ns: once in so many records will do, unless there is little room. */
	if (c && !c->hold_ns && c->events & 15)
		return BPF_RB_NO_WAKEUP;
	__u64 waiting = bpf_ringbuf_query(&fsage_ring, BPF_RB_AVAIL_DATA);
	if (c)
		set_hold(c, waiting);
	if (waiting >= wake_bytes && (waiting & 0x7fff) < 2048)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline struct counters *send(void *w, __u32 length)
{
	struct counters *c = counters();
	count(c, bpf_ringbuf_output(&fsage_ring, w, length, wake(c)));
	return c;
}

/* `one` and `two` are the lengths of what already stands in `out->bytes`. */
static __always_inline struct counters *send_paths(struct wire_paths *out, const struct wire *w,
						   __u32 one, __u32 two)
{
	__builtin_memcpy(out->wire, w, WIRE_EXTRA_END);
	out->length = one;
	out->length2 = two;
	__u32 length = WIRE_PATHS_HEAD + (one & (2 * PATH_MAX - 1)) + (two & (2 * PATH_MAX - 1));
	if (length > sizeof(*out))
		return 0;
	struct counters *c = counters();
	count(c, bpf_ringbuf_output(&fsage_ring, out, length, wake(c)));
	return c;
}

struct hold {
	__u64 start;
	__u64 until;
	__u64 now;
};

static long held_enough(__u32 n, struct hold *h)
{
	h->now = bpf_ktime_get_ns();
	return h->now >= h->until;
}

/*
 * Keeps a call from returning while records are not taken away fast enough. Only where nothing is locked: at the
 * end of a system call, when its latency is already known. Nothing has to be undone if the reader
 * dies: the programs go with it. The thread's next record tells for how long it was.
 */
static __always_inline void hold_back(struct counters *c, __u32 *held)
{
	if (!c || !c->hold_ns)
		return;
	struct hold h;
	h.start = h.now = bpf_ktime_get_ns();
	h.until = h.start + c->hold_ns;
	bpf_loop(1 << 14, held_enough, &h, 0);
	c->held_ns += h.now - h.start;
	*held += (h.now - h.start) >> 6;
	c->held++;
	set_hold(c, bpf_ringbuf_query(&fsage_ring, BPF_RB_AVAIL_DATA));
}

/* 32 bits of nanoseconds end after 4 s, of microseconds after an hour. */
static __always_inline void set_latency(struct wire *w, __u64 ns)
{
	if (ns <= 0xffffffff) {
		w->latency = ns;
		return;
	}
	__u64 us = ns / 1000;
	w->latency = us > 0xffffffff ? 0xffffffff : us;
	w->flags |= LATENCY_US;
}

#endif
