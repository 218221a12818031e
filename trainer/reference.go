package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/lora"
)

// Reference has the log-probabilities that the reference model gives to answers. They are computed before
// the first step, so that no second model lies in memory, and found by the answers' own tokens.
type Reference struct {
	model    string // what the numbers are of
	logProbs map[answerKey]float64
	given    map[answerKey]float64 // those of them that files had
}

// answerKey is the beginning of the SHA-256 of an answer with its prompt.
type answerKey [16]byte

// find returns the key of an answer, which lies so in a batch, and whether its log-probability is known. The key is the
// same however the answer lies.
func (r *Reference) find(b data.Batch, span data.Span) (key answerKey, known bool) {
	h := sha256.New()
	ids, labels := b.Part(span)
	for _, values := range [][]int32{ids, labels} {
		_ = binary.Write(h, binary.LittleEndian, values) // a hash never fails
	}
	copy(key[:], h.Sum(nil))
	_, known = r.logProbs[key]
	return key, known
}

// Refer computes the reference's log-probabilities of all answers in rows that it does not know yet, with
// the model as it is now, without its adapter if that has been trained before. It returns how many batches it computed.
// One that is not finite gives an error that wraps ErrNonFinite, as in Engine.Step. Each of several ranks computes its
// share of the batches, and all get the result.
func (e *Engine) Refer(ctx context.Context, rows data.Rows) (computed int, err error) {
	if e.reference == nil || rowsIn(rows) == 0 {
		return 0, nil
	}
	computed, err = e.refer(ctx, rows)
	return e.reference.share(e.cfg.World, computed, err)
}

// refer is Refer of this rank's share.
func (e *Engine) refer(ctx context.Context, rows data.Rows) (computed int, err error) {
	r, w := e.reference, e.cfg.World
	if err := e.evaluator(); err != nil {
		return 0, err
	}
	if a := e.model.Adapter; a != nil && e.cfg.Trained {
		defer a.Off()()
	}
	j := e.eval.judge
	j.measuring = true
	defer func() { j.measuring = false }()
	batches, failed := data.StreamPart(rows, e.cfg.Batch, w.Rank(), w.Size())
	for b := range batches {
		if err := ctx.Err(); err != nil {
			return computed, err
		}
		err := b.Valid()
		if err == nil {
			b, err = e.eval.graphs.fit(b)
		}
		if err == nil {
			err = j.begin(b, j.total(b))
		}
		if err != nil {
			return computed, err
		}
		known := true
		for _, span := range j.spans {
			_, has := r.find(b, span)
			known = known && has
		}
		if known {
			continue
		}
		if computed++; b.Targets() == 0 {
			continue
		}
		if _, err := e.eval.forward(ctx, b, b.Targets()); err != nil {
			return computed, err
		}
	}
	return computed, failed()
}

// share gives all ranks what each has, of which the first counts where several have the same answer, and how many batches
// they have computed together. That one has failed is an error of all.
func (r *Reference) share(w *distributed.World, computed int, failed error) (int, error) {
	if err := agree(w, failed); err != nil || w == nil {
		return computed, err
	}
	mine := binary.LittleEndian.AppendUint64(nil, uint64(computed))
	for key, p := range r.logProbs {
		mine = binary.LittleEndian.AppendUint64(append(mine, key[:]...), math.Float64bits(p))
	}
	all, err := w.Exchange("the reference's log-probabilities", mine)
	computed = 0
	for _, told := range slices.Backward(all) {
		computed += int(binary.LittleEndian.Uint64(told))
		for pair := range slices.Chunk(told[8:], len(answerKey{})+8) {
			key, p := answerKey(pair[:len(answerKey{})]), pair[len(answerKey{}):]
			r.logProbs[key] = math.Float64frombits(binary.LittleEndian.Uint64(p))
		}
	}
	return computed, err
}

// referenceFile is where a checkpoint has the reference's log-probabilities.
const referenceFile = "reference.json"

// written is the form of a Reference in a file.
type written struct {
	Version  int                `json:"version"`
	Model    string             `json:"model"`
	LogProbs map[string]float64 `json:"log_probs"` // by the hexadecimal key of the answer
}

const writtenVersion = 1

func (r *Reference) marshal() ([]byte, error) {
	w := written{writtenVersion, r.model, map[string]float64{}}
	for key, p := range r.logProbs {
		w.LogProbs[hex.EncodeToString(key[:])] = p
	}
	b, err := json.MarshalIndent(w, "", " ")
	return append(b, '\n'), err
}

// load adds what a file holds. One that does not exist holds nothing.
func (r *Reference) load(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var w written
	if err := plainjson.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if w.Version != writtenVersion {
		return fmt.Errorf("%s: version is %d, this program reads %d: remove it", path, w.Version, writtenVersion)
	}
	if w.Model != r.model {
		return fmt.Errorf("%s is of another model, or of other arithmetic (%s): remove it, or name another file (this run: %s)",
			path, w.Model, r.model)
	}
	for name, p := range w.LogProbs {
		b, err := hex.DecodeString(name)
		if len(b) != len(answerKey{}) || err != nil || !finite(p) {
			return fmt.Errorf("%s: %q: %g is not the log-probability of an answer: remove the file", path, name, p)
		}
		r.logProbs[answerKey(b)] = p
	}
	return nil
}

