/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Sending records, and counting what could not be sent. */
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

/*
 * A wake-up costs microseconds, so the reader polls, and is woken only when much is waiting; then
 * not for every record.
 */
static __always_inline __u64 wake(const struct counters *c)
{
	/* Asking costs 10 ns: once in so many records will do. */
	if (c && c->events & 15)
		return BPF_RB_NO_WAKEUP;
	__u64 waiting = bpf_ringbuf_query(&fsage_ring, BPF_RB_AVAIL_DATA);
	if (waiting >= wake_bytes && (waiting & 0x7fff) < 2048)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void send(struct wire *w, __u32 length)
{
	struct counters *c = counters();
	count(c, bpf_ringbuf_output(&fsage_ring, w, length, wake(c)));
}

/* `one` and `two` are the lengths of what already stands in `out->bytes`. */
static __always_inline void send_paths(struct wire_paths *out, const struct wire *w, __u32 one,
				       __u32 two)
{
	__builtin_memcpy(out->wire, w, WIRE_EXTRA_END);
	out->length = one;
	out->length2 = two;
	__u32 length = WIRE_PATHS_HEAD + (one & (2 * PATH_MAX - 1)) + (two & (2 * PATH_MAX - 1));
	if (length > sizeof(*out))
		return;
	struct counters *c = counters();
	count(c, bpf_ringbuf_output(&fsage_ring, out, length, wake(c)));
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
