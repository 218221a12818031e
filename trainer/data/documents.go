package data

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Document is one text to learn from, and where it came from.
type Document struct {
	Text string
	File string
	Line int // of File, from 1, where Text starts
}

// ReadDocuments reads the documents in a file, or in all *.txt and *.jsonl files of a
// folder, in the order of their names. Subfolders are not read.
//
// In a .jsonl file each line is a JSON object with the document in its field "text".
// Any other file is plain text: one document, or several with a line <|endoftext|>
// between them. Blank documents and blank lines of JSONL are left out. All text must
// be UTF-8; a byte order mark at the start of a file is ignored. Formats that hold text
// but are not prose, such as .json, are refused.
//
// Errors name the file and, where there is one, the line. Finding no document at all
// is an error.
func ReadDocuments(path string) ([]Document, error) {
	files, err := dataFiles(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	var docs []Document
	for _, file := range files {
		more, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		docs = append(docs, more...)
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("data: %s holds no text", path)
	}
	return docs, nil
}

// Skipped returns the names of what ReadDocuments leaves out of a folder, sorted, those
// of subfolders with a slash at the end. Nothing is left out of a path to a file.
func Skipped(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if !info.IsDir() {
		return nil, nil
	}
	_, others, err := scanFolder(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return others, nil
}

// dataFiles returns path itself, or the data files in the folder at path.
func dataFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, others, err := scanFolder(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s holds no *.txt or *.jsonl file, %s", path, found(others))
	}
	return files, nil
}

// scanFolder returns the paths of a folder's data files and the names of all else.
func scanFolder(path string) (files, others []string, err error) {
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		switch {
		case e.IsDir():
			others = append(others, e.Name()+"/")
		case slices.Contains([]string{".txt", ".jsonl"}, extension(e.Name())):
			files = append(files, filepath.Join(path, e.Name()))
		default:
			others = append(others, e.Name())
		}
	}
	return files, others, nil
}

// found says what a folder without data has instead.
func found(names []string) string {
	const most = 8
	switch n := len(names); {
	case n == 0:
		return "it is empty"
	case n > most:
		return fmt.Sprintf("only %s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return "only " + strings.Join(names, ", ")
}

func extension(name string) string { return strings.ToLower(filepath.Ext(name)) }

// readFile reads one file. Its errors start with the file, then the line if there is one.
func readFile(path string) ([]Document, error) {
	if err := checkFormat(path); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if isBinary(raw) {
		return nil, fmt.Errorf("%s is binary; want text (.txt) or JSONL (.jsonl)", path)
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if err := checkUTF8(raw); err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	parse := parseText
	if extension(path) == ".jsonl" {
		parse = parseJSONL
	}
	docs, err := parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	for i := range docs {
		docs[i].File = path
	}
	return docs, nil
}

// checkFormat refuses formats whose braces, commas or bytes would be learned as prose.
func checkFormat(path string) error {
	const convert = `convert it to .jsonl, with a line {"text": "..."} for each document`
	switch ext := extension(path); ext {
	case ".json", ".csv":
		return fmt.Errorf("%s: a %s file would be trained on as prose: %s, or rename it to .txt to train on it as it is", path, ext, convert)
	case ".parquet":
		return fmt.Errorf("%s: %s files cannot be read: %s", path, ext, convert)
	}
	return nil
}

// isBinary recognizes Parquet, gzip, and whatever else has a zero byte near its start.
// Text in UTF-16 is full of those as well: its byte order mark leaves it to checkUTF8,
// which knows what to do about it.
func isBinary(raw []byte) bool {
	starts := func(magic string) bool { return bytes.HasPrefix(raw, []byte(magic)) }
	if starts("\xff\xfe") || starts("\xfe\xff") {
		return false
	}
	const near = 8000 // as far as git looks
	return starts("PAR1") && bytes.HasSuffix(raw, []byte("PAR1")) || starts("\x1f\x8b\x08") ||
		bytes.IndexByte(raw[:min(len(raw), near)], 0) >= 0
}

// checkUTF8 returns an error that starts with the line and column of the first
// invalid byte.
func checkUTF8(raw []byte) error {
	if utf8.Valid(raw) {
		return nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line := 1 + bytes.Count(raw[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(raw[:at], '\n')
	return fmt.Errorf("%d:%d: invalid UTF-8 (byte %#02x); convert the file to UTF-8", line, column, raw[at])
}