// begun is what the name of a cache ends in that lacks answers, as the pass over them was interrupted. One under its
// own name is taken to have all; see Config.refers.
const begun = ".partial"

func (r *Reference) save(path string) error {
	text, err := r.marshal()
	if err == nil {
		err = checkpoint.WriteFileAtomic(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("preference.Config.RefCache: %w", err)
	}
	return nil
}

// refer gives the engine the reference's log-probabilities of all rows of the job: from files, or computed.
func (r *session) refer(ctx context.Context) error {
	e := r.engine.reference
	if e == nil {
		return nil
	}
	if _, err := e.share(r.job.World, 0, r.known()); err != nil {
		return err
	}
	e.given = maps.Clone(e.logProbs)
	return r.compute(ctx)
}

// known gives the reference what files hold of it.
func (r *session) known() error {
	e, j, c := r.engine.reference, r.job, r.job.Config
	cache := c.Preference.RefCache
	if cache != "" || j.Resume != nil || c.Checkpoints.saves() {
		model, _, err := j.fingerprint()
		if err != nil {
			return err
		}
		if e.model, err = besideAdapter(j.arithmetic(model), c.LoRA.Adapter); err != nil {
			return err
		}
	}
	if cache != "" {
		if err := errors.Join(e.load(cache), e.load(cache+begun)); err != nil {
			return fmt.Errorf("preference.Config.RefCache: %w", err)
		}
	}
	if j.Resume != nil { // last: the run goes on with the numbers that it had, to the bit
		if err := e.load(j.Resume.file(referenceFile)); err != nil {
			return fmt.Errorf("trainer: resume: %w", err)
		}
	}
	return nil
}

// compute gives the engine what no file has given, all of it: if a kernel is taken off meanwhile, or has been since,
// none of it may be of that one.
func (r *session) compute(ctx context.Context) error {
	e, j, cache := r.engine.reference, r.job, r.job.Config.Preference.RefCache
	if e == nil {
		return nil
	}
	computed := 0
	err := r.rightly(func() error {
		return Compared(r.check, func() error {
			e.logProbs, computed = maps.Clone(e.given), 0
			before, total := 0, rowsIn(j.Train)+rowsIn(j.Eval)
			for _, rows := range []data.Rows{j.Train, j.Eval} {
				n, err := r.engine.Refer(ctx, r.follow("reference", rows, before, total))
				if err != nil {
					return err
				}
				computed, before = computed+n, before+rowsIn(rows)
			}
			return nil
		})
	})
	if err != nil {
		err = fmt.Errorf("the reference's log-probabilities: %w", err)
		if cache == "" || !r.leads() || !errors.Is(err, context.Canceled) || len(e.logProbs) == len(e.given) {
			return err
		}
		if failed := e.save(cache + begun); failed != nil {
			return errors.Join(err, failed)
		}
		call(j.Hooks.OnWarning, fmt.Errorf("what the reference gave so far is in %s, from which the next run goes on",
			cache+begun))
		return err
	}
	r.referred = computed > 0
	if cache != "" && r.referred && r.leads() {
		if err := e.save(cache); err != nil {
			return err
		}
		if err := os.Remove(cache + begun); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("preference.Config.RefCache: %w", err)
		}
	}
	return nil
}

// arithmetic says, of the model with such a fingerprint, all that its log-probabilities depend on.
func (j *Job) arithmetic(model string) string {
	c := j.Config
	how := fmt.Sprintf("SHA-256 %s, precision %s, int8 %v", model, c.Precision, c.LoRA.BaseInt8)
	if c.LoRA.BaseNF4 {
		how += ", nf4"
	}
	if c.LoRA.Init != "" { // rounded or quantised without the part that adapters have
		how += fmt.Sprintf(", %s of rank %d", c.LoRA.Init, c.LoRA.Rank)
		if len(c.LoRA.Targets) > 0 || len(c.LoRA.Layers) > 0 {
			how += fmt.Sprintf(" for %q of layers %v", c.LoRA.Targets, c.LoRA.Layers)
		}
	}
	if c.LoRA.Base() != core.InvalidDType && len(c.Select.Modules) > 0 { // which are not quantised
		how += fmt.Sprintf(", but for %q", c.Select.Modules)
	}
	if c.Words.Any() && j.Tokenizer != nil { // whose rows are not as the file has them
		how += fmt.Sprintf(", %d tokens", j.Tokenizer.VocabSize())
	}
	return how
}

// besideAdapter adds what a folder's adapter has whole, which is of the reference, to what says which model that is.
func besideAdapter(model, dir string) (string, error) {
	if dir == "" {
		return model, nil
	}
	whole, err := lora.Modules(dir)
	if err != nil || len(whole) == 0 {
		return model, err
	}
	text, err := os.ReadFile(filepath.Join(dir, lora.WeightsFile))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, modules of %x", model, sha256.Sum256(text)), nil
}
