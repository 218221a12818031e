package wandb_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/wandb"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

// records reads the data of a .wandb file, as the format's description says and without the writer's code.
func records(t *testing.T, text []byte) [][]byte {
	t.Helper()
	// The magic number is of the checksum of a name.
	if magic := uint16(crc32.ChecksumIEEE([]byte("Weights & Biases"))); len(text) < 7 || string(text[:4]) != ":W&B" ||
		binary.LittleEndian.Uint16(text[4:]) != magic || text[6] != 0 {
		t.Fatalf("the file begins with %q", text[:min(len(text), 7)])
	}
	var all [][]byte
	var open []byte
	state := "whole"
	for at := 7; at < len(text); {
		if left := 32768 - at%32768; left < 7 {
			if strings.Trim(string(text[at:at+left]), "\x00") != "" {
				t.Fatalf("the rest of the block at %d is not zero", at)
			}
			at += left
			continue
		}
		sum, n, kind := binary.LittleEndian.Uint32(text[at:]), int(binary.LittleEndian.Uint16(text[at+4:])), text[at+6]
		data := text[at+7 : at+7+n]
		if at%32768+7+n > 32768 {
			t.Fatalf("the part at %d goes beyond its block", at)
		}
		if want := crc32.ChecksumIEEE(append([]byte{kind}, data...)); sum != want {
			t.Fatalf("the part at %d has the checksum %x, want %x", at, sum, want)
		}
		open = append(open, data...)
		switch fmt.Sprint(state, kind) {
		case "whole1", "part4":
			all, open, state = append(all, open), nil, "whole"
		case "whole2", "part3":
			state = "part"
		default:
			t.Fatalf("a part of kind %d at %d after a %s", kind, at, state)
		}
		at += 7 + n
	}
	if state != "whole" {
		t.Fatal("the last record has no end")
	}
	return all
}

// fields returns the values of a message by the numbers of their fields: []byte or uint64.
func fields(t *testing.T, b []byte) map[protowire.Number][]any {
	t.Helper()
	all := map[protowire.Number][]any{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if b = b[max(n, 0):]; n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			all[number], b = append(all[number], v), b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			all[number], b = append(all[number], v), b[n:]
		default:
			t.Fatalf("field %d has the type %d", number, kind)
		}
	}
	return all
}

// items returns names and values of the items in a field, with the names in the field that key says.
func items(t *testing.T, all []any, key protowire.Number) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, b := range all {
		f := fields(t, b.([]byte))
		var v any
		if len(f[key]) != 1 || len(f[16]) != 1 || json.Unmarshal(f[16][0].([]byte), &v) != nil {
			t.Fatalf("an item has %v", f)
		}
		out[string(f[key][0].([]byte))] = v
	}
	return out
}

func step(n int, loss float64) *journal.Step {
	return &journal.Step{Time: noon.Add(time.Duration(n) * time.Second), Step: n, Loss: loss, LR: 0.5, GradNorm: 2,
		Tokens: 8, Seconds: 2}
}

