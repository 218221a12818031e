package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed98097648/tune/core"
)

// Bugs of plugins that are in no output: in what a process keeps, and leaves behind.
func processBugs() map[string]planted {
	var kept []any
	after := func(op core.Op, f func(c *core.Call)) planted {
		return planted{op, func(run func() error, c *core.Call) error {
			err := run()
			f(c)
			return err
		}}
	}
	// go-plugin has put something else into os.Stderr
	raw := sync.OnceValue(func() *os.File { return os.NewFile(2, "stderr") })
	leave := sync.OnceFunc(func() {
		start("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &")
		for _, path := range []string{filepath.Join(os.TempDir(), "compiled.bin"), "bug_leaves_all.log"} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				panic(err)
			}
		}
	})
	calls := 0
	count := &atomic.Int64{} // also of calls
	return map[string]planted{
		// Each of these is seen by itself.
		"bug_keeps_all": after(core.RMSNorm, func(c *core.Call) {
			mapMemory()
			fmt.Println("rms_norm of", c.Tokens(), "tokens")
			if calls++; calls%100 != 0 {
				return
			}
			kept = append(kept, must(os.Open(os.DevNull)))
			go func() {
				runtime.LockOSThread()
				time.Sleep(time.Hour)
			}()
			must(os.CreateTemp("", "scratch-*")).Close()
		}),
		// So are these. The first child has left its group and its session, and the parent between them has ended.
		"bug_leaves_all": after(core.RMSNorm, func(c *core.Call) {
			fmt.Fprintln(raw(), "rms_norm of", c.Tokens(), "tokens")
			leave()
			if calls++; calls%100 == 0 {
				start("tail", "-f", os.DevNull)
			}
		}),
		// It waits for the next call after a long one, and so does no other of the plugin's processes.
		"bug_spins": {core.RMSNorm, func(run func() error, c *core.Call) error {
			n, err := count.Add(1), run()
			if c.Tokens() == 512 && os.Getenv("TUNE_THREADS") != "1" {
				go func() {
					for count.Load() == n {
					}
				}()
			}
			return err
		}},
		// It answers before it is done.
		"bug_late": after(core.SwiGLU, func(c *core.Call) {
			b := c.Out[0].Data
			last := b[len(b)-1]
			go func() {
				b[len(b)-1] = ^last
				time.Sleep(20 * time.Millisecond)
				if c.Facts.Intermediate > 0 {
					b[len(b)-1] = last ^ 1
				}
			}()
		}),
		// It writes to its memory far behind an output: beyond the guards, into somebody else's.
		"bug_bystander": after(core.RMSNorm, func(c *core.Call) {
			if last := c.Out[len(c.Out)-1].Data; c.Tokens() == 512 && os.Getenv("TUNE_THREADS") != "1" {
				*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(last)), len(last)+1000)) = 1
			}
		}),
		// It uses twelve threads where it was told to use one: for so much work, not for so long, as
		// on a busy machine it would else be over before the threads had run; and for so much, in so many, that who
		// calls, and has to wait for a processor between calls, hardly counts.
		"bug_all_processors": {core.SwiGLU, func(run func() error, c *core.Call) error {
			var wg sync.WaitGroup
			if c.Tokens() == 512 && os.Getenv("TUNE_THREADS") == "1" {
				runtime.GOMAXPROCS(12)
				for i := range 12 {
					wg.Go(func() {
						x := uint64(i)
						for range 20_000_000 {
							x = x*6364136223846793005 + 1
						}
						runtime.KeepAlive(x)
					})
				}
			}
			err := run()
			wg.Wait()
			return err
		}},
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// start starts a program that nobody waits for.
func start(name string, args ...string) {
	if err := exec.Command(name, args...).Start(); err != nil {
		panic(err)
	}
}
