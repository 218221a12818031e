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
// be UTF-8; a byte order mark at the start of a file is ignored.
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

// dataFiles returns path itself, or the data files in the folder at path.
func dataFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".txt", ".jsonl"}, extension(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("folder %s holds no *.txt or *.jsonl file", path)
	}
	return files, nil
}

func extension(name string) string { return strings.ToLower(filepath.Ext(name)) }

// readFile reads one file. Its errors start with "file:line:".
func readFile(path string) ([]Document, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
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
