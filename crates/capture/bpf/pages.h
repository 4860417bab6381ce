/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Pages that enter the page cache, and page faults on mapped files. */
#ifndef FSAGE_PAGES_H
#define FSAGE_PAGES_H

/*
 * No trace point tells the end of a fault. So it is kept until the task does something else. A
 * fault that had to wait for the disk is tried again afterwards, and that second try is its end.
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
	if (f->last > f->start)
		set_latency(&w, f->last - f->start);
	else
		w.flags |= NO_LATENCY;
	w.result = f->index;
	w.missed = f->missed;
	w.ahead = f->ahead;
	w.file = f->file;
	send(&w, WIRE_FILE_END);
	return 0;
}

static __always_inline void begin_fault(struct state *s, struct address_space *mapping,
					__u64 index, bool write)
{
	struct fault *f = &s->fault;
	__u64 now = bpf_ktime_get_ns();
	if (f->pending && f->mapping == (__u64)mapping && f->index == index) {
		f->last = now;
		f->write |= write;
		return;
	}
	flush_fault(s);
	f->mapping = (__u64)mapping;
	f->index = index;
	f->start = s->fault_start ? s->fault_start : now;
	f->last = f->start;
	f->missed = f->ahead = 0;
	f->write = write;
	f->pending = 1;
	host_file(mapping->host, &f->file);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fsage_page_fault, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s)
		return 0;
	s->fault_start = bpf_ktime_get_ns();
	s->fault_address = address;
	s->fault_error = error;
	return 0;
}

#define FAULT_WRITE 2

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(fsage_fault, struct address_space *mapping, unsigned long index)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s || s->active)
		return 0;
	begin_fault(s, mapping, index, s->fault_error & FAULT_WRITE);
	return 0;
}

/* A fault that found its page, and maps those around it that are there too. */
SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(fsage_map_pages, struct address_space *mapping, unsigned long first,
	     unsigned long last)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s || s->active)
		return 0;
	struct fault *f = &s->fault;
	if (f->pending && f->mapping == (__u64)mapping && f->index >= first && f->index <= last &&
	    s->fault_start <= f->start) {
		f->last = bpf_ktime_get_ns();
		return 0;
	}
	/* The window is aligned in memory, so the address tells the page within it. */
	__u64 index = first + ((s->fault_address >> PAGE_SHIFT) & (SEEN_AHEAD - 1));
	begin_fault(s, mapping, index > last ? last : index, false);
	return 0;
}

/* Outside of calls, a page of a file becomes dirty by a store to a mapping. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(fsage_dirty, struct folio *folio, struct address_space *mapping)
{
	struct state *s = bpf_task_storage_get(&fsage_tasks, bpf_get_current_task_btf(), 0, 0);
	if (!s || s->active || !mapping || !(s->fault_error & FAULT_WRITE))
		return 0;
	begin_fault(s, mapping, folio->index, true);
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
	if (s->active) {
		add_to_call(s, (__u64)mapping->host, index, pages);
	} else if (s->fault.pending && s->fault.mapping == (__u64)mapping) {
		bool own = s->fault.index >= index && s->fault.index < index + pages;
		s->fault.missed += own;
		s->fault.ahead += pages - own;
	}
	return 0;
}

#endif
