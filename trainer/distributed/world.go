package distributed

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/seed98097648/tune/internal/clock"
)

// DefaultTimeout is how long a collective may take, unless Options say otherwise. What one rank does alone, such as
// writing a checkpoint, is in it, as the others wait for it.
const DefaultTimeout = 10 * time.Minute

// Options are how a World deals with failures.
type Options struct {
	Timeout time.Duration // of a collective; 0 for DefaultTimeout
	// Fatal is told of a collective that has not finished in time, by a goroutine of its own. When it returns, all
	// ranks end.
	Fatal func(error)
}

// World is all ranks of the job, as one of them sees it. A nil World is that of a process that trains alone: it has
// one rank, and its methods do nothing.
type World struct {
	rank, size int
	hosts      []string // of the ranks
	version    string   // of the MPI
	link       link
	all        comm
	thread     *thread
	options    Options
	least      int           // elements of a bucket
	goodbyes   int           // exchanges of Close, without a pause
	spent      time.Duration // in collectives that this rank has waited for
}

// Open joins the job of a launcher.
func Open(l Launch, o Options) (*World, error) {
	w := &World{thread: startThread(), options: o, least: leastElems, goodbyes: lastWords, rank: l.Rank,
		size: l.Size}
	var m *mpi
	err := w.do("joining the job", func() (err error) {
		if m, err = openMPI(l); err == nil {
			w.rank, w.size, err = m.join()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if w.size != l.Size && l.Size > 0 || w.size == 1 || w.rank != l.Rank {
		return nil, fmt.Errorf("distributed: %s has started %s, this one as rank %d, but for %s (%s) it is rank %d of %d: "+
			"load the MPI that has started it, by its library's name in $%s, or start it with the mpirun of this one "+
			"(mpirun.openmpi, mpirun.mpich, srun --mpi=pmix)", l.By, processes(l.Size), l.Rank, m.path, m.version, w.rank,
			w.size, EnvLibrary)
	}
	w.link, w.version = m, m.version
	return w, w.meet()
}

func processes(n int) string {
	if n < 1 {
		return "several processes"
	}
	return fmt.Sprintf("%d processes", n)
}

// meet makes the ranks known to each other.
func (w *World) meet() error {
	err := w.do("joining the job", func() (err error) {
		w.all, err = w.link.split(0, w.rank)
		return err
	})
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("distributed: the name of this machine: %w", err)
	}
	w.hosts = make([]string, w.size)
	w.hosts[w.rank] = host
	hosts, err := w.Exchange("the ranks' machines", []byte(host))
	for i, h := range hosts {
		w.hosts[i] = string(h)
	}
	return err
}

// Rank returns which of the ranks this process is, from 0.
func (w *World) Rank() int {
	if w == nil {
		return 0
	}
	return w.rank
}

// Size returns the number of ranks.
func (w *World) Size() int {
	if w == nil {
		return 1
	}
	return w.size
}

// Version says which MPI it is.
func (w *World) Version() string {
	if w == nil {
		return ""
	}
	return w.version
}

// Name names a rank for people: its number and its machine.
func (w *World) Name(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, w.hosts[rank]) }

// Hosts returns the machine of each rank, nil for a nil World.
func (w *World) Hosts() []string {
	if w == nil {
		return nil
	}
	return w.hosts
}

// Node returns the ranks of this rank's machine, itself among them, in their order.
func (w *World) Node() []int {
	if w == nil {
		return []int{0}
	}
	var node []int
	for i, h := range w.hosts {
		if h == w.hosts[w.rank] {
			node = append(node, i)
		}
	}
	return node
}

// Nodes returns the number of machines.
func (w *World) Nodes() int {
	if w == nil {
		return 1
	}
	return len(slices.Compact(slices.Sorted(slices.Values(w.hosts))))
}

// Spent returns how long this rank has waited for others so far.
func (w *World) Spent() time.Duration {
	if w == nil {
		return 0
	}
	return w.spent
}

// do runs f in the link's thread.
func (w *World) do(what string, f func() error) error {
	defer w.watch(what)()
	return w.thread.do(f)
}

// wait gives the thread a job and waits for it.
func (w *World) wait(what string, advance func() (bool, error)) error {
	defer w.watch(what)()
	start := clock.Now()
	done := make(chan error, 1)
	w.thread.jobs <- &job{advance, func(err error) { done <- err }}
	err := <-done
	w.spent += clock.Since(start)
	if err != nil {
		return fmt.Errorf("distributed: %s: %w", what, err)
	}
	return nil
}

// killPatience is how long MPI may take to end the ranks before this process ends by itself.
const killPatience = 3 * time.Second

// beats is in how many pieces a limit is waited for.
const beats = 100

// watch ends the process unless it is told to stop in time. The MPI may hang in any of its calls. When a job is
// suspended, as batch systems do it to make room for another, clocks go on, but no more than a piece of the limit
// is over when it wakes up.
func (w *World) watch(what string) (stop func()) {
	limit, stopped := cmp.Or(w.options.Timeout, DefaultTimeout), make(chan struct{})
	go func() { // until stopped
		for range beats {
			select {
			case <-time.After(limit / beats):
			case <-stopped:
				return
			}
		}
		w.fail(fmt.Errorf("distributed: waiting for the other ranks (%s) has not finished for %v: another rank has ended, "+
			"hangs or is not as far, or the network has stopped", what, limit))
	}()
	return func() { close(stopped) }
}

// fail ends the job for a reason that no caller can be told of.
func (w *World) fail(err error) {
	if w.options.Fatal != nil {
		w.options.Fatal(err)
	}
	w.Abort(1)
}

// lastOutput is the time that a launcher has to pass on what was written: MPICH's loses the rest when it ends ranks.
const lastOutput = 500 * time.Millisecond

// Abort ends all ranks with an exit code, and does not return.
func (w *World) Abort(code int) {
	time.Sleep(lastOutput)
	time.AfterFunc(killPatience, func() { os.Exit(code) })
	if w != nil && w.link != nil {
		_ = w.thread.do(func() error { w.link.kill(code); return nil })
	}
	os.Exit(code)
}

// Close leaves the job, for which it waits for all ranks. The process is to end then.
func (w *World) Close() error {
	if w == nil {
		return nil
	}
	if _, err := w.Exchange("the end of all ranks", nil); err != nil {
		return err
	}
	// MPICH 4.0 over UCX's TCP hangs in MPI_Finalize unless all have just been looking on without a pause.
	w.thread.awake.Store(true)
	for range w.goodbyes {
		if _, err := w.Exchange("the end of all ranks", nil); err != nil {
			return err
		}
	}
	left := make(chan error, 1)
	go func() { left <- w.thread.do(w.link.leave) }()
	select {
	case err := <-left:
		w.thread.stop()
		return err
	case <-time.After(leavePatience):
		return nil
	}
}

const lastWords = 20

// leavePatience is how long MPI may take to let this process go, once all ranks are at their end.
const leavePatience = 10 * time.Second

// A message begins with its length and a checksum of what it is. One that is short needs one collective, not two.
const (
	head  = 8 + 4
	short = 244
)

// Exchange gives every rank what each of them has, in their order. What is said of it is for errors. That another rank
// exchanges something else is one, and so is that another has failed: see Fail.
func (w *World) Exchange(what string, mine []byte) ([][]byte, error) {
	if w == nil {
		return [][]byte{mine}, nil
	}
	x := w.newExchange(what, mine)
	if err := w.wait(what, x.advance); err != nil {
		return x.all, err
	}
	return x.all, x.failures()
}

func (w *World) newExchange(what string, mine []byte) *exchange {
	x := &exchange{world: w, mine: mine, slot: make([]byte, head+short), slots: make([]byte, w.size*(head+short))}
	binary.LittleEndian.PutUint64(x.slot, uint64(len(mine)))
	binary.LittleEndian.PutUint32(x.slot[8:], sumOf(what))
	copy(x.slot[head:], mine)
	return x
}

// exchange is a message of each rank under way: first its length and beginning, then all of it if any is longer.
type exchange struct {
	world       *World
	mine        []byte
	slot, slots []byte
	parts       *parts
	long        []byte // nil while the slots are under way
	pending     pending
	all         [][]byte
	failed      []int // the ranks that have
}

func (x *exchange) advance() (bool, error) {
	if x.pending == nil {
		return false, x.start(x.slot, x.slots, slices.Repeat([]int{head + short}, x.world.size))
	}
	if done, err := x.pending.finished(); !done || err != nil {
		return false, err
	}
	if x.long != nil {
		for i := range x.world.size {
			x.all = append(x.all, x.parts.of(x.long, i))
		}
		return true, nil
	}
	if err := x.compare(); err != nil {
		return false, err
	}
	lengths, most, sum := make([]int, x.world.size), 0, 0
	for i := range lengths {
		slot := x.parts.of(x.slots, i)
		lengths[i] = int(binary.LittleEndian.Uint64(slot))
		most, sum = max(most, lengths[i]), sum+lengths[i]
		x.all = append(x.all, slot[head:head+min(lengths[i], short)])
	}
	if most <= short {
		return true, nil
	}
	if sum > 1<<31-1 {
		return false, errors.New("messages of 2 GiB are too long")
	}
	x.all, x.long = nil, make([]byte, sum)
	return false, x.start(x.mine, x.long, lengths)
}

// compare finds the ranks that have failed. Unless there are any, all must exchange the same.
func (x *exchange) compare() error {
	sum := func(rank int) uint32 { return binary.LittleEndian.Uint32(x.parts.of(x.slots, rank)[8:]) }
	other := 0
	for i := range x.world.size {
		if sum(i) == sumOf(failing) {
			x.failed = append(x.failed, i)
		} else if other == 0 && sum(i) != sum(0) {
			other = i
		}
	}
	if x.failed != nil || other == 0 {
		return nil
	}
	return fmt.Errorf("%s and %s are not at the same point of the run: start all ranks with the same program, "+
		"flags, plugins and files", x.world.Name(0), x.world.Name(other))
}

func (x *exchange) start(send, recv []byte, lengths []int) (err error) {
	x.parts = newParts(lengths)
	x.pending, err = x.world.all.allgather(send, recv, x.parts)
	return err
}
