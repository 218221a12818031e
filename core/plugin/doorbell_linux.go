package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// isReady reports whether a plugin is to give back the memory that it has needed to start, to bind and to verify, as
// it does among its first requests: behind the 16th, and twice more. It takes some milliseconds, and processes of a
// few requests are many.
func isReady(requests uint32) bool { return requests == 16 || requests == 128 || requests == 1024 }

// answerDoorbell answers whatever is rung for, for as long as the process lives.
func answerDoorbell(s *server) error {
	spin, err := time.ParseDuration(os.Getenv(wire.EnvSpin))
	if err != nil {
		return fmt.Errorf("transport: %s: %w", wire.EnvSpin, err)
	}
	f := os.NewFile(wire.ControlFD, "control")
	view, err := shm.Map(f, wire.ControlSize, true)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("transport: control memory: %w", err)
	}
	bells, spinner := wire.NewBells(view.Bytes()), &wire.Spinner{Limit: spin}
	bells.TakeSeries(wire.MaxSeries)
	thread := bells.Offer()
	s.greet("unix", "-", wire.GreetDoorbell, "")
	for requests, number := uint32(1), bells.Replied(); ; requests++ {
		number = bells.AwaitRequest(number, spinner, thread)
		var a wire.Answer
		switch kind, body := bells.Request(); kind {
		case wire.Call:
			a = s.called(context.Background(), body)
		case wire.Series:
			a = s.series(context.Background(), body, bells)
		default:
			a = s.asked(kind, string(body))
		}
		bells.Give(number, a)
		if isReady(requests) {
			memory.GiveBack()
		}
	}
}
