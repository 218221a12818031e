package corpus

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

func TestResolve(t *testing.T) {
	dir := folder(t, map[string]string{"b.txt": "2", "a.jsonl": "", "c.CSV": "", "d.json": "[]", "e.parquet": "",
		"README": "5", "sub.txt/e.txt": "6", "x,y@2.txt": "", "dataset_info.json": "{}"})
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		path    string
		files   []string
		weights []float64
		skipped []string
	}{
		"a file": {in("b.txt"), []string{"b.txt"}, []float64{1}, nil},
		"a folder": {dir, []string{"a.jsonl", "b.txt", "c.CSV", "d.json", "e.parquet", "x,y@2.txt"},
			[]float64{1}, []string{"README", "dataset_info.json", "sub.txt/"}},
		"a weight":                 {in("b.txt") + "@0.3", []string{"b.txt"}, []float64{0.3}, nil},
		"a list":                   {in("b.txt") + "@2," + in("d.json"), []string{"b.txt", "d.json"}, []float64{2, 1}, nil},
		"a list with spaces":       {in("b.txt") + "@2, " + in("d.json"), []string{"b.txt", "d.json"}, []float64{2, 1}, nil},
		"a name with all of these": {in("x,y@2.txt"), []string{"x,y@2.txt"}, []float64{1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sources, err := Resolve([]string{c.path}, "")
			if err != nil {
				t.Fatal(err)
			}
			var files, skipped []string
			var weights []float64
			for _, s := range sources {
				for _, f := range s.Files {
					files = append(files, filepath.Base(f))
				}
				weights, skipped = append(weights, s.Weight), append(skipped, s.Skipped...)
			}
			if !slices.Equal(files, c.files) || !slices.Equal(weights, c.weights) || !slices.Equal(skipped, c.skipped) {
				t.Errorf("files %q, weights %v, skipped %q", files, weights, skipped)
			}
		})
	}
}

func TestResolveSaysWhatIsWrong(t *testing.T) {
	many := map[string]string{}
	for _, name := range strings.Split("abcdefghij", "") {
		many[name+".xml"] = ""
	}
	few, empty := folder(t, map[string]string{"a.xml": "", "sub/a.txt": ""}), t.TempDir()
	info := folder(t, map[string]string{"dataset_info.json": `{"known": {"file_name": "x.txt"}}`, "x.txt": "x"})
	for name, c := range map[string]struct{ path, dir, want string }{
		"an empty folder": {empty, "", "it is empty"},
		"a folder without data": {few, "", "holds no data file (.csv, .json, .jsonl, .ndjson, .parquet, .txt), only " +
			"a.xml, sub/"},
		"a folder of many files": {folder(t, many), "",
			"only a.xml, b.xml, c.xml, d.xml, e.xml, f.xml, g.xml, h.xml and 2 more"},
		"a name without a folder": {"alpaca_en_demo", "", "corpus.Config.Dir"},
		"an unknown name": {"unknown", info,
			`"unknown" is neither a file or folder nor a name in ` + filepath.Join(info, "dataset_info.json") +
				", which has known"},
		"a name that is near": {"knwon", info, "; did you mean known?"},
		"a missing file":      {"nothing.txt", "", "nothing.txt does not exist"},
		"a name of a hub":     {"tatsu-lab/alpaca", "", "nothing is downloaded: get the data set first"},
		"a missing registry": {"x", filepath.Join(empty, "none"),
			"none/dataset_info.json does not exist, nor does the folder "},
		"a weight of 0":         {"a.txt@0", "", `the weight "0" must be a number above 0`},
		"a weight of words":     {"a.txt@half", "", `the weight "half"`},
		"a weight that is none": {"a.txt@NaN", "", `the weight "NaN"`},
		"an empty path":         {"", "", "a path is empty"},
		"no registry": {"x", empty,
			"has no dataset_info.json; without that file, give its files to corpus.Config.Paths"},
		"a broken registry": {"x", folder(t, map[string]string{"dataset_info.json": "["}), "corpus.Config.Dir: "},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Resolve([]string{c.path}, c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, error %v, want %q", s, err, c.want)
			}
		})
	}
}

