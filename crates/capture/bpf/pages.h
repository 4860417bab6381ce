/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Pages that enter the page cache, and page faults on mapped files. */
#ifndef FSAGE_PAGES_H
#define FSAGE_PAGES_H

/*
 * No trace point tells the end of a fault. So it is kept until the task does something else. A
 * fault that had to wait for the disk is tried again afterwards, and that second try is its end.
 *
 * Within a call a fault is told before it, with the call's time until then less: as if the program had
 * touched the page first. What a mapping populates comes behind the call that makes it.
 */
static __noinline int flush_fault(struct state *s)
{
	struct fault *f = &s->fault;
	if (!f->pending)
		return 0;
	f->pending = 0;
	struct wire w;
	head(&w, s, KIND_FAULT);
	w.start = f->start;
	w.flags = f->write ? WRITE_FAULT : 0;
	__u64 took = f->last > f->start ? f->last - f->start : 0;
	if (took)
		set_latency(&w, took);
	else
		w.flags |= NO_LATENCY;
	if (s->active && s->populates) {
		s->faulted += took;
	} else if (s->active) {
		w.start = s->wire.start;
		s->wire.start += took;
	}
	w.result = f->index;
	w.missed = f->missed;
	w.ahead = f->ahead;
	w.file = f->file;
	send(&w, WIRE_FILE_END);
	return 0;
}

/* A call that faulted is over. One that populates did nothing else since the last fault. */
static __noinline int end_faults(struct state *s)
{
	if (s->populates)
		s->fault.last = bpf_ktime_get_ns();
	return flush_fault(s);
}

/*
 * `ends`: what tells of the fault comes at its end. No trace point tells the beginning of one that the kernel makes
 * itself: that is where the one before it in the same call ended.
 */
static __always_inline void begin_fault(struct state *s, struct address_space *mapping,
					__u64 index, bool write, bool ends)
{
	struct fault *f = &s->fault;
	__u64 now = bpf_ktime_get_ns(), start = s->fault_start;
	s->fault_start = 0;
	/* Not told of anew: tried again. */
	if (!start && f->pending && f->mapping == (__u64)mapping && f->index == index) {
		f->last = now;
		f->write |= write;
		return;
	}
	if (!start) {
		start = now;
		if (f->pending && s->populates) {
			if (ends && f->last > f->start)
				start = f->last;
			else
				f->last = now;
		}
	}
	flush_fault(s);
	f->mapping = (__u64)mapping;
	f->index = index;
	f->start = start;
	/* Of one that finds its page outside of calls no time is told: it is the program's. */
	f->last = ends && (write || s->in_call) ? now : start;
	f->missed = f->ahead = 0;
	f->write = write;
	f->pending = 1;
	host_file(mapping->host, &f->file);
}

static __always_inline int note_fault(unsigned long address, unsigned long error)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s)
		return 0;
	s->fault_start = bpf_ktime_get_ns();
	s->fault_address = address;
	s->fault_error = error;
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fsage_page_fault, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return note_fault(address, error);
}

/* Of a call that copies from or to memory. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fsage_kernel_fault, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return note_fault(address, error);
}

#define FAULT_WRITE 2

static __always_inline bool faults_to_write(const struct state *s)
{
	return s->fault_start && (s->fault_error & FAULT_WRITE);
}

/* The call that populates says what for. */
static __always_inline bool populates_to_write(const struct state *s)
{
	return s->in_call && s->populates == POPULATES_TO_WRITE;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(fsage_fault, struct address_space *mapping, unsigned long index)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (s)
		begin_fault(s, mapping, index, populates_to_write(s) || faults_to_write(s), false);
	return 0;
}

/* A fault that found its page, and maps those around it that are there too. */
SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(fsage_map_pages, struct address_space *mapping, unsigned long first,
	     unsigned long last)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s)
		return 0;
	struct fault *f = &s->fault;
	if (f->pending && f->mapping == (__u64)mapping && f->index >= first && f->index <= last &&
	    s->fault_start <= f->start) {
		f->last = bpf_ktime_get_ns();
		return 0;
	}
	/* The window is aligned in memory, so the address tells the page within it. */
	__u64 index = first;
	if (s->fault_start)
		index += (s->fault_address >> PAGE_SHIFT) & (SEEN_AHEAD - 1);
	begin_fault(s, mapping, index > last ? last : index, false, true);
	return 0;
}

