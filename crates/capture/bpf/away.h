/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* When watched threads are on no processor, and which of them wake each other. */
#ifndef FSAGE_AWAY_H
#define FSAGE_AWAY_H

static __always_inline void tell(const struct state *s, __u8 kind, __u8 flags, __u64 start,
				 __u64 woken, __u64 back)
{
	struct wire_away w = {
		.start = start, .kind = kind, .flags = flags, .tid = s->wire.tid, .pid = s->wire.pid,
		.woken = woken, .back = back,
	};
	send(&w, kind == KIND_WAKE ? WIRE_WAKE_END : WIRE_AWAY_END);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(fsage_switch, bool preempted, struct task_struct *before, struct task_struct *next,
	     unsigned int state)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, before, 0, 0);
	if (s) {
		s->left = bpf_ktime_get_ns();
		s->asleep = !preempted && state;
	}
	s = bpf_task_storage_get(&fsage_tasks, next, 0, 0);
	if (!s || !s->left)
		return 0;
	/* Its waker can be quicker than its own way to sleep. */
	__u64 woken = s->woken > s->left ? s->woken : s->left;
	__u8 flags = (s->asleep && s->by ? BY_WATCHED : 0) | (before->pid ? 0 : FROM_IDLE);
	tell(s, KIND_AWAY, flags, s->left, s->asleep ? woken : 0, bpf_ktime_get_ns());
	s->left = 0;
	return 0;
}

/* Who is interrupted by a timer, or outside of any call, wakes nobody. */
static __always_inline bool wakes(const struct state *s)
{
	__u32 zero = 0;
	__u32 *timers = bpf_map_lookup_elem(&fsage_timers, &zero);
	return s->in_call && timers && !*timers;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(fsage_waking, struct task_struct *task)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, task, 0, 0);
	if (!s)
		return 0;
	s->woken = bpf_ktime_get_ns();
	s->by = 0;
	struct state *waker = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!waker || waker == s || !wakes(waker))
		return 0;
	s->by = 1;
	tell(waker, KIND_WAKE, 0, s->woken, s->wire.tid, 0);
	return 0;
}

/* One kind of timer interrupts the other, none itself: a bit for each. */
static __always_inline int set_timer(__u32 bit, bool on)
{
	__u32 zero = 0;
	__u32 *timers = bpf_map_lookup_elem(&fsage_timers, &zero);
	if (timers)
		*timers = on ? *timers | bit : *timers & ~bit;
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(fsage_hrtimer_begins)
{
	return set_timer(1, true);
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(fsage_hrtimer_ends)
{
	return set_timer(1, false);
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(fsage_timer_begins)
{
	return set_timer(2, true);
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(fsage_timer_ends)
{
	return set_timer(2, false);
}

#endif
