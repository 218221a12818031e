package format

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/data/records"
)

// Every published data set is read whole, or refused for what it is.
func TestRealDataSets(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets")
	for name, c := range map[string]struct {
		format  Format
		rows    int
		refused string
	}{
		"alpaca/seed_tasks.jsonl":                           {refused: "no known format"},
		"dolly/dolly_sample_prompt_answer.jsonl":            {format: Prompt, rows: 151},
		"fastchat/dummy_conversation.json":                  {format: ShareGPT, rows: 500},
		"fastchat/dummy_conversation.sharegpt.jsonl":        {format: ShareGPT, rows: 500},
		"gsm8k/train.jsonl":                                 {format: Prompt, rows: 7473},
		"gsm8k/test.jsonl":                                  {format: Prompt, rows: 1319},
		"llamafactory/alpaca_en_demo.alpaca.jsonl":          {format: Alpaca, rows: 999},
		"llamafactory/alpaca_en_demo.json":                  {format: Alpaca, rows: 999},
		"llamafactory/alpaca_zh_demo.json":                  {format: Alpaca, rows: 1000},
		"llamafactory/identity.json":                        {format: Alpaca, rows: 91},
		"llamafactory/glaive_toolcall_en_demo.json":         {format: ShareGPT, rows: 300},
		"llamafactory/v1_sft_demo.jsonl":                    {format: Messages, rows: 500},
		"llamafactory/reason_tool_use_demo_50.jsonl":        {format: Messages, rows: 50},
		"llamafactory/c4_demo.jsonl":                        {format: Text, rows: 300},
		"llamafactory/wiki_demo.txt":                        {format: Text, rows: 1},
		"llamafactory/dpo_en_demo.json":                     {refused: "preference pairs (dpo"},
		"llamafactory/v1_dpo_demo.jsonl":                    {refused: "preference pairs (dpo"},
		"llamafactory/kto_en_demo.json":                     {refused: "good or bad (kto)"},
		"mlx_wikisql/train.jsonl":                           {format: Text, rows: 1000},
		"mlx_wikisql/valid.jsonl":                           {format: Text, rows: 100},
		"mlx_wikisql/test.jsonl":                            {format: Text, rows: 100},
		"openai_messages/alpaca_en_demo.messages.jsonl":     {format: Messages, rows: 999},
		"openai_messages/gsm8k_test.messages.jsonl":         {format: Messages, rows: 1319},
		"openai_messages/gsm8k_train_2000.messages.jsonl":   {format: Messages, rows: 2000},
		"openai_messages/toy_chat_fine_tuning.first4.jsonl": {format: Messages, rows: 4},
		"openai_messages/vicuna_identity.messages.jsonl":    {format: Messages, rows: 500},
		"parquet/gsm8k_test.arrowrs.snappy.parquet":         {format: Prompt, rows: 1319},
		"parquet/gsm8k_test.arrowrs.zstd.parquet":           {format: Prompt, rows: 1319},
		"parquet/gsm8k_test.duckdb.gzip.parquet":            {format: Prompt, rows: 1319},
		"parquet/gsm8k_test.duckdb.snappy.parquet":          {format: Prompt, rows: 1319},
		"parquet/gsm8k_test.duckdb.uncompressed.parquet":    {format: Prompt, rows: 1319},
		"parquet/gsm8k_test.duckdb.zstd.parquet":            {format: Prompt, rows: 1319},
		"parquet/gsm8k_test.messages.duckdb.snappy.parquet": {format: Messages, rows: 1319},
		"parquet/tinystories_500.duckdb.snappy.parquet":     {format: Text, rows: 500},
		"text/tinyshakespeare.txt":                          {format: Text, rows: 1},
		"tinystories/tinystoriesV2_10k_lines.txt":           {format: Text, rows: 1728},
		"tinystories/tinystories_2MiB.text.jsonl":           {format: Text, rows: 2316},
		"tinystories/tinystories_2MiB.txt":                  {format: Text, rows: 2317},
	} {
		t.Run(name, func(t *testing.T) {
			rows, format := 0, Format("")
			err := read(filepath.Join(dir, filepath.FromSlash(name)), func(l Layout, e Example) {
				if rows++; e.Chat == nil && strings.TrimSpace(e.Text) == "" {
					t.Errorf("row %d is empty", rows)
				}
				format = l.Format
			})
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("error %v, want %q", err, c.refused)
				}
				return
			}
			if err != nil || rows != c.rows || format != c.format {
				t.Errorf("%d rows of %s, %v; want %d of %s", rows, format, err, c.rows, c.format)
			}
		})
	}
}

// read detects a file's format and reads every row.
func read(path string, example func(Layout, Example)) error {
	var l Layout
	for r, err := range records.Read(path) {
		if err == nil && l.Format == "" {
			l, err = Detect(Auto, r)
		}
		if err != nil {
			return err
		}
		e, err := l.Example(r)
		if err != nil {
			return err
		}
		example(l, e)
	}
	return nil
}

// The same conversations exist in several formats, made independently.
func TestFormatsOfTheSameDataAgree(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets")
	for _, pair := range [][2]string{
		{"llamafactory/alpaca_en_demo.json", "openai_messages/alpaca_en_demo.messages.jsonl"},
		{"fastchat/dummy_conversation.json", "openai_messages/vicuna_identity.messages.jsonl"},
		{"parquet/gsm8k_test.messages.duckdb.snappy.parquet", "openai_messages/gsm8k_test.messages.jsonl"},
	} {
		var texts [2][]string
		for i, name := range pair {
			if err := read(filepath.Join(dir, filepath.FromSlash(name)),
				func(_ Layout, e Example) { texts[i] = append(texts[i], show(t, e)) }); err != nil {
				t.Fatal(err)
			}
		}
		if len(texts[0]) != len(texts[1]) {
			t.Fatalf("%v: %d and %d rows", pair, len(texts[0]), len(texts[1]))
		}
		for i := range texts[0] {
			if texts[0][i] != texts[1][i] {
				t.Fatalf("%v: row %d:\n%s\n%s", pair, i+1, texts[0][i], texts[1][i])
			}
		}
	}
}
