package main

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// TestAnInterruptedCommandThatGoesOnSaysSo once, and one that ends at once or has said so says
// nothing.
func TestAnInterruptedCommandThatGoesOnSaysSo(t *testing.T) {
	const note = "tune: interrupted: ending what is being computed; interrupt again to give up at once\n"
	for name, tt := range map[string]struct {
		interrupted, told bool
		patience          time.Duration
		want              string
	}{
		"it goes on":      {interrupted: true, want: note},
		"it has said so":  {interrupted: true, told: true},
		"it ends at once": {interrupted: true, patience: time.Hour},
		"no interrupt":    {},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			said := make(chan struct{})
			a := &app{stderr: writerFunc(func(b []byte) { out.Write(b); close(said) })}
			a.told.Store(tt.told)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.interrupted {
				cancel()
			}
			stop := a.tellOfInterrupt(ctx, tt.patience)
			if tt.want != "" {
				<-said
			}
			stop()
			if out.String() != tt.want {
				t.Errorf("it says %q, want %q", &out, tt.want)
			}
		})
	}
}

type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

// TestOnlyACommandThatSavesSaysThatNothingWasSaved when it is interrupted.
func TestOnlyACommandThatSavesSaysThatNothingWasSaved(t *testing.T) {
	for saves, want := range map[bool]string{true: "tune: interrupted; nothing was saved\n",
		false: "tune: interrupted\n"} {
		var out bytes.Buffer
		a := &app{stderr: &out, saves: saves}
		if code := a.report(context.Canceled); code != exitInterrupted || out.String() != want {
			t.Errorf("saves %v: %q with code %d, want %q", saves, &out, code, want)
		}
	}
}
