package preference

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
)

// recorded is a variant of what trl's code gave in float64.
type recorded struct {
	t    *testing.T
	file *checkpoint.File
	name string
}

func (r recorded) has(name string) bool {
	_, _, ok := r.file.Lookup(r.name + "." + name)
	return ok
}

func (r recorded) floats(name string) []float64 {
	r.t.Helper()
	x, err := r.file.Tensor(r.name + "." + name)
	if err != nil {
		r.t.Fatal(err)
	}
	if x.DType == core.Float64 {
		return x.Float64s()
	}
	var wide []float64
	for _, v := range x.Float32s() {
		wide = append(wide, float64(v))
	}
	return wide
}

func (r recorded) ints(name string) []int64 {
	r.t.Helper()
	x, err := r.file.Tensor(r.name + "." + name)
	if err != nil {
		r.t.Fatal(err)
	}
	return x.Int64s()
}

// eachVariant runs a test on each recorded variant whose inputs are log-probabilities of sequences.
func eachVariant(t *testing.T, op string, test func(t *testing.T, r recorded, params map[string]any)) {
	text, err := os.ReadFile(testdata.Shared(t, "golden", "ops", op+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var meta struct {
		Variants map[string]struct{ Params map[string]any }
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Open(testdata.Shared(t, "golden", "ops", op+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for name, v := range meta.Variants {
		if name[:3] == "seq" {
			n++
			t.Run(name, func(t *testing.T) { test(t, recorded{t, f, name}, v.Params) })
		}
	}
	if n == 0 {
		t.Errorf("%s has no variants of sequences", op)
	}
}

// near fails where float64 rounding does not explain a difference: scale is the largest term that
// the value is a difference of.
func near(t *testing.T, name string, got, want, scale float64) {
	t.Helper()
	const limit = 1e-12
	if !(math.Abs(got-want) <= limit*max(scale, math.Abs(want))) {
		t.Errorf("%s is %.17g, want %.17g", name, got, want)
	}
}

// number is a parameter, or 0.
func number(params map[string]any, name string) float64 {
	n, _ := params[name].(float64)
	return n
}

func TestLossesOfPairsEqualTheRecordedOnes(t *testing.T) {
	for _, op := range []string{DPO, ORPO, SimPO} {
		t.Run(op, func(t *testing.T) { eachVariant(t, op, comparePairs) })
	}
}

func comparePairs(t *testing.T, r recorded, params map[string]any) {
	c := Default()
	c.Beta, c.Gamma, c.Smoothing = number(params, "beta"), number(params, "gamma"), number(params, "label_smoothing")
	if c.Stage = SimPO; r.has("f64.or_losses") {
		c.Stage = ORPO
	} else if loss, ok := params["loss_type"].(string); ok {
		c.Stage, c.Loss = DPO, loss
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	chosen, rejected := r.floats("in.policy_chosen_logps"), r.floats("in.policy_rejected_logps")
	var answers []Answer
	for i := range chosen {
		a := Answer{Role: data.Chosen, Tokens: 1, LogProb: chosen[i]}
		b := Answer{Role: data.Rejected, Tokens: 1, LogProb: rejected[i]}
		if c.NeedsReference() {
			a.Reference, b.Reference = r.floats("in.ref_chosen_logps")[i], r.floats("in.ref_rejected_logps")[i]
		}
		if r.has("in.chosen_len") {
			a.Tokens, b.Tokens = int(r.ints("in.chosen_len")[i]), int(r.ints("in.rejected_len")[i])
		}
		answers = append(answers, a, b)
	}
	var of Total
	c.Count(&of, answers)
	var sums Sums
	loss, m := c.Add(answers, of, &sums), sums.Metrics()
	following, nll := 0.0, 0.0 // the recorded loss of ORPO is without that of following the chosen answers
	if c.Stage == ORPO {
		following, nll = 1/float64(of.ChosenTokens), *m.NLL
	}
	near(t, "loss", loss-nll, r.floats("f64.loss")[0], math.Abs(nll))
	for i := range chosen {
		near(t, "gradient of a chosen answer", answers[2*i].Slope+following, r.floats("f64.grad.policy_chosen_logps")[i], 1)
		near(t, "gradient of a rejected answer", answers[2*i+1].Slope, r.floats("f64.grad.policy_rejected_logps")[i], 1)
	}
	compareMetrics(t, r, *m)
}

// compareMetrics compares what trl logs of the variant.
func compareMetrics(t *testing.T, r recorded, m Metrics) {
	all := m.Named()
	scale := math.Abs(all["logps/chosen"]) + math.Abs(all["logps/rejected"])
	for _, name := range []string{"rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
		"logps/chosen", "logps/rejected", "log_odds_ratio", "log_odds_chosen", "kl"} {
		if recorded := "f64." + strings.ReplaceAll(name, "/", "_"); r.has(recorded) {
			near(t, name, all[name], r.floats(recorded)[0], scale)
		}
	}
}

func TestTheLossOfMarkedAnswersEqualsTheRecordedOne(t *testing.T) {
	eachVariant(t, KTO, func(t *testing.T, r recorded, params map[string]any) {
		c := Default()
		c.Stage, c.Beta = KTO, number(params, "beta")
		c.ChosenWeight, c.RejectedWeight = number(params, "desirable_weight"), number(params, "undesirable_weight")
		var answers []Answer
		reference := r.floats("in.ref_logps")
		for i, p := range r.floats("in.policy_logps") {
			role := data.Rejected
			if r.ints("in.labels_desirable")[i] == 1 {
				role = data.Chosen
			}
			answers = append(answers, Answer{Role: role, Tokens: 1, LogProb: p, Reference: reference[i]})
		}
		marked := len(answers)
		for _, ratio := range r.floats("in.kl_logratios") {
			answers = append(answers, Answer{Role: data.Mismatched, Tokens: 1, LogProb: ratio})
		}
		var of Total
		c.Count(&of, answers)
		var sums Sums
		near(t, "loss", c.Add(answers, of, &sums), r.floats("f64.loss")[0], 1)
		for i, want := range r.floats("f64.grad.policy_logps")[:marked] {
			near(t, "gradient", answers[i].Slope, want, 1)
		}
		compareMetrics(t, r, *sums.Metrics())
	})
}
