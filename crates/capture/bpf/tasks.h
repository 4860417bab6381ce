/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Which tasks are watched: those that the loader named, and what they start. */
#ifndef FSAGE_TASKS_H
#define FSAGE_TASKS_H

/* Number of a task in the reader's PID namespace. */
static __always_inline __u32 number_of(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;
	__u32 nr = 0;
	__u64 at = (__u64)pid + bpf_core_field_offset(struct pid, numbers) +
		   pid_level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&nr, sizeof(nr), (void *)(at + bpf_core_field_offset(struct upid, nr)));
	return nr;
}

static __always_inline void name(struct wire *w, struct task_struct *task)
{
	w->tid = number_of(task);
	w->pid = number_of(task->group_leader);
}

static __always_inline struct state *watched(struct task_struct *task)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, task, 0, 0);
	if (s || !adopt_threads)
		return s;
	struct task_struct *leader = task->group_leader;
	if (!bpf_task_storage_get(&fsage_tasks, leader, 0, 0))
		return 0;
	s = bpf_task_storage_get(&fsage_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (s)
		name(&s->wire, task);
	return s;
}

/* A record that is no call. */
static __always_inline void head(struct wire *w, const struct state *s, __u8 kind)
{
	__builtin_memset(w, 0, sizeof(*w));
	w->kind = kind;
	w->flags = NO_FILE | NO_LATENCY;
	w->tid = s->wire.tid;
	w->pid = s->wire.pid;
	w->start = bpf_ktime_get_ns();
}

static __noinline int flush_fault(struct state *s);

SEC("tp_btf/task_newtask")
int BPF_PROG(fsage_newtask, struct task_struct *child, __u64 clone_flags)
{
	struct state *s = watched(bpf_get_current_task_btf());
	if (!s)
		return 0;
	struct state *c = bpf_task_storage_get(&fsage_tasks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (c) {
		name(&c->wire, child);
		c->left = bpf_ktime_get_ns();
	} else {
		count(counters(), 1);
	}
	struct wire w;
	head(&w, s, KIND_FORK);
	w.args[0] = number_of(child->group_leader);
	w.args[1] = number_of(child);
	w.args[2] = clone_flags;
	send(&w, WIRE_FILE_END + 3 * 8);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(fsage_exec, struct task_struct *task, int old, struct linux_binprm *bprm)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s)
		return 0;
	__u32 room = ROOM_EXEC;
	struct wire_paths *out = bpf_map_lookup_elem(&fsage_rooms, &room);
	if (!out)
		return 0;
	struct wire w;
	head(&w, s, KIND_EXEC);
	/* The thread that calls execve becomes the leader, and gets its number. */
	name(&s->wire, task);
	w.pid = s->wire.pid;
	host_file(bprm->file->f_inode, &w.file);
	w.flags &= ~NO_FILE;
	long length = bpf_probe_read_kernel_str(out->bytes, PATH_MAX, bprm->filename);
	if (length < 0)
		length = 0;
	w.args[0] = s->wire.tid;
	w.flags |= PATHS;
	send_paths(out, &w, length & (2 * PATH_MAX - 1), 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(fsage_task_exit, struct task_struct *task)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s)
		return 0;
	flush_fault(s);
	s->active = 0;
	/* It may have been killed outside of any call: it tells its parent all the same. */
	s->in_call = 1;
	struct wire w;
	head(&w, s, KIND_EXIT);
	w.args[0] = task->signal->live.counter == 0;
	w.args[1] = task->exit_code;
	send(&w, WIRE_FILE_END + 2 * 8);
	return 0;
}

#endif