// write makes a run of events, and returns the file.
func write(t *testing.T, earlier *journal.Run, events ...journal.Event) []byte {
	t.Helper()
	w, err := wandb.New(t.TempDir(), "my-run", noon)
	if err != nil {
		t.Fatal(err)
	}
	if earlier != nil {
		w.Resume(earlier)
	}
	for _, e := range events {
		if err := w.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(w.Dir)
	id := strings.TrimPrefix(name, "offline-run-20260102_120000-")
	if len(id) != 8 || id == name {
		t.Fatalf("the folder is %s", name)
	}
	text, err := os.ReadFile(filepath.Join(w.Dir, "run-"+id+".wandb"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestARunComesBack(t *testing.T) {
	start := &journal.Start{Time: noon, Config: json.RawMessage(`{"lr":0.5,"data":{"paths":["a"]},"note":"x\"y"}`)}
	bad := step(2, math.NaN())
	bad.Metrics = journal.Metrics{"rewards/chosen": 3}
	all := records(t, write(t, nil, start, &journal.Eval{Time: noon, Loss: 9}, step(1, 4), bad,
		&journal.Eval{Time: noon.Add(3 * time.Second), Step: 2, Loss: 7}, &journal.Warning{},
		&journal.End{Time: noon.Add(9 * time.Second), Interrupted: true}))
	if len(all) != 6 {
		t.Fatalf("%d records, want 6", len(all))
	}
	var kinds []protowire.Number
	var bodies []map[protowire.Number][]any
	for i, r := range all {
		f := fields(t, r)
		if len(f) != 2 || f[1][0] != uint64(i+1) {
			t.Errorf("record %d has %v", i, f)
		}
		for number, v := range f {
			if number != 1 {
				kinds, bodies = append(kinds, number), append(bodies, fields(t, v[0].([]byte)))
			}
		}
	}
	if diff := cmp.Diff([]protowire.Number{17, 2, 2, 2, 3, 18}, kinds); diff != "" {
		t.Fatalf("records (-want +got):\n%s", diff)
	}
	run := bodies[0]
	if len(run[1][0].([]byte)) != 8 || string(run[3][0].([]byte)) != "tune" || string(run[8][0].([]byte)) != "my-run" {
		t.Errorf("the run is %v", run)
	}
	stamp := fields(t, run[17][0].([]byte))
	if stamp[1][0] != uint64(noon.Unix()) || stamp[2][0] != uint64(5) {
		t.Errorf("it began at %v", stamp)
	}
	config := items(t, fields(t, run[4][0].([]byte))[1], 1)
	want := map[string]any{"lr": 0.5, "note": `x"y`, "data": map[string]any{"paths": []any{"a"}}}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	at := float64(noon.Unix())
	first := map[string]any{"_step": 1.0, "_timestamp": at + 1, "_runtime": 1.0, "train/loss": 4.0,
		"train/learning_rate": 0.5, "train/grad_norm": 2.0, "train/tokens_per_second": 4.0}
	// The loss of the second step is no number; its evaluation is in the same row.
	second := map[string]any{"_step": 2.0, "_timestamp": at + 3, "_runtime": 3.0, "train/learning_rate": 0.5,
		"train/grad_norm": 2.0, "train/tokens_per_second": 4.0, "train/rewards/chosen": 3.0, "eval/loss": 7.0}
	for i, want := range []map[string]any{{"_step": 0.0, "_timestamp": at, "_runtime": 0.0, "eval/loss": 9.0}, first,
		second} {
		if diff := cmp.Diff(want, items(t, bodies[i+1][1], 2)); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
		if n := fields(t, bodies[i+1][2][0].([]byte)); n[1][0] != uint64(i) {
			t.Errorf("row %d is of step %v", i, n)
		}
	}
	second["train/loss"] = 4.0 // the last that is a number
	if diff := cmp.Diff(second, items(t, bodies[4][1], 2)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if exit := bodies[5]; exit[1][0] != uint64(255) || exit[2][0] != uint64(9) {
		t.Errorf("it ended with %v", exit)
	}
}

// TestRecordsAreCutAtBlocks: at every distance from the end of a block, and over several.
func TestRecordsAreCutAtBlocks(t *testing.T) {
	for _, size := range []int{32600, 32650, 32660, 32661, 32662, 32663, 32664, 32665, 32666, 32667, 32668, 32669, 32670,
		32671, 32672, 32673, 32674, 32675, 32676, 32680, 32768, 65600, 120000} {
		text := strings.Repeat("x", size)
		config, err := json.Marshal(map[string]string{"k": text})
		if err != nil {
			t.Fatal(err)
		}
		all := records(t, write(t, nil, &journal.Start{Time: noon, Config: config}, step(1, 1), step(2, 2)))
		if len(all) != 3 || !strings.Contains(string(all[0]), text) {
			t.Fatalf("with %d bytes: %d records", size, len(all))
		}
	}
}

// TestAResumedRunIsOne: what was done before comes first, without what is done again.
func TestAResumedRunIsOne(t *testing.T) {
	start := &journal.Start{Time: noon, Config: json.RawMessage(`{}`)}
	earlier := &journal.Run{}
	for _, e := range []journal.Event{start, &journal.Eval{Loss: 9}, step(1, 1), step(2, 2),
		&journal.Eval{Step: 2, Loss: 8}, step(3, 3), &journal.Eval{Step: 3, Loss: 7}} {
		if err := earlier.Record(e); err != nil {
			t.Fatal(err)
		}
	}
	again := *start
	again.Resumed = 2
	all := records(t, write(t, earlier, &again, step(3, 33), &journal.Eval{Step: 3, Loss: 6}, step(4, 44)))
	var got []string
	for _, r := range all {
		if h := fields(t, r)[2]; h != nil {
			f := items(t, fields(t, h[0].([]byte))[1], 2)
			got = append(got, fmt.Sprint(f["_step"], f["train/loss"], f["eval/loss"]))
		}
	}
	want := []string{"0 <nil> 9", "1 1 <nil>", "2 2 8", "3 33 6", "4 44 <nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
