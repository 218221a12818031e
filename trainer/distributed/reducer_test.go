package distributed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestExchangeGivesAllMessagesInOrder(t *testing.T) {
	for _, most := range []int{0, 10, short, short + 1, 3000} {
		ranks(t, []string{"a", "a", "b"}, func(w *World) error {
			for round := range 3 {
				message := func(rank int) []byte { return bytes.Repeat([]byte{byte(rank + round)}, most*(rank+1)/3) }
				all, err := w.Exchange("test", message(w.rank))
				for i, m := range all {
					if !bytes.Equal(m, message(i)) {
						return fmt.Errorf("up to %d bytes: rank %d says %v", most, i, m)
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func TestRanksThatAreNotAtTheSamePointAreNamed(t *testing.T) {
	ranks(t, []string{"a", "b"}, func(w *World) error {
		_, err := w.Exchange([]string{"a loss", "an answer"}[w.rank], make([]byte, 1000*w.rank))
		if err == nil || !strings.Contains(err.Error(), "rank 0 (a) and rank 1 (b) are not at the same point of the run") {
			return fmt.Errorf("error %v", err)
		}
		return nil
	})
}

func TestRanksThatDifferAreNamed(t *testing.T) {
	ranks(t, []string{"a", "b"}, func(w *World) error {
		_, err := w.NewReducer([]int{10 + w.rank}, []int{0}, Float32)
		if err == nil || !strings.Contains(err.Error(), "rank 0 (a) and rank 1 (b): the tensors that are trained") {
			return fmt.Errorf("error %v", err)
		}
		return nil
	})
}

// TestMachinesOfOneNameAreSuspected where the memory that the first rank offers is not there, or that of another
// process.
func TestMachinesOfOneNameAreSuspected(t *testing.T) {
	a, offer, err := offerArena(2, 16, arenaBytes(2, 16))
	if err != nil {
		t.Fatal(err)
	}
	defer a.unmap()
	for what, o := range map[string]invitation{"other": {offer.Path, offer.Nonce + 1},
		"none": {offer.Path + "0", offer.Nonce}} {
		text, _ := json.Marshal(o) // of strings and numbers
		if _, err := acceptArena(text, 2, 16, arenaBytes(2, 16)); err == nil || !strings.Contains(err.Error(), apart) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// bucketElems are those of a bucket in tests.
const bucketElems = nodeElems

var machines = map[string][]string{
	"one":         {"a"},
	"one node":    {"a", "a", "a"},
	"two nodes":   {"a", "b"},
	"by node":     {"a", "b", "a", "b"},
	"uneven":      {"a", "a", "a", "b", "c", "c"},
	"three nodes": {"a", "b", "c"},
}

// made are the tensors of each rank, once they are made: random numbers take long with the race detector.
var made sync.Map

// tensors are those of a rank: small, larger than a bucket, empty.
func tensors(rank int) [][]float32 {
	var all [][]float32
	if known, ok := made.Load(rank); ok {
		for _, x := range known.([][]float32) {
			all = append(all, slices.Clone(x))
		}
		return all
	}
	rng := rand.New(rand.NewPCG(uint64(rank), 1))
	for _, n := range []int{3, bucketElems + 17, 0, 100, 5 * bucketElems / 2, 1} {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		all = append(all, x)
	}
	made.Store(rank, all)
	return tensors(rank)
}

var order = []int{5, 4, 1, 3, 2, 0}

// sumsOf adds what the ranks have, nodes apart, as a Reducer does.
func sumsOf(hosts []string) [][]float32 {
	top := arrange(hosts, 0)
	var sums [][]float32
	for _, node := range top.nodes {
		var own [][]float32
		for _, rank := range node {
			own = plus(own, tensors(rank))
		}
		sums = plus(sums, own)
	}
	return sums
}

func plus(a, b [][]float32) [][]float32 {
	if a == nil {
		return b
	}
	for i, more := range b {
		sum := a[i]
		for k, v := range more {
			sum[k] += v
		}
	}
	return a
}

func TestSumsAreThoseInTheOrderOfTheRanks(t *testing.T) {
	for name, hosts := range machines {
		want := sumsOf(hosts)
		ranks(t, hosts, func(w *World) error {
			r, err := w.NewReducer(sizes(want), order, Float32)
			if err != nil {
				return err
			}
			for range 2 {
				x := tensors(w.rank)
				r.Bind(x)
				r.Sum(false)
				for _, t := range order[:w.rank%len(order)] { // some come while others are computed
					r.Ready(t)
				}
				if err := r.Wait(); err != nil {
					return err
				}
				for i := range x {
					if !slices.Equal(x[i], want[i]) {
						return fmt.Errorf("%s: tensor %d differs from the sum", name, i)
					}
				}
			}
			return r.Close()
		})
	}
}

func sizes(x [][]float32) []int {
	var n []int
	for _, v := range x {
		n = append(n, len(v))
	}
	return n
}

// TestScatterAndGatherAreTheSum has each rank keep the sums of its own elements and then give them to all.
func TestScatterAndGatherAreTheSum(t *testing.T) {
	for name, hosts := range machines {
		want := sumsOf(hosts)
		var mu sync.Mutex
		owned := 0
		ranks(t, hosts, func(w *World) error {
			r, err := w.NewReducer(sizes(want), order, BFloat16)
			if err != nil {
				return err
			}
			if len(r.top.nodes) > 1 {
				r.wire = Float32
			}
			x := tensors(w.rank)
			r.Bind(x)
			r.Sum(true)
			if err := r.Wait(); err != nil {
				return err
			}
			y := make([][]float32, len(x))
			for i := range x {
				y[i] = make([]float32, len(x[i]))
			}
			r.Own(func(tensor, from, to int) {
				mu.Lock()
				owned += to - from
				mu.Unlock()
				copy(y[tensor][from:to], x[tensor][from:to])
			})
			r.Bind(y)
			if err := r.Gather(); err != nil {
				return err
			}
			for i := range y {
				if !slices.Equal(y[i], want[i]) {
					return fmt.Errorf("%s: tensor %d differs from the sum", name, i)
				}
			}
			return r.Close()
		})
		total := 0
		for _, n := range sizes(want) {
			total += n
		}
		if owned != total {
			t.Errorf("%s: %d elements have owners, want %d", name, owned, total)
		}
	}
}

// TestBFloat16RoundsBetweenMachinesOnly: and all ranks have the same bits.
func TestBFloat16RoundsBetweenMachinesOnly(t *testing.T) {
	for name, hosts := range machines {
		want := sumsOf(hosts)
		got := make([][][]float32, len(hosts))
		ranks(t, hosts, func(w *World) error {
			r, err := w.NewReducer(sizes(want), order, BFloat16)
			if err != nil {
				return err
			}
			x := tensors(w.rank)
			got[w.rank] = x
			r.Bind(x)
			r.Sum(false)
			if err := r.Wait(); err != nil {
				return err
			}
			return r.Close()
		})
		nodes := len(arrange(hosts, 0).nodes)
		// Each of the nodes' sums and that of all is rounded by half of 2^-8 at most.
		most := float64(nodes+1) * 0x1p-9 * float64(len(hosts)) * 0.5
		for i := range want {
			for k, v := range want[i] {
				if d := float64(got[0][i][k] - v); !(d >= -most && d <= most) || nodes == 1 && d != 0 {
					t.Fatalf("%s: element %d of tensor %d is %g, want %g", name, k, i, got[0][i][k], v)
				}
			}
			for rank := range got {
				if !slices.Equal(got[rank][i], got[0][i]) {
					t.Fatalf("%s: tensor %d differs on rank %d", name, i, rank)
				}
			}
		}
	}
}