static __always_inline __u32 pages_of(struct folio *folio)
{
	unsigned long flags;
	struct folio___memdesc *new = (void *)folio;
	if (bpf_core_field_exists(new->flags.f))
		flags = new->flags.f;
	else
		flags = folio->flags;
	if (!(flags & (1UL << bpf_core_enum_value(enum pageflags, PG_head))))
		return 1;
	return 1u << (folio->_flags_1 & 0x1f);
}

/* Outside of calls, a page of a file becomes dirty by a store to a mapping; so it does in one that populates. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(fsage_dirty, struct folio *folio, struct address_space *mapping)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s || !mapping)
		return 0;
	struct fault *f = &s->fault;
	if (f->pending && f->mapping == (__u64)mapping && !faults_to_write(s)) {
		__u64 index = folio->index;
		if (f->index >= index && f->index < index + pages_of(folio)) {
			f->last = bpf_ktime_get_ns();
			f->write = 1;
			return 0;
		}
	}
	if (s->in_call ? !s->active && s->populates : !!(s->fault_error & FAULT_WRITE))
		begin_fault(s, mapping, folio->index, true, true);
	return 0;
}

/* How many of `pages` pages from `index` on the request from `offset` on asked for. */
static __always_inline __u32 asked(__u64 index, __u32 pages, __u64 offset, __u64 length)
{
	__u64 first = offset >> PAGE_SHIFT;
	__u64 end = (offset + length + (1 << PAGE_SHIFT) - 1) >> PAGE_SHIFT;
	__u64 low = index > first ? index : first;
	__u64 high = index + pages < end ? index + pages : end;
	return high > low ? high - low : 0;
}

/* A write reads pages that it covers in part only and that lie within the file. */
static __always_inline __u32 read_for_write(__u64 index, __u32 pages, __u64 offset, __u64 length,
					    __u64 size)
{
	const __u64 mask = (1 << PAGE_SHIFT) - 1;
	__u64 end = offset + length, first = offset >> PAGE_SHIFT, last = end >> PAGE_SHIFT;
	__u32 missed = 0;
	if ((offset & mask) && first >= index && first < index + pages && (first << PAGE_SHIFT) < size)
		missed++;
	if ((end & mask) && end < size && last >= index && last < index + pages &&
	    !(missed && last == first))
		missed++;
	return missed;
}

static __always_inline void add_to_call(struct state *s, __u64 inode, __u64 index, __u32 pages)
{
	struct wire *w = &s->wire;
	const volatile struct call *call = &calls[w->nr & (CALLS - 1)];
	__u8 io = call->io;
	if (io == IO_OTHER) {
		w->missed += pages;
		return;
	}
	if (inode != s->inode)
		return;
	__u64 length = call->extra == EXTRA_IOVEC ? w->extra[0] : w->args[2];
	__u64 offset = io == IO_READ_AT || io == IO_WRITE_AT ? w->args[3] : w->file.position;
	__u32 missed = pages;
	if (io == IO_READ || io == IO_READ_AT)
		missed = asked(index, pages, offset, length);
	else if (io == IO_WRITE || io == IO_WRITE_AT)
		missed = pages = read_for_write(index, pages, offset, length, w->file.size);
	w->missed += missed;
	w->ahead += pages - missed;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(fsage_add_page, struct folio *folio)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s)
		return 0;
	struct address_space *mapping = folio->mapping;
	__u64 index = folio->index;
	__u32 pages = pages_of(folio);
	if (s->fault.pending && s->fault.mapping == (__u64)mapping) {
		bool own = s->fault.index >= index && s->fault.index < index + pages;
		s->fault.missed += own;
		s->fault.ahead += pages - own;
	} else if (s->active) {
		add_to_call(s, (__u64)mapping->host, index, pages);
	}
	return 0;
}

#endif
