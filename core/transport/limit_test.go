package transport

import (
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/wire"
)

func TestALargeCallGetsLonger(t *testing.T) {
	o := Options{CallTimeout: time.Minute}
	for name, c := range map[string]struct {
		work core.Work
		want time.Duration
	}{
		"nothing to do":     {core.Work{}, time.Minute},
		"a layer":           {core.Work{Bytes: 20e6, Products: 3e9, Elementwise: 1e6}, time.Minute},
		"many products":     {core.Work{Products: 400e9}, 100 * time.Second},
		"many elements":     {core.Work{Elementwise: 400e9}, 100 * time.Second},
		"many bytes":        {core.Work{Bytes: 20e9}, 100 * time.Second},
		"all of them":       {core.Work{Bytes: 20e9, Products: 400e9, Elementwise: 400e9}, 300 * time.Second},
		"32k tokens' loss":  {core.NewWork(core.LinearCrossEntropy, core.Backward, lossFacts, 1<<15, 1<<15), 2 * time.Hour},
		"a short row's one": {core.NewWork(core.LinearCrossEntropy, core.Backward, lossFacts, 64, 64), time.Minute},
	} {
		if got := o.limit(c.work); got < c.want || got > c.want+c.want/5 {
			t.Errorf("%s: %v, want %v or little more", name, got, c.want)
		}
	}
}

// lossFacts are of Qwen3 0.6B.
var lossFacts = core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 1024, Vocab: 151936}

// TestACallIsWaitedForUpToItsLimit: one that has taken longer than CallTimeout, and whose limit is longer still.
func TestACallIsWaitedForUpToItsLimit(t *testing.T) {
	onEachPath(t, func(t *testing.T, o Options) {
		p := open(t, o)
		c := makeCall(t, core.RMSNorm, core.Forward, normFacts(), p.host, p.output)
		c.Site = "slow"
		if err := p.norm.Forward(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		// The record is still there, and so the call can be made again.
		p.proc.opts.CallTimeout = time.Millisecond
		asked := 0
		limit := func() time.Duration { asked++; return time.Hour }
		a, err := p.proc.call(t.Context(), 1, wire.RecordSize(len(c.In)+len(c.Out)), limit, func(time.Duration) {})
		if err == nil {
			err = statusError(a)
		}
		if err != nil || asked > 1 {
			t.Errorf("%v; asked for the limit %d times, want once", err, asked)
		}
		wantReference(t, c)
	})
}