func TestEntriesOfARegistryAreReadOrRefused(t *testing.T) {
	for name, c := range map[string]struct{ entry, want string }{
		"a file":   {`{"file_name": "x.txt"}`, ""},
		"a folder": {`{"file_name": "sub", "split": "train"}`, ""},
		"a hub": {`{"hf_hub_url": "a/b", "file_name": "x.txt"}`,
			`hf_hub_url is "a/b", but nothing is downloaded`},
		"another hub":         {`{"ms_hub_url": "a/b"}`, "ms_hub_url"},
		"a script":            {`{"script_url": "a"}`, "script_url"},
		"a cloud":             {`{"cloud_file_name": "s3://a"}`, "cloud_file_name"},
		"a subset":            {`{"file_name": "x.txt", "subset": "en"}`, `subset is "en"`},
		"a split":             {`{"file_name": "x.txt", "split": "test"}`, `split is "test"`},
		"pairs":               {`{"file_name": "x.txt", "ranking": true}`, ""},
		"marks":               {`{"file_name": "x.txt", "columns": {"kto_tag": "label"}}`, ""},
		"pictures":            {`{"file_name": "x.txt", "columns": {"images": "images"}}`, "only text"},
		"no file":             {`{}`, "no file_name"},
		"a file that is gone": {`{"file_name": "y.txt"}`, "y.txt"},
		"an unknown field":    {`{"file_name": "x.txt", "colums": {}}`, `unknown field "colums"`},
		"an unknown column":   {`{"file_name": "x.txt", "columns": {"promt": "a"}}`, `columns has the unknown key "promt"`},
		"an unknown tag":      {`{"file_name": "x.txt", "tags": {"role": "a"}}`, `tags has the unknown key "role"`},
		"an unknown layout":   {`{"file_name": "x.txt", "formatting": "openai"}`, `formatting is "openai"`},
		"a negative number":   {`{"file_name": "x.txt", "num_samples": -1}`, "num_samples is -1"},
		"a number for a name": {`{"file_name": 1}`, "dataset_info.json: set: "},
	} {
		t.Run(name, func(t *testing.T) {
			// What is wrong with another entry is nobody's business.
			dir := folder(t, map[string]string{"dataset_info.json": `{"other": {"hf_hub_url": 1}, "set": ` + c.entry + `}`,
				"x.txt": "x", "sub/x.txt": "x"})
			s, err := Resolve([]string{"set@0.5"}, dir)
			switch {
			case c.want == "" && (err != nil || len(s) != 1 || len(s[0].Files) != 1 || s[0].Weight != 0.5):
				t.Errorf("%+v, %v", s, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The data sets that LLaMA-Factory ships are read by their names, or refused.
func TestARealRegistry(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "llamafactory")
	for name, c := range map[string]struct {
		rows int
		want string
	}{
		"identity": {91, ""}, "alpaca_en_demo": {999, ""}, "alpaca_zh_demo": {1000, ""},
		"glaive_toolcall_en_demo": {300, ""},
		"c4_demo":                 {300, ""}, "wiki_demo": {1, ""},
		"dpo_en_demo": {0, "preference pairs (dpo"}, "kto_en_demo": {0, "(kto)"}, "mllm_demo": {0, "only text"},
		"alpaca_en": {0, "nothing is downloaded"}, "glaive_toolcall_zh_demo": {0,
			"glaive_toolcall_zh_demo.json does not exist"}, "the_stack": {0, "nothing is downloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			m := model(1 << 17)
			corpus, err := Load(t.Context(), Config{Paths: []string{name}, Dir: dir}, m)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if corpus.Report.Examples != c.rows {
				t.Errorf("%d examples, want %d", corpus.Report.Examples, c.rows)
			}
			if err := corpus.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// counted returns how often each answer occurs in the rows to train on, and to evaluate on.
func counted(t *testing.T, c Config, seed uint64) (train, eval map[string]int) {
	t.Helper()
	m := model(32)
	m.Seed, c.NoPacking = seed, true
	corpus := load(t, c, m)
	train, eval = map[string]int{}, map[string]int{}
	for _, row := range texts(t, corpus.Train) {
		train[row[strings.Index(row, "["):]]++
	}
	for _, row := range texts(t, corpus.Eval) {
		eval[row[strings.Index(row, "["):]]++
	}
	return train, eval
}

func TestWeightsAreSharesOfTheExamples(t *testing.T) {
	files := map[string]string{"dataset_info.json": `{"some": {"file_name": "a.jsonl", "columns": {"prompt": ` +
		`"prompt", "response": "completion"}, "num_samples": 30}}`}
	for _, set := range []string{"a", "b"} {
		for i := range 100 {
			files[set+".jsonl"] += fmt.Sprintf(pairRow, "q", fmt.Sprintf("%s%d", set, i))
		}
	}
	dir := folder(t, files)
	a, b, one := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl"),
		filepath.Join(folder(t, map[string]string{"e.jsonl": fmt.Sprintf(pairRow, "q", "e")}), "e.jsonl")
	for name, c := range map[string]struct {
		paths []string
		a, b  int // rows of each
		most  int // of one example
	}{
		"once":          {[]string{a, b}, 100, 100, 1},
		"a share":       {[]string{a + "@0.3", b}, 30, 100, 1},
		"several times": {[]string{a + "@2.5"}, 250, 0, 3},
		"one of many":   {[]string{a + "@0.0001"}, 1, 0, 1},
		"by number":     {[]string{"some"}, 30, 0, 1},
		"of the number": {[]string{"some@2"}, 60, 0, 1},
		"above all":     {[]string{"some@5"}, 150, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{Paths: c.paths, Eval: []string{one}, Dir: dir}
			train, _ := counted(t, config, 1)
			rows, most := map[byte]int{}, 0
			for answer, n := range train {
				rows[answer[1]] += n
				most = max(most, n)
			}
			if rows['a'] != c.a || rows['b'] != c.b || most != c.most {
				t.Errorf("%v rows, one %d times; want %d, %d and %d", rows, most, c.a, c.b, c.most)
			}
			again, _ := counted(t, config, 1)
			if fmt.Sprint(again) != fmt.Sprint(train) {
				t.Error("the same seed chose others")
			}
		})
	}
	x, _ := counted(t, Config{Paths: []string{a + "@0.3"}, Eval: []string{one}}, 1)
	y, _ := counted(t, Config{Paths: []string{a + "@0.3"}, Eval: []string{one}}, 2)
	if fmt.Sprint(x) == fmt.Sprint(y) {
		t.Error("two seeds chose the same")
	}
}

// What is held out is not trained on, not even where examples are repeated.
func TestHeldOutExamplesAreNotTrainedOn(t *testing.T) {
	lines := map[string]string{}
	for i := range 200 {
		lines["a.jsonl"] += fmt.Sprintf(pairRow, "q", fmt.Sprint("a", i))
		lines["b.jsonl"] += fmt.Sprintf(pairRow, "q", fmt.Sprint("b", i))
	}
	dir := folder(t, lines)
	train, eval := counted(t, Config{Paths: []string{filepath.Join(dir, "a.jsonl@3"), filepath.Join(dir, "b.jsonl@0.5")}},
		4)
	n := 0
	for answer, times := range eval {
		n += times
		if train[answer] > 0 {
			t.Errorf("%s is held out and trained on", answer)
		}
	}
	if n != 15 { // a twentieth of 200 + 100
		t.Errorf("%d held out", n)
	}
	few := filepath.Join(folder(t, map[string]string{"a.jsonl": fmt.Sprintf(pairRow, "q", "a") +
		fmt.Sprintf(pairRow, "q", "b")}), "a.jsonl")
	if train, eval := counted(t, Config{Paths: []string{few + "@5"}}, 1); len(train) != 1 || len(eval) != 1 ||
		fmt.Sprint(train) == fmt.Sprint(eval) {
		t.Errorf("of two examples: %v to train on, %v to evaluate on", train, eval)
	}
	one := filepath.Join(folder(t, map[string]string{"a.jsonl": fmt.Sprintf(pairRow, "q", "a")}), "a.jsonl")
	if train, eval := counted(t, Config{Paths: []string{one + "@5"}}, 1); train["[a|]"] != 5 || len(eval) != 0 {
		t.Errorf("of one example: %v to train on, %v to evaluate on", train, eval)
	}
}
