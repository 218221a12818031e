package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/internal/os/memory"
)

// stat is what /proc/PID/stat says of a process, see proc(5).
type stat struct {
	pid, parent, group, session int
	name                        string
	state                       byte
	ticks                       int64 // of a hundredth of a second that it has run
	threads                     int
	begun                       int64 // in ticks since the machine started
	mapped                      int64
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// "pid (name) state ...", where a name may have anything in it.
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	var f []string
	if 0 < from && from < to {
		f = strings.Fields(string(text[to+1:]))
	}
	if len(f) < 21 {
		return stat{}, fmt.Errorf("/proc/%d/stat has another form", pid)
	}
	number := func(field int) int64 { // counted as in proc(5), where the state is the third
		n, _ := strconv.ParseInt(f[field-3], 10, 64)
		return n
	}
	return stat{pid: pid, name: string(text[from+1 : to]), state: f[0][0],
		parent: int(number(4)), group: int(number(5)), session: int(number(6)),
		ticks: number(14) + number(15), threads: int(number(20)), begun: number(22), mapped: number(23)}, nil
}

// isStopped reports whether a process was stopped by a signal, or by who traces it.
func isStopped(pid int) bool {
	s, err := readStat(pid)
	return err == nil && (s.state == 'T' || s.state == 't')
}

// holdings returns what a process has by itself.
func holdings(pid int) (kerneltest.Holdings, error) {
	s, err := readStat(pid)
	if err != nil {
		return kerneltest.Holdings{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return kerneltest.Holdings{}, err
	}
	resident, err := memory.OfProcess(pid)
	return kerneltest.Holdings{Memory: resident, Descriptors: len(files), Threads: s.threads, Mapped: s.mapped,
		Processor: wanted(s)}, err
}

// wanted is for how long the threads of a process have run, and half of how long they have
// waited for a processor that others had; where that is not known, for how long they have run.
// Only half, because where one thread takes over from another, both wait for a moment, and on a
// busy machine for long: a plugin with one thread seemed to use 1.7 processors.
func wanted(s stat) time.Duration {
	dir := fmt.Sprintf("/proc/%d/task", s.pid)
	tasks, err := os.ReadDir(dir)
	if err != nil || len(tasks) == 0 {
		return time.Duration(s.ticks) * 10 * time.Millisecond
	}
	var sum time.Duration
	for _, t := range tasks {
		text, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Stat(dir + "/" + t.Name()); gone != nil {
				continue // it ended meanwhile
			}
		}
		var run, waited time.Duration
		if _, err := fmt.Sscan(string(text), &run, &waited); err != nil {
			return time.Duration(s.ticks) * 10 * time.Millisecond
		}
		sum += run + waited/2
	}
	return sum
}

// relatives returns the processes, others than pid, that pid has started at any remove, that
// are in its group or session, or that have the variable mark, NAME=VALUE, unless that is "".
// What has begun before this program did, pid has not started: most processes, into whose
// environments nobody has to look.
func relatives(pid int, mark string) ([]Left, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	begun := int64(0)
	if pid != 0 {
		if s, err := readStat(os.Getpid()); err == nil {
			begun = s.begun
		}
	}
	var all []stat
	for _, n := range names {
		number, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(number); err == nil && s.begun >= begun {
			all = append(all, s)
		}
	}
	ours := map[int]bool{}
	if pid != 0 {
		ours[pid] = true
	}
	var left []Left
	for again := true; again; { // until nobody has a parent who was found late
		again = false
		for _, s := range all {
			if ours[s.pid] || !(ours[s.parent] || ours[s.group] || ours[s.session] || hasVariable(s.pid, mark)) {
				continue
			}
			ours[s.pid], again = true, true
			if pid != 0 || s.state != 'Z' { // nobody can end what has ended
				left = append(left, Left{s.pid, s.name})
			}
		}
	}
	slices.SortFunc(left, func(a, b Left) int { return a.PID - b.PID })
	return left, nil
}

// hasVariable reports whether a process was started with a variable, where that can be read.
func hasVariable(pid int, mark string) bool {
	if mark == "" {
		return false
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark)
}
