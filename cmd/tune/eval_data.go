package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// heldOut is what a model is measured on.
type heldOut struct {
	rows      []data.Row
	questions []question
	tooLong   int // questions that are in no row
}

// question is a prompt and the answer that is expected.
type question struct {
	prompt []int32
	answer string
}

// read reads the data: questions, where a JSONL file has them, or else documents.
func (e *evalFlags) read(tok *tokenizer.Tokenizer) (*heldOut, error) {
	pairs, err := readPairs(e.data)
	if err != nil {
		return nil, err
	}
	eos, pad := data.None, data.None
	if id, ok := tok.EOS(); ok {
		eos = id
	}
	if id, ok := tok.Pad(); ok {
		pad = id
	}
	h := &heldOut{}
	if pairs == nil {
		docs, err := data.ReadDocuments(e.data)
		if err == nil {
			h.rows, err = data.Pack(data.Tokenize(tok, docs, eos), e.seq, pad)
		}
		return h, err
	}
	for _, p := range pairs {
		q := question{prompt: tok.Encode(p.Prompt, true), answer: p.answer()}
		h.questions = append(h.questions, q)
		row, ok, err := q.row(tok, e.seq, eos, pad)
		if err != nil {
			return nil, err
		}
		if !ok {
			h.tooLong++
			continue
		}
		h.rows = append(h.rows, row)
	}
	return h, nil
}

// row returns a row in which only the answer and the token that ends it are labels, and
// false if it is too long.
func (q question) row(tok *tokenizer.Tokenizer, seq int, eos, pad int32) (data.Row, bool, error) {
	ids := append(q.prompt[:len(q.prompt):len(q.prompt)], tok.Encode(q.answer, false)...)
	if eos != data.None {
		ids = append(ids, eos)
	}
	if len(ids) > seq {
		return data.Row{}, false, nil
	}
	rows, err := data.Pack([][]int32{ids}, seq, pad)
	if err != nil || len(rows) == 0 {
		return data.Row{}, false, err
	}
	for i := range q.prompt {
		rows[0].Labels[i] = data.Ignore
	}
	return rows[0], true, nil
}

// pair is a row of a JSONL file.
type pair struct {
	Prompt     string `json:"prompt"`
	Answer     string `json:"answer"`
	Completion string `json:"completion"`
	Response   string `json:"response"`
}

func (p pair) answer() string { return cmp.Or(p.Answer, p.Completion, p.Response) }

// readPairs returns the rows of a JSONL file if the first is a prompt with an answer;
// otherwise none.
func readPairs(path string) ([]pair, error) {
	if !strings.HasSuffix(path, ".jsonl") {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var pairs []pair
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var p pair
		err := json.Unmarshal(lines.Bytes(), &p)
		if p.Prompt == "" || p.answer() == "" {
			if pairs == nil {
				return nil, nil
			}
			return nil, fmt.Errorf("%s:%d: a row without a prompt or an answer, among rows that have them", path, n)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		pairs = append(pairs, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pairs, nil
}
