/* A ring of io_uring; the program that includes this has MUST. */
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static struct {
	int fd;
	struct io_uring_params p;
	void *sq, *cq;
	struct io_uring_sqe *sqes;
} ring_of;

/* Its descriptor; negative where io_uring is not there. */
static int begin_ring(void)
{
	struct io_uring_params *p = &ring_of.p;
	int ring = ring_of.fd = syscall(SYS_io_uring_setup, 4, p);
	if (ring < 0)
		return ring;
	ring_of.sq = mmap(0, p->sq_off.array + p->sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
			  IORING_OFF_SQ_RING);
	ring_of.cq = mmap(0, p->cq_off.cqes + p->cq_entries * 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
			  IORING_OFF_CQ_RING);
	ring_of.sqes = mmap(0, p->sq_entries * 64, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	return ring;
}

static void submit(struct io_uring_sqe sqe, int wait)
{
	unsigned *tail = ring_of.sq + ring_of.p.sq_off.tail;
	unsigned index = *tail & *(unsigned *)(ring_of.sq + ring_of.p.sq_off.ring_mask);
	ring_of.sqes[index] = sqe;
	((unsigned *)(ring_of.sq + ring_of.p.sq_off.array))[index] = index;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	MUST(syscall(SYS_io_uring_enter, ring_of.fd, 1, wait, IORING_ENTER_GETEVENTS, 0, 0));
}

/* One request, submitted and waited for; its result. */
static int request(struct io_uring_sqe sqe)
{
	submit(sqe, 1);
	unsigned *head = ring_of.cq + ring_of.p.cq_off.head;
	unsigned index = *head & *(unsigned *)(ring_of.cq + ring_of.p.cq_off.ring_mask);
	struct io_uring_cqe *cqe = ring_of.cq + ring_of.p.cq_off.cqes;
	int result = cqe[index].res;
	__atomic_fetch_add(head, 1, __ATOMIC_RELEASE);
	return result;
}
